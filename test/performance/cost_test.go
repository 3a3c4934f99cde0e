package performance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// grown are the sizes that costs are measured at.
var grown = []int{1, 10, 100, 1000}

// BenchmarkCost counts what an operation sends and makes durable, as a counter
// between the program and the server sees it. It measures no time. An operation is
// named by the benchmark: a heartbeat or a look for so many groups, a hand-over
// among so many replicas, a takeover or one tick of so many jobs, a lock and its unlock by so many
// workers, a lock that passes on while so many wait.
func BenchmarkCost(b *testing.B) {
	dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
		each := func(name, of string, sizes []int, f func(b *testing.B, db dbtest.Database, n int)) {
			for _, n := range sizes {
				b.Run(fmt.Sprintf("%s/%s=%d", name, of, n), func(b *testing.B) { f(b, dbtest.Fresh(b, db.Kind), n) })
			}
		}
		each("heartbeat", "groups", grown, costHeartbeat)
		each("look", "groups", grown, costLook)
		each("hand-over", "replicas", []int{2, 10, 50}, costHandOver)
		each("takeover", "jobs", grown, costTakeover)
		each("tick", "jobs", grown, costTick)
		each("lock", "workers", grown, costLock)
		each("lock-hand-over", "waiters", grown, costLockHandOver)
	})
}

// opened returns a counted store.
func opened(b *testing.B, db dbtest.Database) (*counter, *mysqlstore.Store) {
	b.Helper()
	c, through := count(b, db)
	return c, open(b, through)
}

// repeated is how often an operation is repeated whose cost is always the same.
const repeated = 20

