package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/clocks"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/settings"
	"github.com/cronlease/cronlease/internal/stream"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler/internal/crew"
	"github.com/cronlease/cronlease/scheduler/internal/memory"
	"github.com/cronlease/cronlease/scheduler/internal/roster"
	"github.com/cronlease/cronlease/scheduler/internal/termnotes"
	"github.com/cronlease/cronlease/scheduler/internal/tickclock"
	"github.com/cronlease/cronlease/store"
)

// Scheduler runs the jobs of one group on whichever replica holds the group's
// lease, or on all of them ([WithSpread]). Every replica declares the same jobs and calls Run. Its methods are
// safe for concurrent use.
type Scheduler struct {
	group    string
	db       store.Jobs
	log      *zap.Logger
	events   *stream.Stream
	election *election.Election
	clock    *tickclock.Clock
	most     int
	sweep    time.Duration
	drain    time.Duration
	running  registry
	here     *here
	sessions *sessions // nil: the group is not spread
	mode     *mode
	crew     *crew.Crew
	memory   *memory.Memory
	states   signal              // the election's state has changed
	rewound  signal              // the lease has gone back
	current  atomic.Pointer[env] // of its term; nil while this replica does not lead
	roster   *roster.Roster
	sentinel *sentinel
	notes    *termnotes.Notes

	list     *list
	provider *provider     // nil for none
	run      atomic.Uint32 // how far Run has come: notRun, inRun or hasRun
}

const (
	notRun uint32 = iota
	inRun
	hasRun
)

// An Option changes a default of [New].
type Option func(*settings.Scheduler)

// WithTiming sets the timing of the lease. Default: [lease.Timing]'s.
func WithTiming(t lease.Timing) Option { return withElection(election.WithTiming(t)) }

// WithLabel sets the first part of the owner's name. Default "worker".
func WithLabel(label string) Option { return withElection(election.WithLabel(label)) }

// WithObserver calls f for each change of this replica's role, as
// [election.WithObserver] does.
func WithObserver(f func(election.State)) Option { return withElection(election.WithObserver(f)) }

// WithMaxRuns limits how many runs this replica has at a time. What is due
// beyond that is claimed and waits, by [jobs.Job].Priority, and first come first served. Zero, the default:
// any number.
func WithMaxRuns(n int) Option { return func(s *settings.Scheduler) { s.MaxRuns = n } }

// WithLabels says of this replica what jobs may want of the one that runs them ([jobs.Job].On and Prefer), in a group that is spread
// ([WithSpread]). Default none.
func WithLabels(l jobs.Labels) Option {
	return func(s *settings.Scheduler) { s.Labels = maps.Clone(l) }
}

// WithFollowerOnly keeps this replica from ever leading, in a group that is spread ([WithSpread]): it runs what the leader
// assigns to it. It suits replicas that come and go, such as those of an autoscaler. Some others have to be able to lead.
func WithFollowerOnly() Option {
	return func(s *settings.Scheduler) { s.Election.FollowerOnly = true }
}

// WithClock says by whose clock ticks are judged. Default [DatabaseClock].
func WithClock(c Clock) Option { return func(s *settings.Scheduler) { s.Clock = uint8(c) } }

// WithMaxSkew limits how far the database's clock and this machine's may differ.
// Beyond that one of them is wrong, and there is no way to tell which: this replica
// then starts no tick and does not lead, so that one whose clock agrees can. Under
// [WorkerClock] it only says from when on future instants in the database are
// attributed to a wrong clock. Zero: [DefaultMaxSkew]. At least 1 s.
func WithMaxSkew(d time.Duration) Option { return func(s *settings.Scheduler) { s.MaxSkew = d } }

// WithFullTTL makes this replica wait for the whole TTL of a leader that has died.
// By default it does not: as soon as it is told that the leader's process is gone,
// it takes the lease and starts what is due, because each start is claimed under
// the new term's token, and a job that the old term may still run is left alone
// for the TTL. Use it where replicas do work of their own on the word of
// [WithObserver] or [Scheduler.State], which is not claimed: a leader whose
// connection was cut, and which lives, can believe for most of a TTL that it leads
// while another one does. It has to be set on all replicas.
func WithFullTTL() Option { return func(s *settings.Scheduler) { s.FullTTL = true } }

