package mysqlconn

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// stallLeast is how long a session has to be in such a state to be named. The server counts the
// boundaries of seconds, and a commit that a replica acknowledges in time passes one now and then.
const stallLeast = 2 * time.Second

// Stall is a statement on the server that no other session holds up: its commit waits for a
// replica's acknowledgement, or its write for room on the disk. It keeps its rows locked, and to
// kill its session does harm: others then see a commit that a promotion loses, or a part of
// the binary log is missing.
type Stall struct {
	ID                int64 // of the session
	User, State, Info string
	For               time.Duration
}

const (
	waitsForAck   = "Waiting for semi-sync ACK"
	waitsForSpace = "Waiting for someone to free space"

	// Without the privilege PROCESS a user sees the sessions of its own account, which are
	// those of the workers.
	stalls = `
SELECT id, user, time, state, LEFT(COALESCE(info, ''), 80) FROM information_schema.processlist
WHERE (state LIKE '` + waitsForAck + `%' OR state LIKE '` + waitsForSpace + `%') AND time >= ?
ORDER BY time DESC LIMIT 1`
)

// Stall returns the one that has lasted longest; nil: there is none that this account may see.
func (c *Conn) Stall(ctx context.Context) *Stall {
	var s Stall
	var seconds int64
	if c.conn.QueryRowContext(ctx, stalls, int(stallLeast/time.Second)).Scan(&s.ID, &s.User, &seconds, &s.State, &s.Info) != nil {
		return nil
	}
	s.For, s.Info = time.Duration(seconds)*time.Second, strings.Join(strings.Fields(s.Info), " ")
	return &s
}

// String says what waits for what.
func (s *Stall) String() string {
	what := "commits hang: no replica acknowledges them"
	if s.isFull() {
		what = "the server's disk is full"
	}
	return fmt.Sprintf("%s (session %d of user %s has been in the state %q for %v with %q)", what, s.ID, s.User, s.State, s.For, s.Info)
}

// Cure is what ends it.
func (s *Stall) Cure() string {
	if s.isFull() {
		return "make room on the server's disk (PURGE BINARY LOGS, other files): what waits goes on within a minute. Do not KILL the session"
	}
	return "start a replica that acknowledges, or mend its way to the server; or, if a loss of this server may cost its last commits, switch semi-synchronous replication off (rpl_semi_sync_master_enabled = OFF, MySQL: rpl_semi_sync_source_enabled), which lets them all go on. " +
		"Do not KILL the session: others then see a commit that a promotion loses"
}

func (s *Stall) isFull() bool { return strings.HasPrefix(s.State, waitsForSpace) }
