package jobs

import (
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/internal/names"
)

// Pool limits the runs of a whole group, of all jobs that are in it: how many go on at a time, and how many begin in a
// time. The leader counts them, also over a change of leader, and a run that finds the pool full waits as one does that
// finds no slot ([Job].Priority). All jobs of a pool should have the same limits: each of them waits for its own. The
// zero value is no pool.
type Pool struct {
	Name string
	// Limit is how many runs go on at a time. Zero: any number, which Starts has to bound then.
	Limit int
	// Starts is how many attempts may begin in any time of the length Per, from 1 s to a day, by the instants of their
	// starts in the database. Zero: any number. A leader that takes over counts the last 1000 runs of each job, and the
	// attempts at a run as if all had begun with the last.
	Starts int
	Per    time.Duration
}

func (p Pool) validate() error {
	switch {
	case p == Pool{}:
		return nil
	case !names.Valid(p.Name):
		return errors.New("Pool: its name must be 1 to 128 letters, digits and . _ : / @ + -, the first a letter or a digit")
	case p.Limit < 0 || p.Limit == 0 && p.Starts == 0:
		return fmt.Errorf("Pool %q: Limit %d: must be at least 1, or zero beside Starts", p.Name, p.Limit)
	case p.Starts < 0:
		return fmt.Errorf("Pool %q: Starts %d: must not be negative", p.Name, p.Starts)
	case (p.Starts > 0) != (p.Per != 0):
		return fmt.Errorf("Pool %q: Starts %d, Per %v: must be set together", p.Name, p.Starts, p.Per)
	case p.Starts > 0 && (p.Per < time.Second || p.Per > 24*time.Hour):
		return fmt.Errorf("Pool %q: Per %v: must be from 1s to 24h", p.Name, p.Per)
	}
	return nil
}
