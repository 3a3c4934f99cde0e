package jobs

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"time"
)

// Job is what to run and when. It is declared once, in code that is the same on
// every replica, and not changed after it was given to a scheduler.
type Job struct {
	// Name identifies the job within its group, for ever: 1 to 128 ASCII
	// letters, digits and . _ : / @ + -.
	Name string
	// Schedule says which instants are ticks of the job.
	Schedule Schedule
	// Timeout bounds one run: its context then ends with the cause
	// [ErrTimeout]. Zero means no limit but the term's.
	Timeout time.Duration
	// Do does the work. It has to return soon after ctx has ended:
	// [context.Cause] says why it did. A panic is recovered and counts as an
	// error ([PanicError]).
	Do func(ctx context.Context, run Run) error
}

// Run says which run of which tick a [Job] is asked to do.
type Run struct {
	Group string
	Job   string
	// Tick is the planned instant, in UTC. It is the same on every replica,
	// however late the run starts.
	Tick time.Time
	// Owner and Token name the term that the run belongs to. Hand the token to
	// whatever the job writes to, so that it can refuse older ones.
	Owner string
	Token uint64
	// Attempt counts the runs of this tick, from 1.
	Attempt int
}

// ErrTimeout is the cause of a context that ended because a run reached its
// job's Timeout.
var ErrTimeout = errors.New("jobs: timeout")

// PanicError is the error of a run that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("jobs: panic: %v", e.Value) }

// Unwrap returns the value if the job panicked with an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

var nameRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$`)

// Validate reports what keeps the job from being scheduled.
func (j Job) Validate() error {
	switch {
	case !nameRule.MatchString(j.Name):
		return fmt.Errorf("jobs: name %.150q: must be 1 to 128 letters, digits and . _ : / @ + -, the first a letter or a digit", j.Name)
	case j.Schedule == nil:
		return fmt.Errorf("jobs: job %q: no Schedule: give it one, for example jobs.Every(time.Minute)", j.Name)
	case j.Do == nil:
		return fmt.Errorf("jobs: job %q: no Do: give it the function to run", j.Name)
	case j.Timeout < 0:
		return fmt.Errorf("jobs: job %q: Timeout %v: must not be negative", j.Name, j.Timeout)
	}
	if v, ok := j.Schedule.(interface{ Err() error }); ok && v.Err() != nil {
		return fmt.Errorf("jobs: job %q: %w", j.Name, v.Err())
	}
	return nil
}

// Call runs the job's function and turns a panic into a [*PanicError], so that
// one job never takes its process down, and then the next leader's.
func (j Job) Call(ctx context.Context, run Run) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return j.Do(ctx, run)
}