// WithLogger sets the logger. Default: silent. Runs are logged at info, failed
// ones at error, or at warn if another attempt follows (will_retry), all with the keys group, owner, token, job and tick.
func WithLogger(l *zap.Logger) Option { return withElection(election.WithLogger(l)) }

// WithSlog is [WithLogger] for a logger of log/slog, with the same keys.
func WithSlog(l *slog.Logger) Option { return withElection(election.WithSlog(l)) }

// WithEvents gives what happens to f, an observer: see package event. It may be given more
// than once. [Scheduler.Run] waits for a second at most for observers that are slow.
func WithEvents(f func(event.Event)) Option { return withElection(election.WithEvents(f)) }

// WithRunContext calls f when an attempt begins, on the attempt's own goroutine: the job gets
// the context that f returns, which has to be made from the one that f is given. The
// function that f returns, if it is not nil, is called once the attempt has ended, also when the term
// is over; [Scheduler.Run] waits for it, for a second at most. It is for what belongs to a run from its start to its end, such as a
// span; to be told of runs, use [WithEvents]. A slow f delays its run alone, and counts
// as a part of it. A panic of f fails the attempt, like one of the job.
func WithRunContext(f func(context.Context, event.RunStarted) (context.Context, func(event.RunFinished))) Option {
	return func(s *settings.Scheduler) { s.Around = append(s.Around, f) }
}

// WithVersion says of which version this program is, for those who look at the
// replicas of the group: at most 128 bytes. Default: empty.
func WithVersion(version string) Option {
	return func(s *settings.Scheduler) { s.Version = version }
}

func withElection(o election.Option) Option {
	return func(s *settings.Scheduler) { o(&s.Election) }
}

// errNotMade is for a zero Scheduler.
var errNotMade = errors.New("scheduler: this Scheduler was not made by New")

