package sqlitestore

import (
	"context"
	"fmt"

	"github.com/cronlease/cronlease/store"
)

// SteppedClock is the clock plus what the table stepped says, for tests that
// step the clock of all processes that use one file.
const SteppedClock = clock + " + (SELECT micros FROM stepped)"

// OpenWithClock is Open with another expression for the clock.
func OpenWithClock(path, clock string) (*Store, error) { return open(path, clock) }

// Newest is the version of the tables that this program makes.
var Newest = len(steps)

// Version1 makes the tables as version 1 of them was.
var Version1 = createSchema + steps[0].Text + "UPDATE cronlease_schema SET version = 1"

// Lose ends what a signal shows, as the end of its process does.
func Lose(b store.HandoverSignal) error { return b.(*signal).shown.hide() }

// Renewal is the statement of Renew.
func (s *Store) Renewal() string { return s.sql.renew }

// Statements are the hot ones of the ledger, by name.
func (s *Store) Statements() map[string]string {
	return map[string]string{
		"group": s.runs.group, "jobs": s.runs.jobs, "jobs of": s.runs.jobsOf, "open runs": s.runs.openRuns, "count open": s.runs.countOpen,
		"read runs": s.runs.readRuns, "runs at": s.runs.runsAt, "runs later": s.runs.runsLater, "args": s.runs.args,
		"rekey": s.runs.rekey, "rewind": s.runs.rewind, "set paused": s.runs.setPaused, "prune": s.runs.prune,
		"newest": s.runs.newest, "newest of job": s.runs.newestOfJob, "newest of state": s.runs.newestOfState,
	}
}

// LockStatements are those of locks, by name.
func (s *Store) LockStatements() map[string]string {
	return map[string]string{
		"read": s.locking.read, "insert": s.locking.insert, "update": s.locking.update, "idle": s.locking.idle,
		"prune locks": s.locking.pruneLocks, "prune leases": s.locking.pruneLeases, "prune fences": s.locking.pruneFences,
	}
}

// InUse is how many connections the package's own statements have.
func (s *Store) InUse() int { return s.own.Stats().InUse }

// LimitPages lets the file have so many pages at most; none is less than it has.
// The store keeps to one connection from then on, since each has its own limit.
func (s *Store) LimitPages(ctx context.Context, most int) error {
	s.own.SetMaxOpenConns(1)
	_, err := s.own.ExecContext(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", most))
	return err
}

// JudgeGrowth and JudgeDisk are what Examine says of sizes.
var (
	JudgeGrowth = judgeGrowth
	JudgeDisk   = judgeDisk
)
