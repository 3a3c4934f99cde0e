package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/internal/clocks"
	"github.com/cronlease/cronlease/internal/execjob"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/settings"
	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/redisstore"
	"github.com/cronlease/cronlease/store/zkstore"
)

// Group is the name that the players contend for.
const Group = "torture"

// Player is the configuration of a player process.
type Player struct {
	Worker     string // see [Event]
	DSN        string
	TTL, Grace time.Duration
	// MaxSkew is by how much its clock and the database's may differ; zero: it judges ticks by its own clock, without
	// regard to the database's.
	MaxSkew time.Duration
	// Spread: the runs of the group are spread over the players.
	Spread bool
	// Odd says which schedule its job text has: that of the odd seconds, or of the even ones.
	Odd bool
}

// Order changes a running player. Each order replaces the previous one.
type Order struct {
	Wrong time.Duration // by which its wall clock is
	Mute  bool          // its log output is blocked
}

// Policies are the jobs of a player, as the checks see them.
var Policies = []Policy{
	{Job: "all", Every: time.Second, All: true, Effects: true},
	{Job: "hold", Every: time.Second, Serial: true},
	{Job: "once", Every: time.Second, Effects: true, Serial: true},
	{Job: "parts", Every: 3 * time.Second, All: true},
	{Job: "parts-0", Every: 3 * time.Second, All: true, Rerun: true, Effects: true},
	{Job: "parts-1", Every: 3 * time.Second, All: true, Rerun: true, Effects: true},
	{Job: "rerun", Every: time.Second, All: true, Rerun: true, Effects: true},
	{Job: "slow", Every: 3 * time.Second, All: true, Effects: true},
	{Job: "text", Every: time.Second, Effects: true, Texts: true},
}

// nameOf is what a run's job is called here: each shard of the job parts has a name of its own. It is empty for a run that was triggered.
func nameOf(job string, trigger uint64) string {
	if whole, is := strings.CutSuffix(job, jobs.ShardsOf("")); is {
		i, _ := triggers.ShardOf(trigger)
		return fmt.Sprint(whole, "-", i)
	}
	if trigger != 0 {
		return ""
	}
	return job
}

// jobOf is the job in the ledger that a name of nameOf is of.
func jobOf(name string) string {
	job, _, _ := strings.Cut(name, "-")
	return job
}

// player is a running one.
type player struct {
	Player
	out     *recorder
	effects effects
}

// Texts of the schedule of the job text.
const even, odd = "*/2 * * * * *", "1-59/2 * * * * *"

// machine has a wall clock of its own.
type machine struct{ wrong atomic.Int64 }

func (m *machine) clocks() clocks.Instant {
	now := clocks.Now()
	now.Wall = now.Wall.Add(time.Duration(m.wrong.Load()))
	return now
}

// Play runs a player until SIGTERM. It reads orders, and writes what happens to out.
func Play(p Player, orders io.Reader, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	record := &recorder{worker: p.Worker, out: out}
	go record.watchTime(ctx)
	store, effects, err := open(p.DSN)
	if err != nil {
		return err
	}
	defer store.Close()
	me := &player{p, record, effects}
	host := &machine{}
	go func() {
		lines := json.NewDecoder(orders)
		for {
			var o Order
			if lines.Decode(&o) != nil {
				return // no more orders will come
			}
			host.wrong.Store(int64(o.Wrong))
			record.mute(o.Mute)
		}
	}()
	clock, text := scheduler.DatabaseClock, even
	if p.MaxSkew == 0 {
		// The database's clock is stepped by hours, and what was recorded is judged by this machine's.
		clock = scheduler.WorkerClock
	}
	if p.Odd {
		text = odd
	}
	mode := func(*settings.Scheduler) {}
	if p.Spread {
		mode = scheduler.WithSpread()
	}
	s, err := scheduler.New(store, Group, mode,
		scheduler.WithTiming(lease.Timing{TTL: p.TTL, Grace: p.Grace}),
		scheduler.WithLogger(zap.New(record)),
		scheduler.WithLabel(p.Worker),
		scheduler.WithObserver(me.observe),
		scheduler.WithClock(clock), scheduler.WithMaxSkew(p.MaxSkew),
		func(s *settings.Scheduler) { s.Election.Keeper.Clock = host.clocks })
	if err != nil {
		return err
	}
	record.add(Event{Kind: Up, Owner: s.Owner(), Text: text})
	record.add(Event{Kind: Follow})
	if err := s.Add(me.jobs(text)...); err != nil {
		return err
	}
	err = s.Run(ctx)
	if err == nil || errors.Is(err, lease.ErrSetup) {
		record.add(Event{Kind: Down})
	}
	return err
}