func costHeartbeat(b *testing.B, db dbtest.Database, n int) {
	c, s := opened(b, db)
	r := store.Renew{Owner: "me", Heartbeat: 1}
	for i := range n {
		name := fmt.Sprint("group-", i)
		if err := s.Prepare(b.Context(), name, time.Minute); err != nil {
			b.Fatal(err)
		}
		readings, err := s.Read(b.Context(), name)
		if err != nil {
			b.Fatal(err)
		}
		token, err := s.Acquire(b.Context(), store.Acquire{Read: readings[0], Owner: "me", Heartbeat: 1, TTL: time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		r.Leases = append(r.Leases, store.Renewal{Group: name, Token: token, Heartbeat: 1})
	}
	beat := func() {
		r.Heartbeat++
		if renewed, err := s.Renew(b.Context(), r); err != nil || renewed != n {
			b.Fatalf("renewed %d: %v", renewed, err)
		}
		for i := range r.Leases {
			r.Leases[i].Heartbeat = r.Heartbeat
		}
	}
	beat() // which opens the connection
	c.reset()
	for range repeated {
		beat()
	}
	total, _ := c.reset()
	total.report(b, repeated)
}

func costLook(b *testing.B, db dbtest.Database, n int) {
	c, s := opened(b, db)
	var groups []string
	for i := range n {
		groups = append(groups, fmt.Sprint("group-", i))
		if err := s.Prepare(b.Context(), groups[i], time.Minute); err != nil {
			b.Fatal(err)
		}
	}
	look := func() {
		if _, err := s.Read(b.Context(), groups...); err != nil {
			b.Fatal(err)
		}
	}
	look()
	c.reset()
	for range repeated {
		look()
	}
	total, _ := c.reset()
	total.report(b, repeated)
}

// candidate is a replica whose campaign can be stopped and begun again.
type candidate struct {
	*election.Election
	stop context.CancelFunc
	done chan error
}

func (r *candidate) begin(ctx context.Context) {
	ctx, r.stop = context.WithCancel(ctx)
	go func() {
		r.done <- r.Run(ctx, func(ctx context.Context, _ election.Term) error {
			<-ctx.Done()
			return nil
		})
	}()
}

func costHandOver(b *testing.B, db dbtest.Database, n int) {
	c, through := count(b, db)
	open(b, db)
	var all []*candidate
	leading := func() *candidate {
		i := slices.IndexFunc(all, func(r *candidate) bool { return r.State().Role == election.Leading })
		if i < 0 {
			return nil
		}
		return all[i]
	}
	for range n {
		s, err := mysqlstore.Open(through.DSN)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		e, err := election.New(s, group)
		if err != nil {
			b.Fatal(err)
		}
		r := &candidate{Election: e, done: make(chan error, 1)}
		all = append(all, r)
		r.begin(context.WithoutCancel(b.Context()))
		until(b, "a leader", func() bool { return leading() != nil })
		until(b, "a follower", func() bool { s := r.State(); return s.Token != 0 })
	}
	const rounds = 5
	var total cost
	for range rounds {
		<-time.After(200 * time.Millisecond)
		was := leading()
		c.reset()
		was.stop()
		if err := <-was.done; err != nil {
			b.Fatal(err)
		}
		until(b, "the next leader", func() bool { now := leading(); return now != nil && now != was })
		<-time.After(100 * time.Millisecond)
		d, _ := c.reset()
		total.add(d)
		was.begin(context.WithoutCancel(b.Context()))
	}
	for _, r := range all {
		r.stop()
	}
	for _, r := range all {
		if err := <-r.done; err != nil {
			b.Error(err)
		}
	}
	total.report(b, rounds)
}

// costTakeover is what a scheduler sends from the death of the leader's process until
// it has taken over and the jobs are scheduled.
func costTakeover(b *testing.B, db dbtest.Database, n int) {
	c, s := opened(b, db)
	p := newPlayers(b, spec{DSN: db.DSN, TTL: 15 * time.Second, Waiting: n})
	leader := p.start()
	p.waitFor(leader, "leading")
	until(b, "all jobs in the ledger", func() bool {
		snapshot, err := s.Load(b.Context(), group)
		return err == nil && len(snapshot.Jobs) >= n
	})
	sched, end := rest(b, s, n, election.Following)
	defer end()
	<-time.After(2 * time.Second) // it waits
	c.reset()
	p.kill(leader)
	until(b, "the takeover", func() bool { return sched.State().Role == election.Leading })
	<-time.After(200 * time.Millisecond)
	total, kinds := c.reset()
	for kind, d := range kinds {
		b.Logf("%s: %+v", kind, d)
	}
	total.report(b, 1)
}

func costTick(b *testing.B, db dbtest.Database, n int) {
	c, s := opened(b, db)
	sched, err := scheduler.New(s, group)
	if err != nil {
		b.Fatal(err)
	}
	var mu sync.Mutex
	started := 0
	for i := range n {
		err := sched.Add(jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.Every(2 * time.Second), Do: func(context.Context, jobs.Run) error {
			mu.Lock()
			defer mu.Unlock()
			started++
			return nil
		}})
		if err != nil {
			b.Fatal(err)
		}
	}
	ticks := func() int {
		mu.Lock()
		defer mu.Unlock()
		return started / n
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan error, 1)
	go func() { done <- sched.Run(ctx) }()
	tick := func() {
		before := ticks()
		until(b, "a tick", func() bool { return ticks() > before })
		<-time.After(900 * time.Millisecond) // its outcomes are written
	}
	tick()
	c.reset()
	const most = 2
	for range most {
		tick()
	}
	total, kinds := c.reset("cronlease_run")
	for kind, d := range kinds {
		b.Logf("%s: %+v", kind, d)
	}
	stop()
	if err := <-done; err != nil {
		b.Error(err)
	}
	total.report(b, most)
}

func lockClient(b *testing.B, s *mysqlstore.Store) *locks.Client {
	b.Helper()
	client, err := locks.New(s)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := client.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return client
}

func costLock(b *testing.B, db dbtest.Database, n int) {
	c, s := opened(b, db)
	client := lockClient(b, s)
	const times = 5
	round := func(times int) {
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				for range times {
					l, err := client.Mutex(fmt.Sprint("own/", i)).Lock(b.Context())
					if err == nil {
						err = l.Unlock(b.Context())
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	}
	round(1)
	c.reset()
	round(times)
	total, _ := c.reset("cronlease_lock")
	total.report(b, float64(times*n))
}

func costLockHandOver(b *testing.B, db dbtest.Database, n int) {
	c, through := count(b, db)
	// The two processes of the holder and of those who wait take turns.
	x, y := lockClient(b, open(b, through)), lockClient(b, open(b, through))
	held, err := x.Mutex("stock").Lock(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range n {
		m := y.Mutex("stock")
		if n > 1 && i%2 == 0 {
			m = x.Mutex("stock")
		}
		all.Go(func() {
			l, err := m.Lock(b.Context())
			if err == nil {
				err = l.Unlock(b.Context())
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	until(b, "all who wait", func() bool {
		info, err := x.Inspect(b.Context(), "stock")
		return err == nil && len(info.Waiting) == n
	})
	<-time.After(200 * time.Millisecond)
	c.reset()
	if err := held.Unlock(b.Context()); err != nil {
		b.Fatal(err)
	}
	all.Wait()
	total, kinds := c.reset()
	for kind, d := range kinds {
		b.Logf("%s: %+v", kind, d)
	}
	total.report(b, float64(n))
}

// BenchmarkRest counts the statements of schedulers at rest, with a TTL of 15 s, for
// 210 s, in which all that they do at rest comes once: of a leader and of a follower, with so many jobs that are not due.
func BenchmarkRest(b *testing.B) {
	type side struct {
		name string
		c    *counter
	}
	var all []side
	for _, kind := range dbtest.Dialects(b) {
		for _, n := range grown {
			db := dbtest.Fresh(b, kind)
			for _, role := range []election.Role{election.Leading, election.Following} {
				c, s := opened(b, db)
				_, end := rest(b, s, n, role)
				defer end()
				name := "leader"
				if role == election.Following {
					name = "follower"
				}
				all = append(all, side{fmt.Sprintf("%s/%s/jobs=%d", kind, name, n), c})
			}
		}
	}
	// Replicas tell of themselves after 10, 20, 40, 80 and 160 s, and then every 210 s, when the leader asks whether the database is fit.
	<-time.After(165 * time.Second)
	for _, one := range all {
		one.c.reset()
	}
	const length = 210 * time.Second
	<-time.After(length)
	for _, one := range all {
		total, kinds := one.c.reset()
		b.Run(one.name, func(b *testing.B) {
			for kind, d := range kinds {
				b.Logf("%s: %+v", kind, d)
			}
			b.ReportMetric(float64(total.statements)/length.Seconds(), "statements/s")
			b.ReportMetric(float64(total.commits)/length.Seconds(), "commits/s")
			b.ReportMetric(float64(total.sent+total.received)/length.Seconds(), "bytes/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// rest starts a scheduler with so many jobs that are not due, and returns when it has
// the role. The function that it returns ends the scheduler.
func rest(b *testing.B, s *mysqlstore.Store, n int, role election.Role) (sched *scheduler.Scheduler, end func()) {
	b.Helper()
	sched, err := scheduler.New(s, group)
	if err == nil {
		err = sched.Add(waitingJobs(n)...)
	}
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan error, 1)
	go func() { done <- sched.Run(ctx) }()
	until(b, "the role", func() bool { state := sched.State(); return state.Role == role && state.Token != 0 })
	return sched, func() {
		stop()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}
