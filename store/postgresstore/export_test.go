package postgresstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/cronlease/cronlease/store"
)

// Newest is the version of the tables that this program makes.
var Newest = len(steps)

// WithSteppedClock has the database's clock be set off by what the table stepped says, and its server be another one with
// each start that this table counts.
func WithSteppedClock() Option {
	return func(o *options) {
		o.clock = clock + " + (SELECT micros FROM stepped)"
		o.server = server + " || (SELECT start::text FROM stepped)"
	}
}

// SessionPID is the server's process for the session of a store, if it has one.
func (s *Store) SessionPID(ctx context.Context) (pid uint32, ok bool) {
	s.mu.Lock()
	is := s.hears
	s.mu.Unlock()
	if is == nil || is.isOver() {
		return 0, false
	}
	err := is.do(ctx, func(_ context.Context, c *pgx.Conn) error { pid = c.PgConn().PID(); return nil })
	return pid, err == nil
}

// What judges findings.
var (
	JudgeOpen        = judgeOpen
	JudgeConnections = judgeConnections
	JudgeDurability  = judgeDurability
	JudgeReplication = judgeReplication
)

// Durability is what a crash loses.
func Durability(fsync, pages bool, commit, standbys string, sending int) durability {
	return durability{fsync, pages, commit, standbys, sending}
}

// JudgeGrowth judges tables.
func JudgeGrowth(runs, dead int64, table string, autovacuum bool, age int64) store.Finding {
	return judgeGrowth(growth{runs, dead, table, autovacuum, age})
}