// New returns a scheduler of the group. It starts nothing and dials nothing.
// The error names the option that does not fit.
func New(db store.Jobs, group string, options ...Option) (*Scheduler, error) {
	set := settings.Scheduler{}
	set.Election.Keeper.Logger, set.Election.Keeper.Clock = zap.NewNop(), clocks.Now
	for i, option := range options {
		if option == nil {
			return nil, fmt.Errorf("scheduler: option %d is nil", i+1)
		}
		option(&set)
	}
	switch log, kind := set.Election.Keeper.Logger, Clock(set.Clock); {
	case log == nil:
		return nil, errors.New("scheduler: WithLogger(nil) or WithSlog(nil): give a logger, or leave the option out")
	case jobs.Labels(set.Labels).Validate() != nil:
		return nil, fmt.Errorf("scheduler: WithLabels: %w", jobs.Labels(set.Labels).Validate())
	case set.Election.FollowerOnly && !set.Spread:
		return nil, errors.New("scheduler: WithFollowerOnly: the leader runs all jobs of this group, so that this replica would do nothing: add WithSpread")
	case len(set.Labels) > 0 && !set.Spread:
		return nil, errors.New("scheduler: WithLabels: only a group that is spread over its replicas goes by labels: add WithSpread")
	case set.MaxRuns < 0:
		return nil, fmt.Errorf("scheduler: WithMaxRuns(%d): must not be negative", set.MaxRuns)
	case kind > WorkerClock:
		return nil, fmt.Errorf("scheduler: WithClock(%d): not known", kind)
	case set.Drain < 0:
		return nil, fmt.Errorf("scheduler: WithDrain(%v): must not be negative", set.Drain)
	case set.Provided && set.Provider == nil:
		return nil, errors.New("scheduler: WithProvider(nil): give a function, or leave the option out")
	case len(set.Version) > store.MaxName || !utf8.ValidString(set.Version):
		return nil, fmt.Errorf("scheduler: WithVersion(%.140q): must be UTF-8 of at most %d bytes", set.Version, store.MaxName)
	case set.MaxSkew == 0:
		set.MaxSkew = DefaultMaxSkew
	case set.MaxSkew < time.Second:
		return nil, fmt.Errorf("scheduler: WithMaxSkew(%v): must be at least 1s", set.MaxSkew)
	}
	if err := set.Election.OpenStream("scheduler"); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(set.Around, func(f settings.Around) bool { return f == nil }) {
		return nil, errors.New("scheduler: WithRunContext(nil): give a function, or leave the option out")
	}
	events := set.Election.Keeper.Events
	s := &Scheduler{group: group, events: events, db: db, running: registry{around: set.Around}, log: events.Logger(), most: set.MaxRuns, drain: set.Drain, sweep: cmp.Or(set.Sweep, time.Second), list: newList(set.Spread), states: make(chan struct{}, 1), rewound: make(chan struct{}, 1),
		clock: tickclock.New(tickclock.Config{Own: set.Election.Keeper.Clock, ByWorker: Clock(set.Clock) == WorkerClock, Most: set.MaxSkew})}
	set.Election.Gate, set.Election.Heeds, set.Election.Keeper.Renew = s.looked, true, s.renew
	lifted := make(signal, 1)
	set.Election.Leave, set.Election.Rewound, set.Election.Ask = s.leave, s.rewound.give, lifted
	switch {
	case set.FullTTL:
	case set.Spread: // no run is under a term
		set.Election.Working = func(context.Context) (bool, error) { return false, nil }
	default:
		set.Election.Working = s.working
	}
	if set.Spread {
		if err := store.CheckGroup(group); err != nil {
			return nil, err
		}
		set.Election.Keeper.Group, set.Election.Keeper.Sessions = group, true
		k, err := keeper.New(db, set.Election.Keeper)
		if err != nil {
			return nil, err
		}
		set.Election.Shared = k
	}
	e, err := election.New(db, group, func(e *settings.Election) { *e = set.Election }, election.WithObserver(s.changed))
	if err != nil {
		return nil, err
	}
	s.election = e
	s.log = s.log.With(zap.String("group", group), zap.String("owner", e.Owner()))
	if set.Provided {
		s.provider = &provider{ask: set.Provider, list: s.list, log: s.log, turn: make(chan struct{}, 1)}
	}
	told := roster.Config{
		Group: group, Owner: e.Owner(), Version: set.Version, Labels: set.Labels, MaxRuns: set.MaxRuns, FollowerOnly: set.Election.FollowerOnly, Jobs: s.schedules, Log: s.log, Timeout: e.Timing().AttemptTimeout,
	}
	told.DB, _ = db.(store.Replicas)
	if checker, ok := db.(store.Checker); ok {
		told.Check = checker.Check
	}
	s.roster = roster.New(told)
	s.sentinel = newSentinel(s)
	archive, _ := db.(store.Archive)
	s.notes = termnotes.New(archive, s.log, e.Timing().AttemptTimeout)
	s.list.observe = s.roster.Poke
	s.clock.Emit, s.clock.Drift = func(e event.ClockSkew) {
		e.Header = s.head()
		events.Emit(e)
	}, e.Timing().Drift
	s.here = newHere(s)
	if set.Spread {
		s.crew = crew.New(set.Election.Shared, s.roster.Read)
		if s.sessions, err = newSessions(s, set.Election); err != nil {
			return nil, err
		}
		s.roster.Lends = s.lends
		s.roster.Told, s.roster.Seen = s.sessions.wakeLeader, s.crew.Look
	} else { // it watches the sessions of when the group was spread, if it finds any
		set.Election.Keeper.Sessions = true
		k, err := keeper.New(db, set.Election.Keeper)
		if err != nil {
			return nil, err
		}
		s.crew = crew.New(k, func() jobs.Roster { return jobs.Roster{} })
	}
	s.mode = &mode{group: group, spread: set.Spread, resign: e.Resign, crew: s.crew, log: s.log, barred: make(signal, 1), lifted: lifted}
	s.memory = memory.New(max(time.Minute, e.Timing().TTL), e.Timing().TTL, s.clock.ByWorker)
	return s, nil
}

// Add declares jobs, before Run or while it runs. Either all are taken or none: the
// error says everything that is wrong with them ([jobs.Job.Validate], or a name that is
// taken).
//
// Each replica has a list of its own. On the leader a change rules within moments, once
// the ledger knows of it; on any other replica from its next term on. Add returns before
// that: until then the database may not know a new job's name.
func (s *Scheduler) Add(add ...jobs.Job) error {
	if s.election == nil {
		return errNotMade
	}
	return s.checked(s.list.add(add), add)
}

