package redisstore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/internal/redisserver"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/redisstore"
)

// keep closes a server at the end of the test.
func keep(t testing.TB, s *redisserver.Server) {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// sentinels are a primary with two replicas, and three sentinels that watch it.
type sentinels struct {
	primary  *redisserver.Server
	replicas []*redisserver.Server
	url      string
}

func startSentinels(t *testing.T) *sentinels {
	t.Helper()
	s := &sentinels{primary: start(t)}
	for range 2 {
		r, err := redisserver.StartReplica(t.Context(), s.primary)
		if err != nil {
			t.Fatal(err)
		}
		keep(t, r)
		s.replicas = append(s.replicas, r)
	}
	var all []string
	for range 3 {
		one := redisserver.NewSentinel(s.primary.Program(), "main", s.primary.Addr(), 2, time.Second)
		if err := one.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		keep(t, one)
		all = append(all, one.Addr())
	}
	s.url = "redis+sentinel://" + strings.Join(all, ",") + "/main"
	// Each has to know the replicas and the other sentinels before a failover can be.
	for _, addr := range all {
		client := redis.NewSentinelClient(&redis.Options{Addr: addr})
		await(t, "sentinels that know each other", func() bool {
			is, err := client.Master(t.Context(), "main").Result()
			return err == nil && is["num-slaves"] == "2" && is["num-other-sentinels"] == "2" && is["flags"] == "master"
		})
		_ = client.Close()
	}
	return s
}

func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.After(time.Minute); !is(); {
		select {
		case <-again.C:
		case <-end:
			t.Fatalf("not seen: %s", what)
		}
	}
}

// terms watches the runs of some schedulers: no two terms may run at the same time, and tokens only grow.
type terms struct {
	t *testing.T

	mu     sync.Mutex
	active map[uint64]int
	runs   map[uint64]int // by token
	ticks  map[time.Time]int
	newest uint64
}

func newTerms(t *testing.T) *terms {
	return &terms{t: t, active: map[uint64]int{}, runs: map[uint64]int{}, ticks: map[time.Time]int{}}
}

// run is a job that goes on until shortly before its next tick.
func (w *terms) run(ctx context.Context, r jobs.Run) error {
	w.mu.Lock()
	if r.Token < w.newest {
		w.t.Errorf("token %d after token %d", r.Token, w.newest)
	}
	for token, n := range w.active {
		if token != r.Token && n > 0 {
			w.t.Errorf("a run under token %d began before those under token %d had ended", r.Token, token)
		}
	}
	w.newest = max(w.newest, r.Token)
	w.active[r.Token]++
	w.runs[r.Token]++
	w.ticks[r.Tick]++
	w.mu.Unlock()
	wait := time.NewTimer(800 * time.Millisecond)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active[r.Token]--
	return ctx.Err()
}

// after waits until so many runs have begun under a token above that one, and returns it.
func (w *terms) after(token uint64, n int) (newest uint64) {
	w.t.Helper()
	await(w.t, "runs of a later term", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		newest = w.newest
		return newest > token && w.runs[newest] >= n
	})
	return newest
}

const failoverTTL = 3 * time.Second

// begin starts a scheduler on a store of its own, which the end of the test ends.
func (w *terms) begin(url string) {
	w.t.Helper()
	s, err := redisstore.Open(url)
	if err != nil {
		w.t.Fatal(err)
	}
	sched, err := scheduler.New(s, "g", scheduler.WithTiming(lease.Timing{TTL: failoverTTL}))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := sched.Add(jobs.Job{Name: "tick", Schedule: jobs.Every(time.Second), Do: w.run}); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sched.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			w.t.Error(err)
		}
	})
}

