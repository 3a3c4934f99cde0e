package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

var errNoRegistry = errors.New("jobs: the store does not know the replicas of a group")

// Roster reads which replicas the group has, and which jobs they have. The error matches
// [errors.ErrUnsupported] if the store does not know.
func (g Group) Roster(ctx context.Context) (Roster, error) {
	if g.ledger == nil {
		return Roster{}, errNoLedger
	}
	registry, ok := g.ledger.(Registry)
	if !ok {
		return Roster{}, fmt.Errorf("%w: %w", errNoRegistry, errors.ErrUnsupported)
	}
	return registry.Roster(ctx, g.name, Roster{})
}

// checkDeclared returns an error if the job is known to be gone, and no replica has it.
func (g Group) checkDeclared(ctx context.Context, job string) error {
	registry, ok := g.ledger.(Registry)
	if !ok {
		return nil
	}
	gone, err := registry.GoneSince(ctx, g.name, job)
	if err != nil || gone.IsZero() {
		return err // Trigger says whether there is such a job
	}
	roster, err := g.Roster(ctx)
	if err != nil {
		return err
	}
	if !roster.LeaderTold() || len(roster.With(job)) > 0 {
		return nil
	}
	return g.notDeclared(ctx, job, gone)
}

// notDeclared says since when, and which replica last did something for the job.
func (g Group) notDeclared(ctx context.Context, job string, gone time.Time) error {
	text := fmt.Sprintf("%q in group %q, since %s", job, g.name, gone.Format(time.RFC3339))
	records, err := g.ledger.Runs(ctx, g.name, Filter{Job: job, Limit: 100})
	if err != nil {
		return fmt.Errorf("%w: %s", ErrNotDeclared, text)
	}
	i := slices.IndexFunc(records, func(r Record) bool { return r.Owner != "" && !r.Claimed.After(gone) })
	if i < 0 {
		return fmt.Errorf("%w: %s: it has never run", ErrNotDeclared, text)
	}
	return fmt.Errorf("%w: %s: %s had it last, for the tick of %s", ErrNotDeclared, text, records[i].Owner, records[i].Tick.Format(time.RFC3339))
}

// Forget deletes a job that no replica has, with its history and its pauses. Its runs
// that wait, which no replica would start, go with it. To a replica that declares it
// later, the job is new: its first tick is the first one after that.
//
// The error matches [ErrNoJob] when the ledger does not know the job, and lists the near
// names. It matches [ErrDeclared] while a replica has the job, or may have it: when the
// leader is of a release that does not tell, when the last leader had it, or when a replica
// that lives still does a run of it. If a leader declares it at that very moment, old runs
// may be deleted already. It matches
// [errors.ErrUnsupported] if the store cannot forget. After any other error, the job may be
// forgotten or not, and parts of its history may be deleted.
func (g Group) Forget(ctx context.Context, job string) error {
	roster, err := g.Roster(ctx)
	if err != nil {
		return err
	}
	snapshot, err := g.ledger.Load(ctx, g.name)
	if err != nil {
		return err
	}
	known, ok := snapshot.Jobs[job]
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %q in group %q: %s", ErrDeclared, job, g.name, fmt.Sprintf(format, args...))
	}
	with := roster.With(job)
	switch {
	case !ok:
		return noJob(snapshot, g.name, job)
	case len(with) > 0:
		return refuse("replicas have it: %s: remove it there first; a replica that has died counts for %v", strings.Join(first(with, 3), ", "), ReplicaLife)
	case !roster.LeaderTold():
		return refuse("the leader %s does not tell which jobs it has: it is of an older release, or has just started", roster.Leader)
	case known.Gone.IsZero():
		return refuse("the last leader had it: start a replica without it, so that one leads")
	}
	for _, r := range snapshot.Open {
		if r.Job != job || r.State != Running {
			continue
		}
		if x, ok := roster.Find(r.Owner); r.Owner == roster.Leader || ok && roster.Now.Sub(x.Seen) <= ReplicaLife {
			return refuse("%s does its run of %s: wait for its end, or cancel it", r.Owner, r.Tick.Format(time.RFC3339))
		}
	}
	forgotten, err := g.ledger.(Registry).Forget(ctx, g.name, job, known.Gone)
	if err == nil && !forgotten {
		return refuse("a leader has declared it just now, or another command has forgotten it")
	}
	return err
}
