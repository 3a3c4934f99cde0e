package jobs

import (
	"context"
	"fmt"
	"time"
)

// MaxAttempts is how many attempts at one run a ledger keeps: the last ones.
const MaxAttempts = 100

// Attempt is one start of a run, as the ledger has it. It is a plain value.
type Attempt struct {
	// Number counts from 1.
	Number int
	// State is how it ended: an outcome, Interrupted if its term did not finish it, or
	// Running while it goes on.
	State State
	// Owner and Token name its term.
	Owner string
	Token uint64
	// Started and Finished are by the database's clock. Finished is zero while it goes
	// on, and if it was interrupted: then nobody knows.
	Started, Finished time.Time
	// Error is why it did not succeed; at most 2000 bytes.
	Error string
	// Output is the end of what it wrote to its [Output]; at most [MaxOutput] bytes, of
	// any kind.
	Output []byte
}

// Attempts reads the attempts at a run, the first ones first. It has none while the run has
// never been started. [ErrNoRun]: there is no run under the key. The error matches
// [errors.ErrUnsupported] if the store keeps none.
func (g Group) Attempts(ctx context.Context, key Key) ([]Attempt, error) {
	archive, err := g.archive()
	if err != nil {
		return nil, err
	}
	return archive.Attempts(ctx, g.name, key)
}

// Output reads what the last attempt at a run that has ended wrote to its [Output]:
// the end of it, at most [MaxOutput] bytes of any kind; nil: nothing. Errors are as of
// [Group.Attempts].
func (g Group) Output(ctx context.Context, key Key) ([]byte, error) {
	attempts, err := g.Attempts(ctx, key)
	for i := len(attempts) - 1; err == nil && i >= 0; i-- {
		if attempts[i].State != Running {
			return attempts[i].Output, nil
		}
	}
	return nil, err
}

// Run reads a run. [ErrNoRun]: there is none under the key.
func (g Group) Run(ctx context.Context, key Key) (Record, error) {
	if g.ledger == nil {
		return Record{}, errNoLedger
	}
	// The runs of one tick are few, unless many were triggered in one microsecond.
	const most = 10_000
	records, err := g.ledger.Runs(ctx, g.name, Filter{Job: key.Job, Since: key.Tick, Until: key.Tick.Add(time.Microsecond), Limit: most})
	if err != nil {
		return Record{}, err
	}
	for _, r := range records {
		if r.Trigger == key.Trigger {
			return r, nil
		}
	}
	return Record{}, fmt.Errorf("%w: tick %s of job %q in group %q", ErrNoRun, key.Tick.UTC().Format(time.RFC3339Nano), key.Job, g.name)
}