func (p *player) observe(s election.State) {
	switch s.Role {
	case election.Following:
		p.out.add(Event{Kind: Follow})
	case election.Leading:
		p.out.add(Event{Kind: Lead, Token: s.Token})
	case election.Draining:
		p.out.add(Event{Kind: Drain, Token: s.Token, Text: fmt.Sprint(s.Cause)})
	}
}

func (p *player) jobs(text string) []jobs.Job {
	// A program, as the worker runs it: its guard stops it by itself when the trust in the term ends.
	hold := execjob.New([]string{"sleep", "86400"}, execjob.Options{Grace: p.Grace, Trust: keeper.TrustOf, Log: zap.NewNop()})
	second, third := jobs.Cron("* * * * * *"), jobs.Cron("*/3 * * * * *")
	work := func(pause time.Duration, once bool) func(context.Context, jobs.Run) error {
		return func(ctx context.Context, run jobs.Run) error {
			run.Job = nameOf(run.Job, run.Trigger)
			return p.called(ctx, run, func() error { return p.write(ctx, run, pause, once) })
		}
	}
	retry := jobs.Retry{Attempts: 1000, Initial: 200 * time.Millisecond, Max: time.Second}
	return []jobs.Job{
		{Name: "all", Schedule: second, Misfire: jobs.MisfireAll, Overlap: jobs.OverlapAllow, Do: work(0, false)},
		{Name: "hold", Schedule: second, Do: func(ctx context.Context, run jobs.Run) error {
			return p.called(ctx, run, func() error { return hold(ctx, run) })
		}},
		{Name: "once", Schedule: second, Misfire: jobs.MisfireOnce, Overlap: jobs.OverlapQueue, Do: work(0, false)},
		{Name: "parts", Schedule: third, Misfire: jobs.MisfireAll, Overlap: jobs.OverlapAllow, Recover: jobs.RecoverRerun, Retry: retry, Shards: 2, Do: work(0, true)},
		{Name: "rerun", Schedule: second, Misfire: jobs.MisfireAll, Overlap: jobs.OverlapAllow, Recover: jobs.RecoverRerun, Retry: retry, Do: work(0, true)},
		{Name: "slow", Schedule: third, Misfire: jobs.MisfireAll, Overlap: jobs.OverlapAllow, Do: work(500*time.Millisecond, false)},
		{Name: "text", Schedule: jobs.Cron(text), Misfire: jobs.MisfireAll, Overlap: jobs.OverlapAllow, Do: work(0, false)},
	}
}

// called records a run around its work.
func (p *player) called(ctx context.Context, run jobs.Run, work func() error) error {
	e := Event{Token: run.Token, Job: run.Job, Tick: run.Tick.UnixMicro(), Attempt: run.Attempt}
	p.out.addOf(e, Run, nil)
	stop := context.AfterFunc(ctx, func() { p.out.addOf(e, Stop, context.Cause(ctx)) })
	err := work()
	stop()
	p.out.addOf(e, End, err)
	return err
}

// write stores the run's effect in a fenced transaction, with a pause in its middle. With once, it does so only if this
// tick has no effect yet.
func (p *player) write(ctx context.Context, run jobs.Run, pause time.Duration, once bool) error {
	e := Event{Token: run.Token, Job: run.Job, Tick: run.Tick.UnixMicro(), Attempt: run.Attempt}
	p.out.addOf(e, Begin, nil)
	seq, err := p.effects.store(ctx, run, pause, once)
	e.Seq = seq
	switch {
	case err == nil:
		e.Outcome = Stored
	case errors.Is(err, errNone):
		e.Outcome, e.Seq, err = None, 0, nil
	case errors.Is(err, fence.ErrUnknown), errors.Is(err, redisstore.ErrUnknown), errors.Is(err, zkstore.ErrUnknown):
		e.Outcome, e.Seq = Unknown, 0
	case errors.Is(err, fence.ErrUnfenced):
		e.Outcome, e.Seq = Unfenced, 0
	case errors.Is(err, fence.ErrFenced), errors.Is(err, redisstore.ErrFenced), errors.Is(err, zkstore.ErrFenced):
		e.Outcome, e.Seq = Refused, 0
	default:
		e.Outcome, e.Seq = Broken, 0
	}
	p.out.addOf(e, Commit, err)
	return err
}

