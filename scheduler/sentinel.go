package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/overdue"
	"github.com/cronlease/cronlease/jobs"
)

const (
	// A sentinel looks after the next tick of its jobs is due, but not more often than
	// sentinelEvery and at least once in sentinelRest; and once in sentinelAgain while something
	// is wrong. A look takes three statements.
	sentinelEvery = 30 * time.Second
	sentinelRest  = 5 * time.Minute
	sentinelAgain = 5 * time.Second
	// sentinelSoon is how often it looks while this replica is to lead as soon as runs have ended.
	sentinelSoon = time.Second
	// sentinelLimit bounds a look.
	sentinelLimit = 10 * time.Second
	// sentinelJobs is how many jobs it looks at, those that are due next, of at most
	// sentinelOf: where nothing is claimed, any job shows that.
	sentinelJobs = 16
	sentinelOf   = 1000
)

// sentinel reads in the ledger, on each replica, whether the group does its work. The replica
// that leads knows that of itself, and the one that has paused the group too: without a sentinel all others
// would look healthy. It decides about nothing.
type sentinel struct {
	s     *Scheduler
	group jobs.Group

	failing time.Time // since when readings fail; zero: they do not

	mu     sync.Mutex
	ledger error // it has not been readable for a TTL
	leader error // matches ErrNotFiring or ErrRestored
}

func newSentinel(s *Scheduler) *sentinel {
	return &sentinel{s: s, group: jobs.NewGroup(s.db, s.group)}
}

// says is what it has found. A leader knows by itself whether it claims, and whether the ledger has gone back.
func (w *sentinel) says(role election.Role) (ledger, leader error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if role == election.Leading {
		return w.ledger, nil
	}
	return w.ledger, w.leader
}

// run looks until ctx ends, if the store can read some of the jobs.
func (w *sentinel) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-w.s.mode.barred:
			timer.Reset(w.again())
			continue
		case <-ctx.Done():
			return
		}
		wait, err := w.look(ctx)
		if errors.Is(err, errors.ErrUnsupported) {
			return
		}
		timer.Reset(wait)
	}
}

// look returns how long to wait until the next one.
func (w *sentinel) look(ctx context.Context) (wait time.Duration, err error) {
	if err := w.s.election.Health().Database; err != nil && !errors.Is(err, ErrMode) {
		return sentinelAgain, nil // which is known, and said
	}
	led := w.led()
	limited, cancel := context.WithTimeoutCause(ctx, sentinelLimit, fmt.Errorf("no answer within %v", sentinelLimit))
	defer cancel()
	snapshot, err := w.group.LoadOf(limited, w.dueNext(led))
	var leader error
	if err == nil {
		_ = w.s.mode.check(snapshot)
		leader, err = w.judge(limited, snapshot, led)
	}
	switch {
	case ctx.Err() != nil:
		return sentinelAgain, nil
	case err != nil:
		w.unread(err)
		return sentinelAgain, err
	}
	w.failing = time.Time{}
	w.note(nil, leader)
	if leader != nil || w.s.mode.refuses() != nil {
		return w.again(), nil
	}
	next := sentinelRest
	if len(led) == 0 { // nobody has told yet
		next = sentinelEvery
	}
	for name, known := range snapshot.Jobs {
		if job := led[name]; job != nil {
			if tick := overdue.NextTick(job, known, snapshot.Now, false); !tick.IsZero() {
				next = min(next, tick.Sub(snapshot.Now)+w.patience())
			}
		}
	}
	return max(next, sentinelEvery), nil
}

// again is how long to wait until it looks again while something is wrong.
func (w *sentinel) again() time.Duration {
	if errors.Is(w.s.mode.refuses(), errEarlier) {
		return sentinelSoon
	}
	return sentinelAgain
}

// patience is how late a tick may be: see [overdue.Ticks.TooLong].
func (w *sentinel) patience() time.Duration {
	return max(w.s.election.Timing().TTL, 10*time.Second)
}

