package page_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store"
)

// group is a group with a past, in a database whose clock is stepped through it: what happened to a
// service on a Monday morning, for pictures.
type group struct {
	*testing.T
	store *memdb.Store
	now   time.Time
	acts  []act
	terms []jobs.Term // oldest first
	claim uint64
	rand  *rand.Rand
}

// act is something that happens at an instant.
type act struct {
	at time.Time
	do func()
}

const groupName = "billing"

// monday is when the pictures are taken.
var monday = time.Date(2027, 3, 15, 10, 42, 17, 0, time.UTC)

func newGroup(t *testing.T) *group {
	t.Helper()
	g := &group{T: t, store: memdb.New(), now: time.Now(), rand: rand.New(rand.NewPCG(1, 2))}
	g.script()
	slices.SortStableFunc(g.acts, func(a, b act) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	for _, a := range g.acts {
		if a.at.After(monday) {
			break
		}
		g.step(a.at)
		a.do()
	}
	g.step(monday)
	g.heartbeat(1100 * time.Millisecond)
	g.replicas()
	return g
}

// step sets the database's clock.
func (g *group) step(to time.Time) {
	g.Helper()
	reading, err := g.store.Read(g.Context(), groupName)
	g.ok(err)
	g.store.StepClock(to.Sub(reading[0].Now))
}

func (g *group) ok(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

func (g *group) at(t time.Time, do func()) { g.acts = append(g.acts, act{t, do}) }

// heartbeat makes the last heartbeat of the leader so old.
func (g *group) heartbeat(age time.Duration) {
	at := g.clock().Add(-age)
	g.store.Update(groupName, func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) {
		l.RenewedAt = at
		return l, f
	})
}

func (g *group) clock() time.Time {
	reading, err := g.store.Read(g.Context(), groupName)
	g.ok(err)
	return reading[0].Now
}

// holder is who leads at an instant.
func (g *group) holder(at time.Time) store.Holder {
	h := store.Holder{Group: groupName}
	for _, t := range g.terms {
		if !t.Began.After(at) {
			h.Owner, h.Token = t.Owner, t.Token
		}
	}
	return h
}

var owners = []string{
	"web/app-7d9c4-x2x8k/1/q6r3hxk2vbyta", "web/app-7d9c4-mm4zt/1/b2c5jw7mfnopu", "web/app-7d9c4-p9fjl/1/z4x7nsd3qrtev",
}

// term begins a term, and ends the one before.
func (g *group) term(owner string, began, before time.Time, why string, early bool) {
	token := uint64(began.UnixMicro())
	if n := len(g.terms); n > 0 {
		g.terms[n-1].Ended, g.terms[n-1].Why = before, why
	}
	g.terms = append(g.terms, jobs.Term{Token: token, Owner: owner, Began: began, Early: early})
	n := len(g.terms) - 1
	g.at(began, func() {
		h := store.Holder{Group: groupName, Owner: owner, Token: token}
		g.store.Update(groupName, func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) {
			lease := store.Lease{Owner: owner, Token: token, Heartbeat: 1, RenewedAt: began, TTL: 15 * time.Second}
			return &lease, &store.Fence{Owner: owner, Token: token}
		})
		if n > 0 {
			last := g.terms[n-1]
			g.ok(g.store.NoteTerm(g.Context(), store.TermNote{
				Holder: store.Holder{Group: groupName, Owner: last.Owner, Token: last.Token}, Over: true, Ended: began.Sub(last.Ended), Why: last.Why,
			}))
		}
		g.ok(g.store.NoteTerm(g.Context(), store.TermNote{Holder: h, Early: early}))
		var all []store.Declared
		for _, j := range script {
			all = append(all, store.Declared{Name: j.name, Schedule: j.schedule.String()})
		}
		g.ok(g.store.Declare(g.Context(), h, all))
	})
}

func (g *group) id() (id store.ClaimID) {
	g.claim++
	binary.BigEndian.PutUint64(id[:], g.claim)
	return id
}

// outcome is what becomes of a run.
type outcome struct {
	state  jobs.State
	took   time.Duration
	late   time.Duration
	missed int
	fails  []string // errors of attempts before the last one
	err    string
	output string
	// lost: its replica died.
	lost bool
}

