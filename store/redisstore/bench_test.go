package redisstore_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// The scripts that are as long as the group is large: nothing else runs on the server meanwhile.
func BenchmarkLargeGroup(b *testing.B) {
	s := newBench(b, shared.Addr())
	ctx := b.Context()
	const n = 10_000
	declared := make([]store.Declared, n)
	claims := make([]store.Claim, n)
	names := make([]string, n)
	for i := range declared {
		names[i] = fmt.Sprintf("a-job-with-a-name-of-usual-length-%05d", i)
		declared[i] = store.Declared{Name: names[i], Schedule: "0 30 2 * * * in Europe/Berlin"}
		claims[i] = store.Claim{Key: jobs.Key{Job: names[i], Tick: at(0).Tick}, State: jobs.Skipped}
	}
	declare := func() { s.ok(s.Declare(ctx, s.h, declared)) }
	began := time.Now()
	declare()
	b.Logf("first Declare: %v", time.Since(began))
	began = time.Now()
	_, err := s.Claim(ctx, s.h, store.ClaimID{1}, claims)
	s.ok(err)
	b.Logf("10,000 claims: %v", time.Since(began))
	for name, operation := range map[string]func(){
		"Declare": declare,
		"Load":    func() { loaded(s) },
		"LoadOf":  func() { _, err := s.LoadOf(ctx, "group", names[:50]); s.ok(err) },
		"Names":   func() { _, err := s.Names(ctx, "group"); s.ok(err) },
		"Runs":    func() { _, err := s.Runs(ctx, "group", jobs.Filter{}); s.ok(err) },
	} {
		b.Run(name, func(b *testing.B) {
			before := s.used()
			for b.Loop() {
				operation()
			}
			s.report(b, before)
		})
	}
}

// A job with as many open runs as one may have: nothing else runs on the server during a Load, an Open, or a request that is
// refused.
func BenchmarkManyOpen(b *testing.B) {
	s := newBench(b, shared.Addr())
	claims := make([]store.Claim, jobs.MaxOpen)
	for i := range claims {
		claims[i] = store.Claim{Key: at(i), State: jobs.Waiting}
	}
	_, err := s.Claim(b.Context(), s.h, store.ClaimID{1}, claims)
	s.ok(err)
	b.Run("Load", func(b *testing.B) {
		before := s.used()
		for b.Loop() {
			loaded(s)
		}
		s.report(b, before)
	})
	b.Run("Open", func(b *testing.B) {
		before := s.used()
		for b.Loop() {
			_, err := s.Open(b.Context(), "group", "bob")
			s.ok(err)
		}
		s.report(b, before)
	})
	b.Run("Trigger", func(b *testing.B) {
		before := s.used()
		for b.Loop() {
			if _, err := s.Trigger(b.Context(), s.h.Group, at(0).Job, jobs.Request{}); !errors.Is(err, jobs.ErrManyOpen) {
				b.Fatalf("Trigger: error %v, want %v", err, jobs.ErrManyOpen)
			}
		}
		s.report(b, before)
	})
}

// memory is what the server uses, in bytes.
func (b *bench) memory() float64 {
	b.Helper()
	is, err := b.client.InfoMap(b.Context(), "memory").Result()
	b.ok(err)
	n, err := strconv.ParseFloat(is["Memory"]["used_memory"], 64)
	b.ok(err)
	return n
}

// used is the time that the server's processor has taken.
func (b *bench) used() time.Duration {
	b.Helper()
	is, err := b.client.InfoMap(b.Context(), "cpu").Result()
	b.ok(err)
	var sum float64
	for _, name := range []string{"used_cpu_user_main_thread", "used_cpu_sys_main_thread"} {
		n, err := strconv.ParseFloat(is["CPU"][name], 64)
		b.ok(err)
		sum += n
	}
	return time.Duration(sum * float64(time.Second))
}

// report reports how long the server was busy with one operation, which on a machine that does other things is less than it took.
func (b *bench) report(of *testing.B, before time.Duration) {
	of.ReportMetric(float64((b.used()-before).Microseconds())/float64(of.N), "µs-of-server/op")
}

func BenchmarkClaim(b *testing.B) {
	for _, n := range []int{1, 200} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := newBench(b, shared.Addr())
			claims, next := make([]store.Claim, n), 0
			before, memory := s.used(), s.memory()
			for b.Loop() {
				for i := range claims {
					next++
					claims[i] = store.Claim{Key: at(next), State: jobs.Skipped}
				}
				_, err := s.Claim(b.Context(), s.h, store.ClaimID{1}, claims)
				s.ok(err)
			}
			s.report(b, before)
			b.ReportMetric((s.memory()-memory)/float64(next), "bytes/run")
		})
	}
}
