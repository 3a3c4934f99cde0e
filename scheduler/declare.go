package scheduler

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/outbox"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
	"github.com/cronlease/cronlease/store"
)

// declaring is how jobs are declared to the ledger, however many attempts that takes: all of
// them when the term begins, and those that have changed later on, beside the loop.
type declaring struct {
	*env
	back map[string]bool // that came back after a long absence: see welcome
	id   store.ClaimID   // of the claims for them: one, so that a repetition after a lost answer is one to the ledger
}

func newDeclaring(v *env) *declaring {
	return &declaring{env: v, back: map[string]bool{}, id: store.ClaimID(outbox.NewID())}
}

// tell tells the ledger of new jobs and changed schedules. These rule from now on, or
// from the first tick of the schedule before that was due and has no row: [declaring.differing].
func (v *env) tell(changed relisted) error {
	ctx, cancel := context.WithTimeout(v.ctx, tellMost)
	defer cancel()
	d := newDeclaring(v)
	var was jobs.Snapshot
	err := v.retryLonger(ctx, "change the jobs", tellMost, func(ctx context.Context) (err error) {
		if was, err = v.load(ctx, false); err != nil {
			return err
		}
		if v.isStale(was) {
			return errStale
		}
		if err := d.welcome(ctx, changed, was); err != nil {
			return err
		}
		return v.db.Declare(ctx, v.holder, d.differing(changed, was, gap{from: v.present(was)}))
	})
	if err == nil {
		was, err = v.passOver(ctx, changed, was)
	}
	if err == nil {
		var sent map[string][]plan.Told
		sent, err = v.readNotices(ctx, changed, was)
		v.do(func(t *term) { t.count(sent) })
	}
	if errors.Is(err, store.ErrReplaced) {
		v.replaced(err)
	}
	return err
}

// tellMost is how long the ledger is told of one change, until it is told of what has
// become of that since.
const tellMost = time.Minute

// reload reads the ledger again, once this term has declared its jobs.
func (v *env) reload(ctx context.Context, deep bool) (jobs.Snapshot, error) {
	snapshot, err := v.load(ctx, deep)
	if err == nil && v.isStale(snapshot) {
		err = errStale
	}
	return snapshot, err
}

// isStale reports whether a snapshot may lack a run that goes on. After an early
// takeover one from another server, such as a read replica, counts only if it has what
// this term has written.
func (v *env) isStale(snapshot jobs.Snapshot) bool {
	held := keeper.HeldOf(v.ctx)
	return held.PreviousStands() > 0 && snapshot.Server != held.Server() && snapshot.Opened.Token != v.holder.Token
}

var errStale = errors.New("the ledger is read from a server that lacks the last writes, such as a read replica behind a proxy")

// passOver takes ticks out of the schedules that are so far in the future that they
// were claimed under a wrong clock: the schedules go on from earlier ticks, and the
// future ticks are run when they are due. It returns what the ledger has then.
func (v *env) passOver(ctx context.Context, all []*declared, snapshot jobs.Snapshot) (jobs.Snapshot, error) {
	now, passed := v.now(), false
	for _, job := range all {
		cursor := snapshot.Jobs[job.Name].Cursor
		if cursor.Sub(now) <= v.clock.Most {
			continue
		}
		n := 0
		err := v.retry(ctx, "pass over ticks", func(ctx context.Context) (err error) {
			n, err = v.db.PassOver(ctx, v.holder, job.Name, now)
			return err
		})
		if err != nil {
			return snapshot, err
		}
		passed = true
		v.log.Warn("ticks that lie in the future were claimed under a wrong clock: they are passed over, and the schedule goes on",
			zap.String("job", job.Name), zap.Int("ticks", n), zap.Time("newest", cursor))
	}
	if !passed {
		return snapshot, nil
	}
	err := v.retry(ctx, "load the ledger", func(ctx context.Context) (err error) {
		snapshot, err = v.reload(ctx, true)
		return err
	})
	return snapshot, err
}