// run runs a tick.
func (g *group) run(key jobs.Key, o outcome) {
	g.at(key.Tick.Add(o.late+40*time.Millisecond), func() {
		now := g.clock()
		h := g.holder(now)
		if o.state == jobs.Skipped {
			_, err := g.store.Claim(g.Context(), h, g.id(), []store.Claim{{Key: key, State: jobs.Skipped, Missed: o.missed, Error: o.err}})
			g.ok(err)
			return
		}
		_, err := g.store.Claim(g.Context(), h, g.id(), []store.Claim{{Key: key, State: jobs.Running, Missed: o.missed}})
		g.ok(err)
	})
	if o.state == jobs.Skipped {
		return
	}
	at, attempt := key.Tick.Add(o.late+40*time.Millisecond), 1
	for _, why := range o.fails {
		at = at.Add(o.took)
		n := attempt
		g.at(at, func() { g.move(key, jobs.Running, n, jobs.Waiting, "failed: "+why, "dialing 10.2.0.7:443\n"+why+"\n") })
		at = at.Add(8 * time.Second)
		g.at(at, func() { g.move(key, jobs.Waiting, n, jobs.Running, "", "") })
		attempt++
	}
	if o.state == jobs.Running {
		return
	}
	at = at.Add(o.took)
	if o.lost {
		at = at.Add(time.Hour)
		for _, t := range g.terms {
			if t.Began.After(key.Tick) && t.Began.Before(at) {
				at = t.Began.Add(2 * time.Second)
			}
		}
	}
	g.at(at, func() { g.move(key, jobs.Running, attempt, o.state, o.err, o.output) })
}

func (g *group) move(key jobs.Key, from jobs.State, attempt int, to jobs.State, why, output string) {
	g.Helper()
	h := g.holder(g.clock())
	record, err := jobs.NewGroup(g.store, groupName).Run(g.Context(), key)
	g.ok(err)
	m := store.Move{Key: key, From: from, Attempt: attempt, Owner: record.Owner, Token: record.Token, To: to, Error: why}
	if output != "" {
		m.Output = []byte(output)
	}
	done, err := g.store.Move(g.Context(), h, []store.Move{m})
	g.ok(err)
	if !done[0] {
		g.Fatalf("%v of %v: not moved to %v", key, record, to)
	}
}

// scripted is a job of the script.
type scripted struct {
	name     string
	schedule jobs.Schedule
	known    time.Duration // before monday
	usual    time.Duration
	// what says what becomes of a tick, if it is not the usual thing.
	what func(tick time.Time) (outcome, bool)
}

// on tells of one tick.
func on(clock string, o outcome) func(time.Time) (outcome, bool) {
	return func(tick time.Time) (outcome, bool) {
		return o, tick.YearDay() == monday.YearDay() && tick.Format("15:04:05") == clock
	}
}

func oneOf(all ...func(time.Time) (outcome, bool)) func(time.Time) (outcome, bool) {
	return func(tick time.Time) (outcome, bool) {
		for _, f := range all {
			if o, ok := f(tick); ok {
				return o, true
			}
		}
		return outcome{}, false
	}
}

const (
	refused = "Post \"https://bank.example/statements\": dial tcp 10.2.0.7:443: connect: connection refused"
	week    = 7 * 24 * time.Hour
)