// Replace changes jobs that were added, by their names: all of them, or none if
// something is wrong. A job keeps its history, its pauses and the runs that wait; a run
// that goes on ends as it began, and the next start uses the new declaration. Under a
// changed schedule the ticks of the one before that were due until now are run by
// that, and those of the new one from now on.
func (s *Scheduler) Replace(with ...jobs.Job) error {
	if s.election == nil {
		return errNotMade
	}
	return s.checked(s.list.replace(with), with)
}

// Remove takes jobs that were added out of the list, by their names: all of them, or
// none if one is not there, and then the error matches [jobs.ErrNoJob]. Nothing of them
// is started any more. What runs goes on, and its outcome is recorded. The ledger keeps
// their history and the runs that wait, for a replica that has the job, or until it
// is added again.
func (s *Scheduler) Remove(names ...string) error {
	if s.election == nil {
		return errNotMade
	}
	return s.list.remove(names)
}

// Set makes these the jobs that were added: it adds, replaces and removes, as [Scheduler.Add],
// [Scheduler.Replace] and [Scheduler.Remove] do, all at once or, if anything is wrong, nothing.
func (s *Scheduler) Set(all ...jobs.Job) error {
	if s.election == nil {
		return errNotMade
	}
	_, err := s.list.set(all, false)
	return s.checked(err, all)
}

// warnNeverDue says so if a job's schedule has no further tick: an expression such as
// "0 0 30 2 *" is more likely a mistake.
func (s *Scheduler) warnNeverDue(job jobs.Job) {
	if jobs.NeverDue(job.Schedule, s.clock.Now()) {
		s.log.Warn("a schedule is never due: the job only runs when it is triggered", zap.String("job", job.Name), zap.Stringer("schedule", job.Schedule))
	}
}

// checked warns of jobs that were taken while this replica runs. Run warns of those
// that there are before it.
func (s *Scheduler) checked(err error, taken []jobs.Job) error {
	if err == nil && s.run.Load() != notRun {
		for _, job := range taken {
			s.warnNeverDue(job)
		}
	}
	return err
}

// Run takes part in the group's election until ctx ends, and fires the jobs
// while this replica leads. No error of the database ends it.
//
// When the lease is lost, the contexts of the running jobs end with a cause
// that matches [election.ErrLost], before another replica can hold it. When this
// replica gives the lease back because the clocks disagree or a part of the term
// is stuck, the cause matches [ErrSkew] or [election.ErrStuck]. When ctx
// ends, they end with [election.ErrStopped], those that go on after the drain if there
// is one ([WithDrain]); Run waits for them, releases the
// lease and returns nil. Jobs that have not returned a TTL after that make it return
// [election.ErrStillLeading]. It returns an error at once when it was already
// called, or when the database is unfit and waiting cannot
// mend that: see [election.Election.Run].
func (s *Scheduler) Run(ctx context.Context) error {
	if s.election == nil {
		return errNotMade
	}
	if !s.run.CompareAndSwap(notRun, inRun) {
		return errors.New("scheduler: Run was already called")
	}
	for _, job := range s.list.jobs() {
		s.warnNeverDue(job.Job)
	}
	defer s.run.Store(hasRun)
	defer s.events.Flush(stream.FlushFor) // what ends after the campaign has events, too
	out, stop := context.WithCancel(ctx)
	var wait sync.WaitGroup
	if s.provider != nil {
		s.provider.soon(ctx, s.election.Timing().AttemptTimeout)
		wait.Go(func() { s.provider.first(out) })
	}
	wait.Go(func() { s.lookout(out) })
	wait.Go(func() { s.roster.Run(out) })
	wait.Go(func() { s.sentinel.run(out) })
	defer wait.Wait()
	defer s.notes.Finish() // beside the end of the others
	defer stop()
	here := make(chan error, 1)
	go func() { here <- s.here.run(ctx) }()
	wait.Go(func() { s.crew.Run(out) })
	served := make(chan error, 1)
	if s.sessions != nil {
		defer s.sessions.keep(ctx)()
		go func() { served <- s.sessions.run(ctx) }()
	} else {
		served <- nil
	}
	err := s.election.Run(ctx, s.lead)
	defer s.awaitEnds()
	if err != nil && ctx.Err() == nil { // the database is unfit
		s.here.cut(err)
	}
	return errors.Join(err, <-served, <-here)
}

