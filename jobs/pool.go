package jobs

import (
	"errors"
	"fmt"

	"github.com/cronlease/cronlease/internal/names"
)

// Pool limits how many runs go on at a time in a whole group, of all jobs that are in it. The leader counts them, also over a change of leader, and
// a run that finds the pool full waits as one does that finds no slot ([Job].Priority). All jobs of a pool should have the same Limit: each of
// them waits for its own. The zero value is no pool.
type Pool struct {
	Name string
	// Limit is at least 1.
	Limit int
}

func (p Pool) validate() error {
	switch {
	case p == Pool{}:
		return nil
	case !names.Valid(p.Name):
		return errors.New("Pool: its name must be 1 to 128 letters, digits and . _ : / @ + -, the first a letter or a digit")
	case p.Limit < 1:
		return fmt.Errorf("Pool %q: Limit %d: must be at least 1", p.Name, p.Limit)
	}
	return nil
}