var script = []scripted{
	{"accounts.reconcile", jobs.Every(10 * time.Minute), week, 48 * time.Second, oneOf(
		on("10:10:00", outcome{state: jobs.Succeeded, took: 21 * time.Second, fails: []string{refused, refused}, output: "bank: 214 statements\nmatched 209, open 5\n"}),
		on("09:50:00", outcome{state: jobs.Failed, took: 9 * time.Second, fails: []string{refused, refused}, err: refused, output: "dialing 10.2.0.7:443\n" + refused + "\n"}),
	)},
	{"cache.warm", jobs.Every(30 * time.Second), 26 * time.Hour, 900 * time.Millisecond, nil},
	{"export.tax", jobs.Manual(), week, time.Minute, nil},
	{"invoices.monthly", jobs.Cron("0 0 2 1 * *").In("Europe/Berlin"), 40 * 24 * time.Hour, 47 * time.Minute, nil},
	{"invoices.remind", jobs.Cron("0 0 9 * * MON-FRI").In("Europe/Berlin"), week, 3 * time.Minute, nil},
	{"mail.digest", jobs.Every(5 * time.Minute), 3 * 24 * time.Hour, 34 * time.Second, oneOf(
		on("10:15:00", outcome{state: jobs.Interrupted, lost: true, took: time.Minute, err: "its replica died, or lost its lease"}),
		on("10:35:00", outcome{state: jobs.TimedOut, took: 2 * time.Minute, err: "jobs: timeout: no answer from smtp.example within 2m0s", output: "sending 1,204 digests\n450 of them sent\n"}),
	)},
	{"payments.capture", jobs.Every(time.Minute), 26 * time.Hour, 11 * time.Second, oneOf(
		on("10:16:00", outcome{state: jobs.Succeeded, late: 17 * time.Second, took: 14 * time.Second}),
		on("10:41:00", outcome{state: jobs.Succeeded, took: 38 * time.Second}),
	)},
	{"rates.import", jobs.Cron("0 7 * * * *"), week, 6 * time.Second, oneOf(
		on("10:07:00", outcome{state: jobs.Panicked, took: 2 * time.Second, err: "jobs: panic: runtime error: index out of range [3] with length 3", output: "EUR 1.0000\nUSD 1.0912\nGBP 0.8571\n"}),
	)},
	{"report.nightly", jobs.Cron("0 0 2 * * *").In("Europe/Berlin"), week, 26 * time.Minute, nil},
	{"search.reindex", jobs.Every(time.Hour), week, 14 * time.Minute, oneOf(
		on("10:00:00", outcome{state: jobs.Cancelled, took: 15*time.Minute + 4*time.Second, err: "jobs: cancelled on request"}),
	)},
	{"sessions.prune", jobs.Every(15 * time.Minute), week, 2 * time.Second, nil},
	{"stock.sync", jobs.Every(2 * time.Minute), 30 * time.Hour, 25 * time.Second, func(tick time.Time) (outcome, bool) {
		paused := monday.Add(-27 * time.Minute)
		return outcome{state: jobs.Skipped, err: "paused"}, tick.After(paused)
	}},
	{"webhooks.retry", jobs.Every(4 * time.Minute), 3 * 24 * time.Hour, 70 * time.Second, oneOf(
		on("10:20:00", outcome{state: jobs.Succeeded, missed: 1, late: 3 * time.Second, took: 71 * time.Second}),
		on("10:16:00", outcome{state: jobs.Skipped, err: "nobody led when it was due"}),
		on("10:28:00", outcome{state: jobs.Succeeded, took: 3 * time.Minute, late: 22 * time.Second}),
		on("10:40:00", outcome{state: jobs.Running}),
	)},
}

func (g *group) script() {
	day := monday.Truncate(24 * time.Hour)
	g.term(owners[2], monday.Add(-41*24*time.Hour), time.Time{}, "", false)
	g.term(owners[0], monday.Add(-6*24*time.Hour-3*time.Hour), monday.Add(-6*24*time.Hour-3*time.Hour), "it was stopped", false)
	g.term(owners[1], monday.Add(-2*24*time.Hour-5*time.Hour), monday.Add(-2*24*time.Hour-5*time.Hour), "it was stopped", false)
	lost := day.Add(10*time.Hour + 15*time.Minute + 41*time.Second)
	g.term(owners[0], lost.Add(16*time.Second), lost, store.WhyUntold, false)
	resigned := day.Add(10*time.Hour + 33*time.Minute + 12*time.Second)
	g.term(owners[2], resigned.Add(40*time.Millisecond), resigned, "it was asked to resign", false)

	for _, j := range script {
		from := monday.Add(-j.known)
		for tick := j.schedule.Next(from); !tick.IsZero() && !tick.After(monday.Add(time.Hour)); tick = j.schedule.Next(tick) {
			o, ok := outcome{}, false
			if j.what != nil {
				o, ok = j.what(tick)
			}
			if !ok {
				took := time.Duration(float64(j.usual) * (0.7 + 0.6*g.rand.Float64()))
				o = outcome{state: jobs.Succeeded, took: took}
				if j.known > 24*time.Hour && g.rand.IntN(160) == 0 && tick.Before(monday.Add(-2*time.Hour)) {
					o = outcome{state: jobs.Failed, took: took, err: "exit status 1", output: "error: the connection was closed\n"}
				}
			}
			// What would be going on when a leader was lost was over by then.
			if end := tick.Add(o.took); !o.lost && tick.Before(lost) && end.After(lost) {
				o.took = lost.Sub(tick) - time.Second
			}
			if o.state == jobs.Succeeded && o.late == 0 && !tick.Before(lost) && tick.Before(lost.Add(16*time.Second)) {
				o.late = 16 * time.Second
			}
			g.run(jobs.Key{Job: j.name, Tick: tick}, o)
		}
	}
	g.asks(day)
}

func by(ctx context.Context, name string, via jobs.Via) context.Context {
	return jobs.WithActor(ctx, jobs.Actor{Name: name, Via: via})
}

