package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/triggers"
)

// MaxBackfill is how many ticks a backfill has at most.
const MaxBackfill = 10_000

// maxEvery bounds the spacing of a backfill.
const maxEvery = 24 * time.Hour

// Backfill says which past ticks of a job to run, beside its schedule.
type Backfill struct {
	// From is the beginning of the time whose ticks are run, and belongs to it. To is
	// its end, which does not; zero: now, by the database's clock.
	From, To time.Time
	// Every is the least time from one start to the next, at most 24 h. Zero: each run
	// starts when the one before has ended.
	Every time.Duration
	// Args are the arguments of all runs, as in [Group.TriggerWith].
	Args any
	// ID makes it possible to repeat a request that failed: the ID that it returned.
	// Repeat it with the same From. If the backfill was begun, nothing changes. Once the
	// ID is older than 10 minutes and the job's history has none of its runs, the repetition is
	// an error: they may have been pruned. Zero: a new one is chosen.
	ID uint64
}

// Backfilled says what a backfill does.
type Backfilled struct {
	// ID is the trigger of its runs.
	ID uint64
	// Ticks are those that it runs, oldest first.
	Ticks []time.Time
}

// Backfill runs each tick of a past span once, by the schedule that the ledger has, in
// their order and one at a time. It moves no cursor: the ticks of the schedule go on,
// and go first once they are due, as a retry is after its wait. One that is due while a
// run of the backfill goes on waits for that, instead of being skipped as [Job.Overlap] may
// say, and under [OverlapAllow] runs beside it. Ticks that are due while that one waits meet
// it as Overlap says.
// No run is replaced by a backfill's, nor the other way round.
//
// In the ledger it is one run at a time: that of its next tick, which is inserted with
// the outcome of the one before, whatever that is. So it survives takeovers, and a run
// that fails does not end it. To cancel the run that it has ends it
// ([Group.CancelBackfills]). While the job is paused, it waits.
//
// A job whose ticks depend on when its runs end, or that has none of its own, cannot be
// backfilled, nor one whose schedule [ParseSchedule] does not know.
func (g Group) Backfill(ctx context.Context, job string, b Backfill) (Backfilled, error) {
	args, err := encodeArgs(b.Args)
	if err != nil {
		return Backfilled{}, err
	}
	planned, plan, err := g.planBackfill(ctx, job, b)
	if err != nil || len(planned.Ticks) == 0 {
		return planned, err
	}
	if b.ID != 0 {
		if known, err := g.knowsBackfill(ctx, job, b.ID, planned.Ticks[0]); errors.Is(err, errPruned) {
			return Backfilled{}, err
		} else if err != nil || known {
			return planned, err
		}
	}
	_, err = g.ledger.Trigger(ctx, g.name, job, Request{
		Args: args, Tick: planned.Ticks[0], Trigger: planned.ID, Backfill: plan,
		Note: fmt.Sprintf("%d ticks until %s", len(planned.Ticks), planned.Ticks[len(planned.Ticks)-1].Format(time.RFC3339)),
	})
	return planned, g.explain(ctx, job, err)
}

// repeatable is how long a request may be repeated whose backfill has left no run.
// Leaders prune no run of a backfill that was requested a few minutes earlier.
const repeatable = 10 * time.Minute

// errPruned is for a repeated request of which nothing is known any more.
var errPruned = errors.New("was it done? The history has no run of it, and may have been pruned since: see what has run, and request what is missing without the ID")

// knowsBackfill reports whether the ledger has a run of a backfill. It is an error if
// it has none, but might have had.
func (g Group) knowsBackfill(ctx context.Context, job string, id uint64, first time.Time) (bool, error) {
	snapshot, err := g.ledger.Load(ctx, g.name)
	if err != nil {
		return false, err
	}
	is := func(r Record) bool { return r.Job == job && r.Trigger == id }
	if slices.ContainsFunc(snapshot.Open, is) {
		return true, nil
	}
	all, err := g.ledger.Runs(ctx, g.name, Filter{Job: job, Since: first, Limit: 2 * MaxBackfill})
	if err != nil || slices.ContainsFunc(all, is) {
		return err == nil, err
	}
	if at := triggers.Requested(id); snapshot.Now.Sub(at) > repeatable {
		return false, fmt.Errorf("jobs: backfill %d of job %q, requested %s: %w", id, job, at.Format(time.RFC3339), errPruned)
	}
	return false, nil
}

// PlanBackfill says what Backfill would do now, and does nothing.
func (g Group) PlanBackfill(ctx context.Context, job string, b Backfill) (Backfilled, error) {
	planned, _, err := g.planBackfill(ctx, job, b)
	return planned, err
}

