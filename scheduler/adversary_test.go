package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

// An adversary plays against a group for an hour and a half: it kills, cuts off, delays and
// replaces what it can, while jobs of every policy run. After two hours of calm, each tick is
// accounted for and nothing was told that did not happen. See adversarychecks_test.go.
//
// CRONLEASE_SEED replays a game, CRONLEASE_ROUNDS=20 plays 20 times as many.
func TestAdversary(t *testing.T) {
	t.Parallel()
	games(t, 3, false)
}

// The same where runs are spread over the replicas.
func TestAdversarySpread(t *testing.T) {
	t.Parallel()
	games(t, 1, true)
}

func games(t *testing.T, n int, spread bool) {
	for _, seed := range rounds.Seeds(t, n) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				a := newAdversary(c, seed, spread)
				a.play()
				a.calm()
				a.check()
				if c.Failed() {
					a.tell(seed)
				}
			})
		})
	}
}

// adversary is one game.
type adversary struct {
	*cluster
	spread bool // runs are spread over the replicas
	random *rand.Rand
	jobs   []victim
	alive  []*replica
	lacks  map[*replica]map[string]bool // the jobs that a replica was deprived of
	killed map[string]time.Duration     // by owner
	fills  []backfill
	asked  map[jobs.Key]int   // how many attempts a run had when its cancel request had returned
	lost   []event.WritesLost // which no scheduler may say: this database loses nothing
	log    []string
}

// victim is a job of the game.
type victim struct {
	jobs.Job
	texts   []jobs.Schedule // more ways to write its schedule
	comes   bool            // replicas lose it and get it back
	crowded bool            // its runs take longer than its interval
}

// backfill is one that was asked for.
type backfill struct {
	jobs.Backfilled
	job       string
	cancelled bool // or one of its runs was
}

func newAdversary(c *cluster, seed uint64, spread bool) *adversary {
	a := &adversary{cluster: c, spread: spread, random: rand.New(rand.NewPCG(seed, 0)), lacks: map[*replica]map[string]bool{}, killed: map[string]time.Duration{}, asked: map[jobs.Key]int{}}
	for i := range 7 {
		a.jobs = append(a.jobs, a.victim(fmt.Sprint("job-", i)))
	}
	for i := range 3 { // those are never taken from a replica: each success has its follower
		a.jobs[i].comes = false
		job := jobs.Job{Name: fmt.Sprint("after-", i), Schedule: jobs.After(a.jobs[i].Name), CatchUp: jobs.CatchUp{Limit: 10_000}, History: keepAll,
			Recover: drawn(a, jobs.Recovers()), Overlap: drawn(a, []jobs.Overlap{jobs.OverlapForbid, jobs.OverlapAllow}), Do: sleep(a.span(400 * time.Millisecond))}
		a.jobs = append(a.jobs, victim{Job: job})
	}
	for range 3 {
		a.start()
	}
	return a
}

var keepAll = jobs.History{Keep: 1_000_000}

// victim draws a job: any policy with any other.
func (a *adversary) victim(name string) victim {
	v := victim{comes: a.one(3), crowded: a.one(4)}
	v.Job = jobs.Job{Name: name, History: keepAll,
		Misfire: drawn(a, jobs.Misfires()), Recover: drawn(a, jobs.Recovers()), Overlap: drawn(a, jobs.Overlaps())}
	every := time.Duration(2+a.random.IntN(58)) * time.Second
	switch a.random.IntN(7) {
	case 0:
		v.Schedule = jobs.Every(every)
	case 1:
		v.Schedule = jobs.FixedRate(every)
	case 2:
		every = time.Minute
		v.Schedule = jobs.Cron(fmt.Sprintf("%d * * * * *", a.random.IntN(60)))
	case 3:
		every = 10 * time.Minute
		v.Schedule = jobs.Cron(fmt.Sprintf("%d */10 * * * *", a.random.IntN(60)))
	default:
		n := drawn(a, []int{1, 5, 10, 30})
		every = time.Duration(n) * time.Second
		v.Schedule = jobs.Cron(fmt.Sprintf("*/%d * * * * *", n))
		v.texts = []jobs.Schedule{v.Schedule, jobs.Every(every), jobs.Cron(fmt.Sprintf("*/%d * * * * ?", n)).In("Europe/Berlin")}
	}
	if v.Overlap == jobs.OverlapAllow {
		v.Limit = a.random.IntN(3)
	}
	v.CatchUp.Limit = 1 + a.random.IntN(30)
	if a.one(3) {
		v.CatchUp.Deadline = a.span(5 * time.Minute)
	}
	if a.one(2) {
		v.Retry = jobs.Retry{Attempts: 1 + a.random.IntN(4), Initial: a.span(20 * time.Second), Max: time.Minute}
	}
	if a.one(3) {
		v.Jitter = a.span(every)
	}
	if a.one(4) {
		v.LockAtLeastFor = a.span(30 * time.Second)
	}
	if a.one(4) {
		v.Timeout = a.span(time.Minute)
	}
	if a.one(5) {
		v.PauseAfter = 1 + a.random.IntN(3)
	}
	work := a.span(2 * every)
	if !v.crowded {
		work, v.LockAtLeastFor, v.Jitter = a.span(every*4/10), min(v.LockAtLeastFor, every/3), min(v.Jitter, every/4)
	}
	if !v.Overlap.Replaces() && every >= 30*time.Second && a.one(2) { // more runs take the race detector too long
		v.Shards = 2 + a.random.IntN(2)
	}
	v.Do = a.work(work)
	return v
}