// asks are the actions of the day.
func (g *group) asks(day time.Time) {
	of := jobs.NewGroup(g.store, groupName)
	at := func(hours, minutes, seconds int) time.Time {
		return day.Add(time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute + time.Duration(seconds)*time.Second)
	}
	ada := by(g.Context(), "ada@ops-1", jobs.ViaCLI)
	lin := by(g.Context(), "lin", jobs.ViaPage)
	g.at(at(8, 2, 11), func() {
		g.ok(of.Pause(lin, "invoices.remind"))
	})
	g.at(at(8, 20, 40), func() { g.ok(of.Resume(lin, "invoices.remind")) })
	g.at(at(9, 31, 4), func() {
		key, err := of.TriggerWith(by(g.Context(), "cron.example/deploy", jobs.ViaAPI), "export.tax", map[string]any{"year": 2026, "format": "xml", "dry_run": false})
		g.ok(err)
		g.move(key, jobs.Waiting, 0, jobs.Running, "", "")
		g.step(at(9, 32, 1))
		g.move(key, jobs.Running, 1, jobs.Succeeded, "", "2026: 18,204 entries\nwritten to tax-2026.xml\n")
	})
	g.at(monday.Add(-27*time.Minute), func() { g.ok(of.Pause(ada, "stock.sync")) })
	g.at(at(10, 14, 58), func() {
		g.ok(of.Cancel(lin, jobs.Key{Job: "search.reindex", Tick: at(10, 0, 0)}))
	})
	g.at(at(10, 22, 9), func() {
		if err := of.Pause(ada, "stock.snyc"); err == nil {
			g.Error("a job that is not there was paused")
		}
	})
	g.at(at(10, 33, 11), func() { g.ok(g.store.AskResign(ada, groupName, g.holder(at(10, 33, 11)).Token)) })
}

func (g *group) replicas() {
	all := map[string]jobs.ScheduleHash{}
	for _, j := range script {
		all[j.name] = jobs.HashSchedule(j.schedule.String())
	}
	for i, owner := range owners {
		version := "v1.8.2"
		if i == 2 {
			version = "v1.9.0"
		}
		g.step(monday.Add(-[]time.Duration{28 * time.Minute, 53 * time.Hour, 41 * 24 * time.Hour}[i]))
		g.ok(g.store.Enlist(g.Context(), groupName, jobs.Replica{Owner: owner, Version: version, List: jobs.FirstList, Jobs: all}))
		shown := g.store.HandoverSignal(groupName).(store.PresenceSignal)
		g.ok(shown.Announce(g.Context(), store.ReplicaToken(owner), ""))
		g.Cleanup(func() { _ = shown.Close() })
	}
	for i, owner := range owners {
		g.step(monday.Add(-[]time.Duration{12 * time.Second, 95 * time.Second, 41 * time.Second}[i]))
		g.ok(g.store.Refresh(g.Context(), groupName, owner))
	}
	g.step(monday)
}

// lock takes locks as several processes do, and has some wait.
func (g *group) lock() {
	g.Helper()
	client := func(label string) *locks.Client {
		c, err := locks.New(g.store, locks.WithLabel(label))
		g.ok(err)
		g.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := c.Close(ctx); err != nil {
				g.Error(err)
			}
		})
		return c
	}
	held := func(l *locks.Lock, err error) {
		g.Helper()
		g.ok(err)
		g.Cleanup(func() { _ = l.Unlock(context.Background()) }) // Close says what is still held
	}
	web, jobs, api := client("web"), client("jobs"), client("api")
	held(jobs.Mutex("invoices/2027-03", locks.Label("invoices.remind")).Lock(g.Context()))
	held(web.RWMutex("stock/warehouse-2", locks.Label("pick list 4711")).RLock(g.Context()))
	held(api.RWMutex("stock/warehouse-2", locks.Label("GET /stock")).RLock(g.Context()))
	held(api.Mutex("account/90210").Lock(g.Context()))
	waits := func(get func(context.Context) (*locks.Lock, error)) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if l, err := get(ctx); err == nil {
				_ = l.Unlock(context.Background())
			}
		}()
		g.Cleanup(func() { cancel(); <-done })
	}
	waits(jobs.RWMutex("stock/warehouse-2", locks.Label("stock.sync")).Lock)
	waits(web.Mutex("invoices/2027-03", locks.Label("POST /invoices")).Lock)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // no event tells of a waiter
		found, err := locks.List(g.Context(), g.store, "", 10)
		g.ok(err)
		waiting := 0
		for _, lock := range found {
			waiting += len(lock.Waiting)
		}
		if waiting == 2 {
			return
		}
		if time.Now().After(end) {
			g.Fatalf("the locks are not waited for: %+v", found)
		}
	}
}
