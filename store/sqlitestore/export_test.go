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