// work takes up to so long, by a seed of its own, so that a run is the same wherever it runs. Some
// of it fails, and some goes on for a while after it was told to end.
func (a *adversary) work(most time.Duration) func(context.Context, jobs.Run) error {
	seed, fails, slow := a.random.Uint64(), a.one(3), a.one(2)
	return func(ctx context.Context, run jobs.Run) error {
		random := rand.New(rand.NewPCG(seed, uint64(run.Tick.UnixNano())+uint64(run.Attempt)+run.Trigger))
		select {
		case <-time.After(time.Duration(random.Int64N(int64(most)))):
		case <-ctx.Done():
			if slow {
				time.Sleep(time.Duration(random.Int64N(int64(1900 * time.Millisecond)))) // less than the drift and grace allow
			}
			return ctx.Err()
		}
		if fails && random.IntN(3) == 0 {
			return errors.New("no")
		}
		return nil
	}
}

func (a *adversary) one(in int) bool { return a.random.IntN(in) == 0 }

func drawn[T any](a *adversary, from []T) T { return from[a.random.IntN(len(from))] }

func (a *adversary) span(most time.Duration) time.Duration {
	return 1 + time.Duration(a.random.Int64N(int64(most)))
}

func (a *adversary) note(format string, args ...any) {
	a.log = append(a.log, fmt.Sprintf("%v ", time.Since(a.begin))+fmt.Sprintf(format, args...))
}

func (a *adversary) start() {
	var all []jobs.Job
	for _, v := range a.jobs {
		all = append(all, v.Job)
	}
	options := []scheduler.Option{scheduler.WithEvents(a.heard)}
	if a.spread {
		options = append(options, scheduler.WithSpread())
	}
	r := a.cluster.start(all, options...)
	a.alive = append(a.alive, r)
	a.lacks[r] = map[string]bool{}
	a.note("start %s", r.Owner())
}

func (a *adversary) heard(e event.Event) {
	if lost, is := e.(event.WritesLost); is {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.lost = append(a.lost, lost)
	}
}

func (a *adversary) play() {
	a.until(30 * time.Second)
	for time.Since(a.begin) < 90*time.Minute {
		time.Sleep(a.span(40 * time.Second))
		r := drawn(a, a.alive)
		if i := slices.IndexFunc(a.alive, (*replica).leads); i >= 0 && a.one(2) {
			r = a.alive[i]
		}
		moves := []func(*replica, *victim){a.cutSignal, a.kill, a.stop, a.away, a.away, a.lose, a.hold, a.pause, a.trigger, a.trigger,
			a.backfill, a.cancelBackfills, a.cancelRun, a.deprive, a.deprive, a.replace, a.replace, a.replace, a.replace, a.resign}
		drawn(a, moves)(r, &a.jobs[a.random.IntN(7)])
		for len(a.alive) < 2 || len(a.alive) < 4 && a.one(10) {
			a.start()
		}
	}
}

func (r *replica) leads() bool { return r.State().Role == election.Leading }

func (a *adversary) cutSignal(*replica, *victim) {
	a.note("cut the leader's signal")
	a.store.Cut("g")
}

func (a *adversary) kill(r *replica, _ *victim) {
	a.note("kill %s", r.Owner())
	r.kill()
	a.killed[r.Owner()] = time.Since(a.begin)
	a.alive = slices.DeleteFunc(a.alive, func(x *replica) bool { return x == r })
}

func (a *adversary) stop(r *replica, _ *victim) {
	a.note("stop %s", r.Owner())
	r.cancel()
	a.alive = slices.DeleteFunc(a.alive, func(x *replica) bool { return x == r })
}

func (a *adversary) away(r *replica, _ *victim) {
	d := a.span(30 * time.Second)
	cut := r.leads() && a.one(2)
	a.note("cut %s off for %v; its signal, too: %v", r.Owner(), d, cut)
	r.link.set(func(l *link) { l.away = time.Now().Add(d) })
	if cut {
		a.store.Cut("g")
	}
}

var statements = []string{"Claim", "Move", "Acquire", "Declare", "Load", "Renew", "Changes", "Runs"}

func (a *adversary) lose(r *replica, _ *victim) {
	op, n := drawn(a, statements), 1+a.random.IntN(3)
	a.note("lose %d answers to %s of %s", n, op, r.Owner())
	r.link.set(func(l *link) { l.lose[op] = n })
}

func (a *adversary) hold(r *replica, _ *victim) {
	op, d, late := drawn(a, statements), a.span(5*time.Second), a.one(2)
	a.note("hold %s of %s for %v; on its way there: %v", op, r.Owner(), d, late)
	r.link.set(func(l *link) {
		if late {
			l.hold[op] = d
		} else {
			l.delay[op] = d
		}
	})
	time.Sleep(a.span(10 * time.Second))
	r.link.set(func(l *link) { clear(l.hold); clear(l.delay) })
}

