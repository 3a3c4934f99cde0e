package sqlitestore

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// SteppedClock is the clock plus what the table stepped says, for tests that
// step the clock of all processes that use one file.
const SteppedClock = clock + " + (SELECT micros FROM stepped)"

// OpenWithClock is Open with another expression for the clock.
func OpenWithClock(path, clock string) (*Store, error) { return open(path, clock) }

// Version1 makes the tables as version 1 of them was.
var Version1 = createSchema + migrations[0] + "UPDATE cronlease_schema SET version = 1"

// Renewal is the statement of Renew.
func (s *Store) Renewal() string { return s.sql.renew }

// Statements are the hot ones of the ledger, by name.
func (s *Store) Statements() map[string]string {
	return map[string]string{
		"declare": s.runs.declare, "current": s.runs.current, "group": s.runs.group, "jobs": s.runs.jobs, "open runs": s.runs.openRuns,
		"claim": s.runs.claim, "move": s.runs.move, "read runs": s.runs.readRuns, "pause job": s.runs.pauseJob,
		"trigger": s.runs.trigger, "cancel": s.runs.cancel, "prune": s.runs.prune,
		"newest": s.runs.newest, "newest of job": s.runs.newestOfJob, "newest of state": s.runs.newestOfState,
	}
}

// InUse is how many connections the package's own statements have.
func (s *Store) InUse() int { return s.own.Stats().InUse }

// Fill prepares groups in a file that SQLite may not let grow.
func (s *Store) Fill(ctx context.Context) error {
	s.own.SetMaxOpenConns(1)
	if _, err := s.own.ExecContext(ctx, "PRAGMA max_page_count = 1"); err != nil { // that is, the pages it has
		return err
	}
	for i := range 10000 {
		if err := s.Prepare(ctx, fmt.Sprint(strings.Repeat("x", 100), i), time.Second); err != nil {
			return err
		}
	}
	return nil
}