// awaitEnds waits until what is around the runs has heard that they have ended.
func (s *Scheduler) awaitEnds() {
	if len(s.running.around) == 0 {
		return
	}
	ended := make(chan struct{})
	go func() {
		s.running.ends.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(endsWithin):
	}
}

// endsWithin is how long Run waits for that.
const endsWithin = time.Second

// schedules are the jobs of this replica, as it tells of them.
func (s *Scheduler) schedules() map[string]jobs.ScheduleHash {
	all := map[string]jobs.ScheduleHash{}
	for _, d := range s.list.jobs() {
		all[d.Name] = d.hash
	}
	return all
}

// working reports whether a run of the group is open in the ledger.
func (s *Scheduler) working(ctx context.Context) (bool, error) {
	runs, err := s.db.Runs(ctx, s.group, jobs.Filter{State: jobs.Running, Limit: 1})
	return len(runs) > 0, err
}

// looked is the election's gate: it takes in what a look at the lease shows.
func (s *Scheduler) looked(skew lease.Skew) error {
	own := s.clock.Own()
	s.memory.Look(s.election.Server(), own.Mono, own.Wall.Add(skew.Ahead))
	return errors.Join(s.clock.Observe(skew), s.provider.lacking(), s.mode.refuses())
}

// Resign makes this replica step down, as [election.Election.Resign] does, after its
// drain ([WithDrain]).
func (s *Scheduler) Resign(ctx context.Context) error {
	if s.election == nil {
		return errNotMade
	}
	return s.election.Resign(ctx)
}

// State is this replica's role in the election.
func (s *Scheduler) State() election.State {
	if s.election == nil {
		return election.State{}
	}
	return s.election.State()
}

// Skew is how far the database's clock was ahead of this machine's when it was
// last read: with each heartbeat of the leader, and at each look at the lease by
// followers. False: it has not been read yet.
func (s *Scheduler) Skew() (lease.Skew, bool) {
	if s.clock == nil {
		return lease.Skew{}, false
	}
	return s.clock.Last()
}

// EndDrain ends the drain of this replica ([WithDrain]) or, before one, keeps its
// present term from having one. It reports whether there was anything to do.
func (s *Scheduler) EndDrain() bool {
	if s.drain == 0 {
		return false
	}
	terms := []*env{s.current.Load()}
	if s.sessions != nil {
		terms = append(terms, s.sessions.current.Load())
	}
	ended := s.here.endDrain()
	for _, v := range terms {
		ended = v != nil && v.ctx.Err() == nil && v.drain.end() || ended
	}
	return ended
}

// Group is the name that the replicas contend for.
func (s *Scheduler) Group() string { return s.group }

// Owner is the name under which this replica holds the lease.
func (s *Scheduler) Owner() string {
	if s.election == nil {
		return ""
	}
	return s.election.Owner()
}

// Jobs gives access to the group's jobs through the database, on any replica:
// pause, resume, trigger, cancel and the history.
func (s *Scheduler) Jobs() jobs.Group { return jobs.NewGroup(s.db, s.group) }

// lead is one term: it fires the jobs until ctx ends, and returns once nothing
// of the term runs any more.
func (s *Scheduler) lead(ctx context.Context, held election.Term) (err error) {
	if s.provider != nil {
		s.provider.soon(ctx, s.election.Timing().AttemptTimeout)
	}
	as := runsAll
	if s.mode.spread {
		as = assigns
		defer s.crew.OnChange(nil)
	}
	t := newTerm(ctx, held, s, as)
	ended := s.notes.Begin(ctx, t.holder)
	defer func() { ended(cmp.Or(err, context.Cause(t.ctx))) }()
	s.current.Store(t.env)
	defer s.current.Store(nil)
	defer t.trouble.End()
	defer t.cut(nil)
	go t.dog.Watch(t.ctx, held)
	if err := t.open(); err != nil || ctx.Err() != nil {
		t.abandon()
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	a, err := startAlarms(t.env, t.roll.alarms)
	if err != nil {
		t.abandon()
		return err
	}
	t.loop(a)
	if ctx.Err() == nil {
		return context.Cause(t.ctx) // the lease is released, and the next term writes the lease row and the fence row
	}
	return nil
}
