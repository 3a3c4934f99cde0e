package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// BenchmarkTick measures how late runs start when so many jobs are due on one
// tick: claimed on a real server, and started. An operation is one tick. Beside
// it, what bare gocron does with as many cron jobs and no claims, and how long
// the heartbeats of another group take meanwhile.
func BenchmarkTick(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.Run("gocron", func(b *testing.B) { benchmarkGocron(b, n) })
			dbtest.EachB(b, func(b *testing.B, db dbtest.Database) { benchmarkTick(b, db, n) })
		})
	}
}

const benchmarkCron = "*/5 * * * * *"

func benchmarkTick(b *testing.B, db dbtest.Database, n int) {
	store := onServer(b, db)
	counted := &countingStore{Store: store}
	s, err := scheduler.New(counted, "bench")
	if err != nil {
		b.Fatal(err)
	}
	starts := newStarts(n)
	for i := range n {
		err := s.Add(jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.Cron(benchmarkCron), Do: func(_ context.Context, run jobs.Run) error {
			starts.add(run.Tick)
			return nil
		}})
		if err != nil {
			b.Fatal(err)
		}
	}
	beats := startBeats(b, store)
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	starts.wait() // the first tick also opens connections
	starts.reset()
	counted.reset()
	ticks := 0
	for b.Loop() {
		starts.wait()
		ticks++
	}
	starts.report(b)
	claims, moves := counted.reset()
	b.ReportMetric(float64(claims)/float64(ticks), "claims/op")
	b.ReportMetric(float64(moves)/float64(ticks), "finishes/op")
	b.ReportMetric(float64(beats.longest().Microseconds())/1000, "heartbeat-max-ms")
	stop()
	if err := <-done; err != nil {
		b.Error(err)
	}
}

func benchmarkGocron(b *testing.B, n int) {
	s, err := gocron.NewScheduler(gocron.WithLocation(time.UTC))
	if err != nil {
		b.Fatal(err)
	}
	starts := newStarts(n)
	for range n {
		_, err := s.NewJob(gocron.CronJob(benchmarkCron, true), gocron.NewTask(func() {
			starts.add(time.Now().Truncate(5 * time.Second))
		}))
		if err != nil {
			b.Fatal(err)
		}
	}
	s.Start()
	starts.wait()
	starts.reset()
	for b.Loop() {
		starts.wait()
	}
	starts.report(b)
	if err := s.Shutdown(); err != nil {
		b.Error(err)
	}
}

// starts collects how late runs started, and tells when a whole tick has.
type starts struct {
	n     int
	whole chan struct{}

	mu   sync.Mutex
	late []time.Duration
	seen int
}

func newStarts(n int) *starts { return &starts{n: n, whole: make(chan struct{}, 1000)} }

func (s *starts) add(tick time.Time) {
	late := time.Since(tick)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, late)
	if s.seen++; s.seen%s.n == 0 {
		s.whole <- struct{}{}
	}
}

func (s *starts) wait() { <-s.whole }

func (s *starts) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = nil
}

func (s *starts) report(b *testing.B) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.late)
	at := func(p float64) float64 {
		return float64(s.late[int(p*float64(len(s.late)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(0, "ns/op")
}

// countingStore counts the statements of the ledger.
type countingStore struct {
	*mysqlstore.Store
	mu            sync.Mutex
	claims, moves int
}

func (s *countingStore) reset() (claims, moves int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	claims, moves = s.claims, s.moves
	s.claims, s.moves = 0, 0
	return claims, moves
}

func (s *countingStore) Claim(ctx context.Context, h store.Holder, id store.ClaimID, claims []store.Claim) ([]store.Claimed, error) {
	s.mu.Lock()
	s.claims++
	s.mu.Unlock()
	return s.Store.Claim(ctx, h, id, claims)
}

func (s *countingStore) Move(ctx context.Context, h store.Holder, moves []store.Move) ([]bool, error) {
	s.mu.Lock()
	s.moves++
	s.mu.Unlock()
	return s.Store.Move(ctx, h, moves)
}

// beats renews a lease of its own every 10 ms and times it.
type beats struct {
	mu  sync.Mutex
	max time.Duration
}

func (t *beats) longest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.max
}

func startBeats(b *testing.B, leases store.Leases) *beats {
	b.Helper()
	ctx := context.WithoutCancel(b.Context()) // which ends before the heartbeats do
	if err := leases.Prepare(ctx, "beats", time.Minute); err != nil {
		b.Fatal(err)
	}
	readings, err := leases.Read(ctx, "beats")
	if err != nil {
		b.Fatal(err)
	}
	token, err := leases.Acquire(ctx, store.Acquire{Read: readings[0], Owner: "beats", Heartbeat: 1, TTL: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	t := &beats{}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		every := time.NewTicker(10 * time.Millisecond)
		defer every.Stop()
		for beat := uint64(1); ; beat++ {
			began := time.Now()
			_, err := leases.Renew(ctx, store.Renew{Owner: "beats", Heartbeat: beat + 1,
				Leases: []store.Renewal{{Group: "beats", Token: token, Heartbeat: beat}}})
			if err != nil {
				b.Error(err)
				return
			}
			if beat > 1 {
				t.mu.Lock()
				t.max = max(t.max, time.Since(began))
				t.mu.Unlock()
			}
			select {
			case <-stop:
				return
			case <-every.C:
			}
		}
	}()
	b.Cleanup(func() { close(stop); <-done })
	return t
}

// addOneByOne adds so many jobs, each of which takes a call. One in ten follows another one.
func addOneByOne(t testing.TB, n int) {
	t.Helper()
	s, err := scheduler.New(memdb.New(), "g")
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		job := jobs.Job{Name: fmt.Sprint("job-", i), Schedule: jobs.Every(time.Minute), Do: func(context.Context, jobs.Run) error { return nil }}
		if i%10 == 9 {
			job.Schedule = jobs.After(fmt.Sprint("job-", i-1))
		}
		if err := s.Add(job); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	for _, n := range []int{1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				addOneByOne(b, n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/job")
		})
	}
}