func (g Group) planBackfill(ctx context.Context, job string, b Backfill) (planned Backfilled, plan string, err error) {
	switch {
	case g.ledger == nil:
		return planned, "", errNoLedger
	case b.ID != 0 && !triggers.IsBackfill(b.ID):
		return planned, "", fmt.Errorf("jobs: backfill %d: not the ID of a backfill", b.ID)
	case b.Every < 0 || b.Every > maxEvery:
		return planned, "", fmt.Errorf("jobs: backfill every %v: must be from 0 to %v", b.Every, maxEvery)
	}
	snapshot, err := g.ledger.Load(ctx, g.name)
	if err != nil {
		return planned, "", err
	}
	known, ok := snapshot.Jobs[job]
	if !ok {
		return planned, "", noJob(snapshot, g.name, job)
	}
	if b.To.IsZero() {
		b.To = snapshot.Now
	}
	switch {
	case b.From.IsZero():
		return planned, "", errors.New("jobs: backfill: From is not set: give the instant of the first tick, or an earlier one")
	case !b.To.After(b.From):
		return planned, "", fmt.Errorf("jobs: backfill from %s to %s: the end must be later than the beginning", b.From.UTC().Format(time.RFC3339), b.To.UTC().Format(time.RFC3339))
	case b.To.After(snapshot.Now):
		return planned, "", fmt.Errorf("jobs: backfill to %s: the database has %s: only ticks that are past are run", b.To.UTC().Format(time.RFC3339), snapshot.Now.Format(time.RFC3339))
	}
	rest := rest{Schedule: known.Schedule, Since: known.ScheduleSince, Until: b.To.UTC(), Every: b.Every}
	schedule, err := rest.schedule()
	if err != nil {
		return planned, "", fmt.Errorf("jobs: job %q: %w", job, err)
	}
	for tick := schedule.Next(b.From.Add(-1)); !tick.IsZero() && tick.Before(b.To); tick = schedule.Next(tick) {
		if len(planned.Ticks) == MaxBackfill {
			return Backfilled{}, "", fmt.Errorf("jobs: job %q has more than %d ticks from %s to %s: choose a shorter span", job, MaxBackfill, b.From.UTC().Format(time.RFC3339), b.To.UTC().Format(time.RFC3339))
		}
		planned.Ticks = append(planned.Ticks, tick)
	}
	if planned.ID = b.ID; planned.ID == 0 {
		planned.ID = triggers.Backfill(snapshot.Now)
	}
	text, err := json.Marshal(rest)
	return planned, string(text), err
}

// CancelBackfills cancels the backfills of a job: the run that each has, whether it goes
// on or waits, and the ticks after it. It returns how many there were.
func (g Group) CancelBackfills(ctx context.Context, job string) (cancelled int, err error) {
	if g.ledger == nil {
		return 0, errNoLedger
	}
	seen := map[uint64]bool{}
	// A run may end, and the next one come, between the reading and the request.
	for range 20 {
		snapshot, err := g.ledger.Load(ctx, g.name)
		if err != nil {
			return len(seen), err
		}
		if _, ok := snapshot.Jobs[job]; !ok {
			return 0, noJob(snapshot, g.name, job)
		}
		left := 0
		for _, r := range snapshot.Open {
			if r.Job != job || !triggers.IsBackfill(r.Trigger) || r.CancelAsked {
				continue
			}
			left++
			if err := g.ledger.Cancel(ctx, g.name, r.Key); err == nil {
				seen[r.Trigger] = true
			} else if !errors.Is(err, ErrNoRun) {
				return len(seen), err
			}
		}
		if left == 0 {
			return len(seen), nil
		}
	}
	return len(seen), fmt.Errorf("jobs: backfills of job %q: their runs end faster than they can be cancelled: pause the job first", job)
}

// rest is what a backfill has to do after one of its runs.
type rest struct {
	Schedule string        `json:"schedule"`
	Since    time.Time     `json:"since"`
	Until    time.Time     `json:"until"`
	Every    time.Duration `json:"every_ns"`
}

// schedule is that of the backfill's ticks.
func (r rest) schedule() (Schedule, error) {
	s, ok := ParseSchedule(r.Schedule)
	if !ok {
		return nil, fmt.Errorf("the schedule %.100q is not one of package jobs: its ticks are not known here", r.Schedule)
	}
	switch base := Base(s).(type) {
	case AfterSchedule:
		return nil, fmt.Errorf("it is due after %s, and has no ticks of its own: backfill that", base.Job())
	case NotifySchedule:
		return nil, errors.New("it tells of other jobs, and has no ticks of its own")
	case ManualSchedule:
		if base.shardsOf != "" {
			return nil, fmt.Errorf("it has the shards of %s: backfill that", base.shardsOf)
		}
		return nil, errors.New("it is only run by hand, and has no ticks")
	case FixedDelaySchedule:
		return nil, errors.New("its ticks depend on when its runs ended: the past has no others")
	}
	if relative, ok := s.(Relative); ok {
		s = relative.From(Known{ScheduleSince: r.Since})
	}
	return s, nil
}

// NextOfBackfill is the next tick of the backfill that a run belongs to, and the least
// time from one start to the next. False: there is none.
func (r Record) NextOfBackfill() (tick time.Time, every time.Duration, ok bool) {
	var left rest
	if json.Unmarshal([]byte(r.Backfill), &left) != nil {
		return time.Time{}, 0, false
	}
	schedule, err := left.schedule()
	if err != nil {
		return time.Time{}, left.Every, false
	}
	tick = schedule.Next(r.Tick)
	return tick, left.Every, !tick.IsZero() && tick.Before(left.Until)
}