// A failover loses what had not reached the replicas. Both replicas of the service find another server, sit out the
// TTL, and go on under a higher token; nothing overlaps, and the term of before can write nothing.
func TestFailoverBySentinels(t *testing.T) {
	t.Parallel()
	servers := startSentinels(t)
	ctx := t.Context()
	watch, err := redisstore.Open(servers.url)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	w := newTerms(t)
	w.begin(servers.url)
	w.begin(servers.url)
	first := w.after(0, 2)
	if err := watch.Check(ctx); err != nil {
		t.Error(err)
	}
	before, err := watch.Read(ctx, "g")
	if err != nil {
		t.Fatal(err)
	}
	h := store.Holder{Group: "g", Owner: before[0].Lease.Owner, Token: first}
	wrong, err := redisstore.Open(strings.TrimSuffix(servers.url, "main") + "other")
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	if _, err := wrong.Claim(ctx, h, store.ClaimID{8}, []store.Claim{{Key: at(1), State: jobs.Running}}); !errors.Is(err, lease.ErrNotReady) || errors.Is(err, store.ErrReplaced) {
		t.Errorf("Claim where the sentinels do not know the name: %v", err)
	}
	// The replicas get nothing any more, not even into the buffers of their connections, and lack what follows.
	for _, r := range servers.replicas {
		if err := r.Pause(); err != nil {
			t.Fatal(err)
		}
	}
	admin := redis.NewClient(&redis.Options{Addr: servers.primary.Addr()})
	if err := admin.Do(ctx, "CLIENT", "KILL", "TYPE", "replica").Err(); err != nil {
		t.Fatal(err)
	}
	_ = admin.Close()
	w.after(first-1, 4)
	lost, err := watch.Trigger(ctx, "g", "tick", jobs.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if err := servers.primary.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	for _, r := range servers.replicas {
		if err := r.Resume(); err != nil {
			t.Fatal(err)
		}
	}
	second := w.after(first, 2)
	t.Logf("runs again %v after the primary was killed", time.Since(killed).Round(10*time.Millisecond))
	var after []store.Reading
	await(t, "the new primary", func() bool {
		after, err = watch.Read(ctx, "g")
		return err == nil
	})
	if after[0].Server == before[0].Server || after[0].Lease.Token < second {
		t.Errorf("read %+v, before %+v", after[0], before[0])
	}
	stale := before[0]
	stale.Lease, stale.Fence = after[0].Lease, after[0].Fence
	if _, err := watch.Acquire(ctx, store.Acquire{Read: stale, Owner: "late", Heartbeat: 1, TTL: failoverTTL}); !errors.Is(err, store.ErrChanged) {
		t.Errorf("Acquire with a reading of the lost server: %v", err)
	}
	if _, err := watch.Claim(ctx, h, store.ClaimID{9}, []store.Claim{{Key: lost, State: jobs.Running}}); !errors.Is(err, store.ErrReplaced) {
		t.Errorf("Claim by the term of before: %v", err)
	}
	// The server that was killed comes back as a replica of the new primary, and nothing goes back to it.
	if err := servers.primary.Start(ctx); err != nil {
		t.Fatal(err)
	}
	old := redis.NewClient(&redis.Options{Addr: servers.primary.Addr()})
	defer old.Close()
	await(t, "the old primary as a replica", func() bool {
		is, err := old.InfoMap(ctx, "replication").Result()
		return err == nil && is["Replication"]["role"] == "slave" && is["Replication"]["master_link_status"] == "up"
	})
	w.after(second-1, 4)
	w.mu.Lock()
	defer w.mu.Unlock()
	twice := 0
	for _, n := range w.ticks {
		twice += n - 1
	}
	t.Logf("%d terms, %d ticks, %d again since their claims were lost", len(w.runs), len(w.ticks), twice)
}

// A primary that is cut off, and was replaced, goes on to take claims and heartbeats, so that two leaders run the same
// tick, unless it needs a replica to take writes. docs/stores.md has these settings.
func TestPrimaryCutOff(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]map[string]string{
		"alone":          {"min-replicas-to-write": "0"},
		"needs replicas": {"min-replicas-to-write": "1", "min-replicas-max-lag": "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, alone := t.Context(), settings["min-replicas-to-write"] == "0"
			old := start(t)
			b := newBench(t, old.Addr())
			all := []*redis.Client{b.client}
			for range 2 {
				r, err := redisserver.StartReplica(ctx, old)
				b.ok(err)
				keep(t, r)
				client := redis.NewClient(&redis.Options{Addr: r.Addr()})
				t.Cleanup(func() { _ = client.Close() })
				all = append(all, client)
			}
			for _, c := range all {
				for setting, value := range settings {
					b.ok(c.ConfigSet(ctx, setting, value).Err())
				}
			}
			await(t, "replicas that follow", func() bool {
				done, err := all[0].Do(ctx, "WAIT", 2, 100).Int()
				return err == nil && done == 2 && b.Check(ctx) == nil
			})
			b.run(at(1))
			await(t, "the claim on the replicas", func() bool {
				done, err := all[0].Do(ctx, "WAIT", 2, 100).Int()
				return err == nil && done == 2
			})

			// One replica is promoted, and the other follows it.
			cut := time.Now()
			b.ok(all[1].ReplicaOf(ctx, "NO", "ONE").Err())
			host, port, err := net.SplitHostPort(all[1].Options().Addr)
			b.ok(err)
			b.ok(all[2].ReplicaOf(ctx, host, port).Err())
			heartbeat := uint64(1)
			renew := func() error {
				heartbeat++
				n, err := b.Renew(ctx, store.Renew{Owner: "alice", Heartbeat: heartbeat, Leases: []store.Renewal{{Group: "group", Token: b.h.Token, Heartbeat: heartbeat - 1}}})
				if err == nil && n != 1 {
					t.Fatalf("alice has lost the lease where nobody took it: %d", n)
				}
				return err
			}
			if alone {
				for time.Since(cut) < 4*time.Second {
					b.ok(renew())
					<-time.After(100 * time.Millisecond)
				}
			} else {
				await(t, "a heartbeat that is refused", func() bool { err = renew(); return err != nil })
				if !errors.Is(err, lease.ErrNotReady) {
					t.Errorf("a heartbeat is refused: %v", err)
				}
				t.Logf("heartbeats are refused %v after the primary was cut off", time.Since(cut).Round(10*time.Millisecond))
			}

			next := &bench{TB: t, Store: open(t, all[1].Options().Addr, b.name), client: all[1], name: b.name}
			await(t, "a new primary that takes writes", func() bool { return next.Check(ctx) == nil })
			next.take("bob")
			if next.h.Token <= b.h.Token {
				t.Errorf("bob has token %d, alice %d", next.h.Token, b.h.Token)
			}
			next.run(at(2))
			claims := []store.Claim{{Key: at(2), State: jobs.Running}}
			claimed, err := b.Claim(ctx, b.h, store.ClaimID{2}, claims)
			if twice := err == nil && claimed[0].Mine; twice != alone {
				t.Errorf("alice has claimed what bob has claimed: %v (%v), want %v", twice, err, alone)
			}
		})
	}
}
