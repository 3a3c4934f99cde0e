package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store"
)

// Source is what the views read. Tests have one of their own.
type Source interface {
	// Leader is who leads the group.
	Leader(ctx context.Context) (election.Leadership, error)
	// Changes tells of requests, as that of a ledger.
	Changes(ctx context.Context) (store.Changes, error)
	// Load is every job that the ledger knows, and the runs that are not over. Of a large
	// group it takes longer than a view may.
	Load(ctx context.Context) (jobs.Snapshot, error)
	// Names are those of the jobs that the ledger knows.
	Names(ctx context.Context) (jobs.Names, error)
	// LoadOf is Load of some jobs.
	LoadOf(ctx context.Context, names []string) (jobs.Snapshot, error)
	// Roster is which replicas there are. It matches errors.ErrUnsupported where the store
	// does not know.
	Roster(ctx context.Context) (jobs.Roster, error)
	// Runs is the history, the newest first.
	Runs(ctx context.Context, filter jobs.Filter) ([]jobs.Record, error)
	// Run is one run.
	Run(ctx context.Context, key jobs.Key) (jobs.Record, error)
	// What follows matches errors.ErrUnsupported where the store does not keep it.

	// Terms are the terms, the newest first.
	Terms(ctx context.Context, filter jobs.TermFilter) ([]jobs.Term, error)
	// Newest are the newest runs of some jobs.
	Newest(ctx context.Context, of jobs.Newest) (map[string][]jobs.Record, error)
	// Counts counts runs.
	Counts(ctx context.Context, filter jobs.CountFilter) (jobs.Counts, error)
	// Attempts are those at a run.
	Attempts(ctx context.Context, key jobs.Key) ([]jobs.Attempt, error)
	// Audit is what was asked of the group, the newest first.
	Audit(ctx context.Context, filter jobs.AuditFilter) ([]jobs.AuditEntry, error)
	// PausedBy is the action that has paused the whole group.
	PausedBy(ctx context.Context) (jobs.AuditEntry, error)
	// Locks are the first locks behind a name that have holders or waiters.
	Locks(ctx context.Context, after string, limit int) ([]locks.Info, error)
	// Args are the arguments of a run; nil: it has none.
	Args(ctx context.Context, key jobs.Key) (json.RawMessage, error)
}

// steering is what the actions do.
type steering interface {
	Pause(ctx context.Context, job string) error
	Resume(ctx context.Context, job string) error
	ResumeSkipping(ctx context.Context, job string) error
	TriggerWith(ctx context.Context, job string, args any) (jobs.Key, error)
	Cancel(ctx context.Context, key jobs.Key) error
	CancelBackfills(ctx context.Context, job string) (int, error)
	Backfill(ctx context.Context, job string, b jobs.Backfill) (jobs.Backfilled, error)
	PlanBackfill(ctx context.Context, job string, b jobs.Backfill) (jobs.Backfilled, error)
	Forget(ctx context.Context, job string) error
	Resign(ctx context.Context) error
}

var (
	_ Source   = (*database)(nil)
	_ steering = (*database)(nil)
)

// database is the group in its store.
type database struct {
	jobs.Group
	store store.Jobs
	name  string
	// told is the roster as it was read last: lists of jobs that have not changed are not read again.
	told atomic.Pointer[jobs.Roster]
}

func (d *database) Roster(ctx context.Context) (jobs.Roster, error) {
	registry, ok := d.store.(jobs.Registry)
	if !ok {
		return d.Group.Roster(ctx) // which says so
	}
	var known jobs.Roster
	if told := d.told.Load(); told != nil {
		known = *told
	}
	roster, err := registry.Roster(ctx, d.name, known)
	if err == nil {
		d.told.Store(&roster)
	}
	return roster, err
}

// Names reads all jobs where the store has no other way.
func (d *database) Names(ctx context.Context) (jobs.Names, error) {
	names, err := d.Group.Names(ctx)
	if !errors.Is(err, errors.ErrUnsupported) {
		return names, err
	}
	snapshot, err := d.Load(ctx)
	names.All = slices.Sorted(maps.Keys(snapshot.Jobs))
	for _, known := range snapshot.Jobs {
		if known.Paused {
			names.Paused++
		}
	}
	return names, err
}

// LoadOf reads all jobs where the store has no other way.
func (d *database) LoadOf(ctx context.Context, names []string) (jobs.Snapshot, error) {
	snapshot, err := d.Group.LoadOf(ctx, names)
	if !errors.Is(err, errors.ErrUnsupported) {
		return snapshot, err
	}
	snapshot, err = d.Load(ctx)
	maps.DeleteFunc(snapshot.Jobs, func(name string, _ jobs.Known) bool { return !slices.Contains(names, name) })
	return snapshot, err
}

func (d *database) Leader(ctx context.Context) (election.Leadership, error) {
	return election.Leader(ctx, d.store, d.name)
}

func (d *database) Changes(ctx context.Context) (store.Changes, error) {
	return d.store.Changes(ctx, d.name)
}

func (d *database) Locks(ctx context.Context, after string, limit int) ([]locks.Info, error) {
	db, ok := d.store.(store.Locks)
	if !ok {
		return nil, errNoLocks
	}
	return locks.List(ctx, db, after, limit)
}

// errNoLocks says that the store has no locks.
var errNoLocks = fmt.Errorf("page: the store has no locks: %w", errors.ErrUnsupported)

func (d *database) Resign(ctx context.Context) error {
	_, err := election.AskResign(ctx, d.store, d.name)
	return err
}
