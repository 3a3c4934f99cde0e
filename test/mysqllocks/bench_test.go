package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
)

// timed are the ways that work with a pool.
func timed() []kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.name == getLockPooled.name })
}

// trialOf makes a schema for a benchmark.
func trialOf(b *testing.B, db dbtest.Database, k kind) *trial {
	b.Helper()
	t, err := newTrial(b.Context(), db.Config(b), k)
	b.Cleanup(func() {
		if err := t.end(context.Background()); err != nil {
			b.Error(err)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	return t
}

// BenchmarkLockUnlock measures how many locks a second workers can acquire and
// release, each on a key of its own.
func BenchmarkLockUnlock(b *testing.B) {
	dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
		for _, k := range timed() {
			for _, workers := range []int{1, 64} {
				b.Run(fmt.Sprintf("%s/%d", k.name, workers), func(b *testing.B) { lockUnlock(b, trialOf(b, db, k), workers) })
			}
		}
	})
}

func lockUnlock(b *testing.B, t *trial, workers int) {
	pool, err := t.pool()
	if err != nil {
		b.Fatal(err)
	}
	pool.SetMaxIdleConns(workers + 16)
	w, err := t.openOn(pool, long)
	if err != nil {
		b.Fatal(err)
	}
	// Every worker has had its lock once: connections are open, rows exist.
	each(b, workers, func(key string) error { return once(b.Context(), w, key) })
	var next atomic.Int64
	b.ResetTimer()
	each(b, workers, func(key string) error {
		for next.Add(1) <= int64(b.N) {
			if err := once(b.Context(), w, key); err != nil {
				return err
			}
		}
		return nil
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

// each runs f for each worker at the same time, with the worker's key.
func each(b *testing.B, workers int, f func(key string) error) {
	b.Helper()
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			if err := f(fmt.Sprintf("worker:%d", i)); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

func once(ctx context.Context, w Way, key string) error {
	held, err := w.Lock(ctx, key)
	if err != nil {
		return err
	}
	return held.Unlock(ctx)
}

// BenchmarkHandOver measures how long a hand-over takes: from the holder's call of
// Unlock to the return of the waiter's Lock. Both processes read the same clock.
// Ways that poll do so every 100 ms.
func BenchmarkHandOver(b *testing.B) {
	dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
		for _, k := range timed() {
			b.Run(k.name, func(b *testing.B) { handOver(b, trialOf(b, db, k)) })
		}
	})
}

func handOver(b *testing.B, t *trial) {
	ctx := b.Context()
	holder, err := t.open(long)
	if err != nil {
		b.Fatal(err)
	}
	waiter, err := t.start(long)
	if err != nil {
		b.Fatal(err)
	}
	var gaps []time.Duration
	for b.Loop() {
		held, err := holder.Lock(ctx, t.key)
		if err != nil {
			b.Fatal(err)
		}
		if err := waiter.say("lock"); err != nil {
			b.Fatal(err)
		}
		var word string
		if err := waiter.hear(ctx, "%s", &word); err != nil {
			b.Fatal(err)
		}
		// It has looked at least once, and looks again at any time.
		if err := wait(ctx, pollEvery+rand.N(pollEvery)); err != nil {
			b.Fatal(err)
		}
		begin := time.Now()
		if err := held.Unlock(ctx); err != nil {
			b.Fatal(err)
		}
		got, err := waiter.done(ctx)
		if err != nil {
			b.Fatal(err)
		}
		gaps = append(gaps, got.Sub(begin))
		if err := waiter.do(ctx, "unlock"); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(gaps)
	at := func(p float64) float64 { return float64(gaps[int(p*float64(len(gaps)-1))].Microseconds()) / 1000 }
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(0, "ns/op")
}