func (a *adversary) pause(_ *replica, v *victim) {
	name := v.Name
	if a.one(4) {
		name = "" // the group
	}
	a.note("pause %q", name)
	a.control(a.Pause, name)
	time.Sleep(a.span(time.Minute))
	a.note("resume %q", name)
	a.control(a.Resume, name)
}

func (a *adversary) trigger(_ *replica, v *victim) {
	key, err := a.TriggerWith(a.Context(), v.Name, a.random.IntN(1000))
	a.note("trigger %v: %v", key, err)
}

func (a *adversary) backfill(_ *replica, v *victim) {
	asked := jobs.Backfill{From: a.begin.Add(time.Since(a.begin) - a.span(5*time.Minute))}
	if a.one(2) {
		asked.Every = a.span(3 * time.Second)
	}
	done, err := a.Backfill(a.Context(), v.Name, asked)
	a.note("backfill %s %d, %d ticks: %v", v.Name, done.ID, len(done.Ticks), err)
	if err == nil {
		a.fills = append(a.fills, backfill{Backfilled: done, job: v.Name})
	}
}

func (a *adversary) cancelBackfills(_ *replica, v *victim) {
	if !a.one(3) {
		return
	}
	n, err := a.CancelBackfills(a.Context(), v.Name)
	a.note("cancel the backfills of %s: %d, %v", v.Name, n, err)
	for i := range a.fills {
		a.fills[i].cancelled = a.fills[i].cancelled || a.fills[i].job == v.Name
	}
}

// cancelRun asks for the end of a run that is not over. Half of the time, the replica is slow to learn of that.
func (a *adversary) cancelRun(r *replica, v *victim) {
	open := slices.DeleteFunc(a.records(v.Name), func(r jobs.Record) bool { return r.State.Over() })
	if len(open) == 0 {
		return
	}
	key := drawn(a, open).Key
	if a.one(2) {
		r.link.set(func(l *link) { l.hold["Load"] = 5 * time.Second })
		defer r.link.set(func(l *link) { clear(l.hold) })
		defer time.Sleep(a.span(10 * time.Second))
	}
	err := a.Cancel(a.Context(), key)
	a.note("cancel %v: %v", key, err)
	if err == nil {
		now := a.records(v.Name)
		a.asked[key] = now[slices.IndexFunc(now, func(r jobs.Record) bool { return r.Key == key })].Attempt
	}
	for i := range a.fills {
		a.fills[i].cancelled = a.fills[i].cancelled || a.fills[i].ID == key.Trigger
	}
}

// deprive takes a job from a replica, or gives it back.
func (a *adversary) deprive(r *replica, v *victim) {
	switch {
	case !v.comes:
	case a.lacks[r][v.Name]:
		a.note("add %s to %s: %v", v.Name, r.Owner(), r.Add(r.doing(v.Job)...))
		delete(a.lacks[r], v.Name)
	default:
		a.note("remove %s from %s: %v", v.Name, r.Owner(), r.Remove(v.Name))
		a.lacks[r][v.Name] = true
	}
}

// replace gives one replica, or all, another text of the schedule.
func (a *adversary) replace(r *replica, v *victim) {
	job, on := v.Job, []*replica{r}
	if len(v.texts) > 0 {
		job.Schedule = drawn(a, v.texts)
	}
	if a.one(2) {
		on = a.alive
	}
	for _, r := range on {
		if !a.lacks[r][v.Name] {
			a.note("%s is %v on %s: %v", v.Name, job.Schedule, r.Owner(), r.Replace(r.doing(job)...))
		}
	}
}

func (a *adversary) resign(r *replica, _ *victim) {
	ctx, cancel := context.WithTimeout(a.Context(), time.Second)
	defer cancel()
	a.note("resign %s: %v", r.Owner(), r.Resign(ctx))
}

// calm ends all faults, gives each replica its jobs and resumes what is paused, now and once more
// when what was waiting may have paused its job again.
func (a *adversary) calm() {
	a.note("calm")
	for _, r := range a.alive {
		r.link.set(func(l *link) { l.away = time.Time{}; clear(l.hold); clear(l.delay); clear(l.lose) })
		for _, v := range a.jobs {
			if a.lacks[r][v.Name] {
				check(a.T, r.Add(r.doing(v.Job)...))
			}
		}
	}
	for range 2 {
		a.control(a.Resume, "")
		for _, v := range a.jobs[:7] {
			a.control(a.Resume, v.Name)
		}
		time.Sleep(40 * time.Minute)
	}
	a.until(3*time.Hour + 30*time.Minute + 500*time.Millisecond)
}

// tell logs the game.
func (a *adversary) tell(seed uint64) {
	for _, line := range a.log {
		a.Log(line)
	}
	for _, v := range a.jobs {
		v.Do = nil
		a.Logf("%+v", v)
	}
	a.Logf("CRONLEASE_SEED=%d", seed)
}