// present is when a reading was, by the clock that ticks are judged by.
func (v *env) present(was jobs.Snapshot) time.Time {
	if now := v.clock.Apart(); !now.IsZero() {
		return now
	}
	return was.Now
}

// gap is from when a changed schedule is in force, by the clock that ticks are judged by, unless the one before has ticks left.
type gap struct {
	from time.Time // zero: from now on
	// unsure is for how long before that a tick may have been due whose claim never arrived: heartbeats do not wait
	// for claims. Ticks that were claimed do not come again, because the cursor is behind them.
	unsure time.Duration
}

// gapOf is the gap before this term, whose ticks go through the misfire policy. It begins at the end of the last term
// that had opened the ledger. Where that term could not tell of its end, the gap begins earlier rather than later, since
// no tick may be lost: with the last heartbeat that is known, if this term follows that one, and else with the last
// run that is known to have started.
func (d *declaring) gapOf(ctx context.Context, all []*declared, was jobs.Snapshot) gap {
	now := d.present(was)
	if !slices.ContainsFunc(all, func(job *declared) bool { return changes(was.Jobs[job.Name], job, now) }) {
		return gap{}
	}
	previous := keeper.HeldOf(d.ctx).Previous()
	last, from := was.Opened.Token, was.Opened.At
	if last == 0 || last == previous.Token {
		last, from = previous.Token, previous.RenewedAt
	} else { // terms in between never fired anything
		for _, known := range was.Jobs {
			if !known.Started.After(was.Now) {
				from = later(from, known.Started)
			}
		}
	}
	if !from.IsZero() {
		from = later(from, d.toldEnd(ctx, last))
	}
	return gap{d.clock.NotAfter(from), d.timing.TTL}
}

// changes reports whether the schedule of a job that the ledger has rules from another instant on than it did.
func changes(known jobs.Known, job *declared, now time.Time) bool {
	return !known.Since.IsZero() && (known.Schedule != job.text || known.ScheduleSince.After(now))
}

// toldEnd is when a term of before ended, if it has told so itself. It tells beside the release of its lease, so its
// note may come a moment later.
func (v *env) toldEnd(ctx context.Context, token uint64) time.Time {
	archive, ok := v.db.(store.Archive)
	if !ok {
		return time.Time{}
	}
	for began := time.Now(); ; {
		terms, err := archive.Terms(ctx, v.holder.Group, jobs.TermFilter{})
		at := slices.IndexFunc(terms, func(term jobs.Term) bool { return term.Token == token })
		if err != nil || at < 0 {
			return time.Time{}
		}
		if term := terms[at]; !term.Ended.IsZero() && term.Why != store.WhyUntold {
			return term.Ended
		}
		if time.Since(began) > toldWithin || retry.Sleep(ctx, toldWithin/10) != nil {
			return time.Time{}
		}
	}
}

// toldWithin is how long the note of a term's end is waited for.
const toldWithin = 200 * time.Millisecond

// differing are those of the jobs that are not as the ledger has them. A ledger that has
// them in part, after an attempt that ran out of time, is told the rest.
func (d *declaring) differing(all []*declared, was jobs.Snapshot, g gap) (differing []store.Declared) {
	open := map[string]bool{}
	for _, r := range was.Open {
		open[r.Job] = true
	}
	apart, now := d.clock.Apart(), d.present(was)
	for _, job := range all {
		known, ok := was.Jobs[job.Name]
		if plan.LongAbsent(known, was.Now) && d.isStale(was) {
			continue // see open
		}
		one := plan.Declaration{
			Schedule: job.Schedule, As: store.Declared{Name: job.Name, Schedule: job.text, From: g.from, Now: apart},
			Back: d.back[job.Name], Open: open[job.Name], Unsure: g.unsure,
		}
		if as, differs := one.Differs(d.clock.Known(known), ok, now); differs {
			differing = append(differing, as)
		}
	}
	return differing
}