// recorder writes events, one a line. It is a zap core, which makes an event of each warning.
type recorder struct {
	worker string

	mu  sync.Mutex // guards out, and the order of times in it
	out io.Writer

	log   sync.Mutex    // guards what follows
	muted chan struct{} // closed when lines need not wait any more; nil while they need not
	waits bool          // one has waited since
}

// mute blocks all log output, as a pipe without a reader does, or unblocks it.
func (r *recorder) mute(is bool) {
	r.log.Lock()
	defer r.log.Unlock()
	switch {
	case is && r.muted == nil:
		r.muted, r.waits = make(chan struct{}), false
	case !is && r.muted != nil:
		close(r.muted)
		r.muted = nil
	}
}

// await waits while what is logged has to.
func (r *recorder) await() {
	r.log.Lock()
	muted, first := r.muted, !r.waits
	r.waits = true
	r.log.Unlock()
	if muted == nil {
		return
	}
	if first {
		r.add(Event{Kind: Mute})
	}
	<-muted
}

func (r *recorder) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At, e.Worker = time.Now().UnixNano(), r.worker
	line, err := json.Marshal(e)
	if err == nil {
		_, err = r.out.Write(append(line, '\n'))
	}
	if err != nil {
		panic(err) // the reader is gone
	}
}

// addOf adds an event of a run.
func (r *recorder) addOf(e Event, kind Kind, err error) {
	e.Kind = kind
	if kind != Commit {
		e.Seq, e.Outcome = 0, ""
	}
	if err != nil {
		e.Text = err.Error()
	}
	r.add(e)
}

// starving is how long a process may not get to run before that is recorded.
const starving = 100 * time.Millisecond

// watchTime records when the process stood still.
func (r *recorder) watchTime(ctx context.Context) {
	const step = 20 * time.Millisecond
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		if gap := now.Sub(last) - step; gap > starving {
			r.add(Event{Kind: Starved, For: int64(gap)})
		}
		last = now
	}
}

// databaseTrouble begins what keeper.Trouble logs.
const databaseTrouble = "database "

// Enabled implements zapcore.Core.
func (r *recorder) Enabled(l zapcore.Level) bool {
	return l >= zapcore.DebugLevel
}

// With implements zapcore.Core.
func (r *recorder) With([]zapcore.Field) zapcore.Core { return r }

// addEarly tells that the term which begins was, or can have been, taken early.
func (r *recorder) addEarly(message string, fields []zapcore.Field) {
	switch message {
	case "took the lease of a leader whose connection is gone":
		for _, f := range fields {
			if f.Key == "token" {
				r.add(Event{Kind: Early, Token: uint64(f.Integer)}) //nolint:gosec // zap keeps a uint64 there
			}
		}
	case "adopted a lease whose acquire was not answered":
		r.add(Event{Kind: Early})
	}
}

// Sync implements zapcore.Core.
func (r *recorder) Sync() error { return nil }

// Check implements zapcore.Core.
func (r *recorder) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	// Of an outage, all attempts but the first are logged at debug level.
	if e.Level >= zapcore.InfoLevel || strings.HasPrefix(e.Message, databaseTrouble) {
		return c.AddCore(e, r)
	}
	return c
}

// Write implements zapcore.Core.
func (r *recorder) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r.addEarly(e.Message, fields)
	r.await()
	if e.Level == zapcore.InfoLevel {
		return nil // it is of no interest but for having waited
	}
	text := e.Message
	for _, f := range fields {
		if f.Key == "task" {
			text += ": " + f.String
		}
		if err, ok := f.Interface.(error); ok {
			text += ": " + err.Error()
		}
	}
	r.add(Event{Kind: Trouble, Text: text})
	return nil
}