// judge judges a reading.
func (w *sentinel) judge(ctx context.Context, snapshot jobs.Snapshot, led map[string]jobs.Schedule) (leader, err error) {
	if snapshot.Paused {
		return w.s.pausedBy(ctx)
	}
	state := w.s.election.State()
	if state.Role != election.Following || state.Owner == "" || w.s.clock.ByWorker { // whose ticks are due by the leader's clock alone
		return nil, nil
	}
	of := overdue.Config{Declared: led, Rest: w.rest, Parse: jobs.ParseSchedule}
	if overdue.Find(snapshot, election.Leadership{Group: w.s.group, Owner: state.Owner, Token: state.Token, TTL: w.s.election.Timing().TTL}, of).Jobs == 0 {
		return nil, nil
	}
	l, err := election.Leader(ctx, w.s.db, w.s.group)
	if err != nil || !l.Held() {
		return nil, err
	}
	if ticks := overdue.Find(snapshot, l, of); ticks.TooLong(snapshot, l) {
		return fmt.Errorf("%w: one of job %q for %v, by the leader %s", ErrNotFiring, ticks.Job, snapshot.Now.Sub(ticks.Tick).Round(time.Millisecond), l.Owner), nil
	}
	return nil, nil
}

// pausedBy returns an error that matches ErrRestored if a scheduler has paused the group, which it does when the ledger has gone back.
func (s *Scheduler) pausedBy(ctx context.Context) (gone, err error) {
	by, err := jobs.NewGroup(s.db, s.group).PausedBy(ctx)
	if err != nil || by.Via != jobs.ViaScheduler {
		return nil, err
	}
	return fmt.Errorf("%w: the group is paused since %s, by %s", ErrRestored, by.At.Format(time.RFC3339), by.Name), nil
}

// led are the jobs of this replica that the leader has too, as far as replicas tell.
func (w *sentinel) led() map[string]jobs.Schedule {
	roster := w.s.roster.Read()
	leader, told := roster.Find(w.s.election.State().Owner)
	all := map[string]jobs.Schedule{}
	for _, d := range w.s.list.jobs() {
		if hash, ok := leader.Jobs[d.Name]; told && ok && hash == jobs.HashSchedule(d.text) {
			all[d.Name] = d.Schedule
		}
	}
	return all
}

// rest is the part of a job's declaration that the ledger does not have.
func (w *sentinel) rest(name string) (time.Duration, bool) {
	for _, d := range w.s.list.jobs() {
		if d.Name == name {
			return d.LockAtLeastFor, true
		}
	}
	return 0, false
}

// dueNext are the names of the jobs that are due next.
func (w *sentinel) dueNext(led map[string]jobs.Schedule) (names []string) {
	type due struct {
		name string
		at   time.Time
	}
	var all []due
	now := w.s.clock.Now()
	for name, schedule := range led {
		if len(all) == sentinelOf {
			break
		}
		schedule = jobs.Base(schedule)
		if s, ok := schedule.(jobs.Relative); ok { // which has no ticks of its own: it is due by then, unless it runs
			schedule = s.From(jobs.Known{ScheduleSince: now, Cursor: now})
		}
		if at := schedule.Next(now); !at.IsZero() {
			all = append(all, due{name, at})
		}
	}
	slices.SortFunc(all, func(a, b due) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name)) })
	for _, d := range all[:min(len(all), sentinelJobs)] {
		names = append(names, d.name)
	}
	return names
}

// unread notes that the ledger could not be read. It counts after a TTL: a database that answers
// nothing, the election finds first.
func (w *sentinel) unread(err error) {
	now := time.Now()
	if w.failing.IsZero() {
		w.failing = now
	}
	if failed := now.Sub(w.failing); failed >= w.s.election.Timing().TTL {
		w.note(fmt.Errorf("scheduler: the ledger could not be read for %v: %w", failed.Round(time.Millisecond), err), nil)
	}
}

// note keeps what was found, and logs that it has begun or come to an end. Of a leader, the lines about its tasks say more.
func (w *sentinel) note(ledger, leader error) {
	w.mu.Lock()
	was := w.ledger != nil || w.leader != nil
	w.ledger, w.leader = ledger, leader
	w.mu.Unlock()
	is := ledger != nil || leader != nil
	switch {
	case was == is || w.s.election.State().Role == election.Leading:
	case is:
		w.s.log.Warn("the group does not do its work, as far as the ledger tells", zap.Error(errors.Join(ledger, leader)))
	default:
		w.s.log.Info("the group does its work again, as far as the ledger tells")
	}
}
