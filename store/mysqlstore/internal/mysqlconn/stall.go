package mysqlconn

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/retry"
)

const (
	// stallLeast is how long a session has to be busy to be named. The server counts the
	// boundaries of seconds, and a commit that a replica acknowledges in time passes one now and then.
	stallLeast = 2 * time.Second
	// commitLeast is how long one has to be seen in its commit: the server counts from the
	// beginning of the statement, which may have worked for long before it.
	commitLeast = 250 * time.Millisecond
)

// Stall is a statement on the server that no other session holds up: its commit waits for a
// replica's acknowledgement, or its write for room on the disk, or for a commit before it that
// does so. It keeps its rows locked, and to
// kill its session does harm: others then see a commit that a promotion loses, or a part of
// the binary log is missing.
type Stall struct {
	ID                int64 // of the session
	User, State, Info string
	For               time.Duration
}

// The states of such a session: of a commit that waits for an acknowledgement, of a write that
// waits for room, and of any commit. MySQL shows nothing else of one that waits for room, and
// neither server of one that waits for the commit of another session, which the account may not see.
const (
	waitsForAck = "Waiting for semi-sync ACK"

	spaceMariaDB = "Waiting for someone to free space"
	spaceMySQL   = "Waiting for disk space"

	commitMariaDB = "Commit"
	commitMySQL   = "waiting for handler commit"
)

// Without the privilege PROCESS a user sees the sessions of its own account, which are
// those of the workers. What says most comes first.
const stalls = `
SELECT id, user, time, state, LEFT(COALESCE(info, ''), 80)
FROM information_schema.processlist
WHERE (state LIKE '` + waitsForAck + `%' OR state IN ('` + spaceMariaDB + `', '` + spaceMySQL + `', '` + commitMariaDB + `', '` + commitMySQL + `')) AND time >= ?
ORDER BY state IN ('` + commitMariaDB + `', '` + commitMySQL + `'), time DESC LIMIT 1`

// Stall returns the one that has lasted longest; nil: there is none that this account may see.
func (c *Conn) Stall(ctx context.Context) *Stall {
	s := c.stall(ctx)
	if s == nil || !s.isCommit() || retry.Sleep(ctx, commitLeast) != nil {
		return s
	}
	if again := c.stall(ctx); again == nil || again.ID != s.ID || again.Info != s.Info {
		return nil
	}
	return s
}

func (c *Conn) stall(ctx context.Context) *Stall {
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
	what := "commits hang: the server's disk is full, or they wait for one that no replica acknowledges"
	switch {
	case s.isUnacknowledged():
		what = "commits hang: no replica acknowledges them"
	case s.isFull():
		what = "the server's disk is full"
	}
	return fmt.Sprintf("%s (session %d of user %s has been in the state %q for %v with %q)", what, s.ID, s.User, s.State, s.For, s.Info)
}

// Cure is what ends it.
func (s *Stall) Cure() string {
	const (
		room    = "make room on the server's disk (PURGE BINARY LOGS, other files): what waits goes on within a minute. "
		replica = "start a replica that acknowledges, or mend its way to the server; or, if a loss of this server may cost its last commits, switch semi-synchronous replication off (rpl_semi_sync_master_enabled = OFF, MySQL: rpl_semi_sync_source_enabled), which lets them all go on. "
		unseen  = "Do not KILL the session: others then see a commit that a promotion loses"
	)
	switch {
	case s.isUnacknowledged():
		return replica + unseen
	case s.isFull():
		return room + "Do not KILL the session"
	}
	return "if the server's log says that its disk is full, " + room + "Otherwise " + replica + unseen
}

func (s *Stall) isUnacknowledged() bool { return strings.HasPrefix(s.State, waitsForAck) }

func (s *Stall) isFull() bool { return s.State == spaceMariaDB || s.State == spaceMySQL }

func (s *Stall) isCommit() bool { return s.State == commitMariaDB || s.State == commitMySQL }
