package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cronlease/cronlease/internal/spelling"
)

// Group gives access to a group's jobs from outside: it queries and controls them
// through the database, whichever replica leads. It is a small value, safe for
// concurrent use.
type Group struct {
	ledger Control
	name   string
}

var errNoLedger = errors.New("jobs: the group has no ledger: give NewGroup a store")

// NewGroup returns the jobs of a group; every store is a [Control]. Without a ledger, as in the zero Group,
// every method returns an error.
func NewGroup(ledger Control, name string) Group { return Group{ledger, name} }

// Pause stops the ticks of a job, or of the whole group when job is empty, until
// Resume. Ticks of the paused time are recorded as skipped; what runs goes on. An
// unknown job is an error that matches [ErrNoJob] and lists the near names.
func (g Group) Pause(ctx context.Context, job string) error {
	if g.ledger == nil {
		return errNoLedger
	}
	return g.explain(ctx, job, g.ledger.Pause(ctx, g.name, job))
}

// Resume is the end of Pause. Its errors are those of Pause.
func (g Group) Resume(ctx context.Context, job string) error {
	if g.ledger == nil {
		return errNoLedger
	}
	return g.explain(ctx, job, g.ledger.Resume(ctx, g.name, job))
}

// ResumeSkipping is Resume for a job or group whose ticks from before the pause are
// not wanted either: those that have no row yet are recorded as skipped, instead
// of going through the misfire policy. Use it after a restore, so that ticks which
// ran since the backup do not run again.
func (g Group) ResumeSkipping(ctx context.Context, job string) error {
	if g.ledger == nil {
		return errNoLedger
	}
	return g.explain(ctx, job, g.ledger.ResumeSkipping(ctx, g.name, job))
}

// SetSpread sets the mode of the group: whether its runs are spread over its replicas, or its leader runs them all. The
// present leader hands over to a replica of that mode: one that assigned runs waits until they have ended, any other one for
// its drain. Replicas of the other mode do not lead from then on. The error matches [errors.ErrUnsupported] if the store
// cannot spread runs.
func (g Group) SetSpread(ctx context.Context, on bool) error {
	if g.ledger == nil {
		return errNoLedger
	}
	spreads, ok := g.ledger.(interface {
		SetSpread(ctx context.Context, group string, on bool) error
	})
	if !ok {
		return fmt.Errorf("jobs: this store cannot spread runs over replicas: %w", errors.ErrUnsupported)
	}
	return spreads.SetSpread(ctx, g.name, on)
}

// Trigger asks for a run of the job now, beside its schedule, and returns its
// key. The leader starts it as soon as it notices, once; also when the job is paused.
// If no replica has the job, the error matches [ErrNotDeclared]. If only replicas have it
// that do not lead, the run waits until one of them does, or goes there where runs are spread. The error matches [ErrNoJob] if
// the ledger does not know the job, and [ErrManyOpen] if too many of its runs wait or go on.
func (g Group) Trigger(ctx context.Context, job string) (Key, error) {
	return g.TriggerWith(ctx, job, nil)
}

// TriggerWith is Trigger of a run with arguments ([Run].Args): the value as JSON, at most
// 64 KiB, or a [json.RawMessage] as it is. Nil is none. All attempts at the run see them,
// and so do the jobs that follow in a pipeline.
func (g Group) TriggerWith(ctx context.Context, job string, args any) (Key, error) {
	if g.ledger == nil {
		return Key{}, errNoLedger
	}
	raw, err := encodeArgs(args)
	if err != nil {
		return Key{}, err
	}
	if err := g.checkDeclared(ctx, job); err != nil {
		return Key{}, err
	}
	key, err := g.ledger.Trigger(ctx, g.name, job, Request{Args: raw})
	return key, g.explain(ctx, job, err)
}

// Args reads the arguments of a run ([Record].HasArgs); nil: it has none. [ErrNoRun]:
// there is no such run.
func (g Group) Args(ctx context.Context, key Key) (json.RawMessage, error) {
	if g.ledger == nil {
		return nil, errNoLedger
	}
	return g.ledger.Args(ctx, g.name, key)
}

// Cancel asks for the end of a run that is not over: its context ends with
// [ErrCancelled] as soon as the leader notices. Once Cancel has returned nil, no further
// attempt at the run starts.
func (g Group) Cancel(ctx context.Context, key Key) error {
	if g.ledger == nil {
		return errNoLedger
	}
	err := g.ledger.Cancel(ctx, g.name, key)
	if !errors.Is(err, ErrNoRun) {
		return err
	}
	snapshot, loadErr := g.ledger.Load(ctx, g.name)
	if loadErr != nil {
		return err
	}
	if _, ok := snapshot.Jobs[key.Job]; !ok {
		return noJob(snapshot, g.name, key.Job)
	}
	return err
}

// Runs reads the history, the newest first.
func (g Group) Runs(ctx context.Context, filter Filter) ([]Record, error) {
	if g.ledger == nil {
		return nil, errNoLedger
	}
	return g.ledger.Runs(ctx, g.name, filter)
}

// Load reads every job that the ledger knows, and the runs that are not over.
func (g Group) Load(ctx context.Context) (Snapshot, error) {
	if g.ledger == nil {
		return Snapshot{}, errNoLedger
	}
	return g.ledger.Load(ctx, g.name)
}

func (g Group) explain(ctx context.Context, job string, err error) error {
	if !errors.Is(err, ErrNoJob) {
		return err
	}
	snapshot, loadErr := g.ledger.Load(ctx, g.name)
	if loadErr != nil {
		return err
	}
	return noJob(snapshot, g.name, job)
}

func noJob(snapshot Snapshot, group, job string) error {
	names := slices.Sorted(maps.Keys(snapshot.Jobs))
	near := spelling.Near(names, job)
	switch {
	case len(names) == 0:
		return fmt.Errorf("%w: %q in group %q: no job of the group has ever been led", ErrNoJob, job, group)
	case len(near) == 0:
		return fmt.Errorf("%w: %q in group %q: there are %s", ErrNoJob, job, group, strings.Join(first(names, 10), ", "))
	default:
		return fmt.Errorf("%w: %q in group %q: did you mean %s?", ErrNoJob, job, group, strings.Join(near, ", "))
	}
}

func first(names []string, n int) []string {
	if len(names) > n {
		return append(slices.Clone(names[:n]), "...")
	}
	return names
}
