package locks_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// newNames is how long BenchmarkNewNames goes on: longer than pruning waits.
var newNames = flag.Duration("locks.for", 20*time.Second, "how long BenchmarkNewNames goes on")

func benchClient(b *testing.B, dsn string) *locks.Client {
	b.Helper()
	store, err := mysqlstore.Open(dsn)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	if err := store.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	c, err := locks.New(store)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return c
}

// BenchmarkLockUnlock is one lock and unlock, by workers that each have a key of
// their own.
func BenchmarkLockUnlock(b *testing.B) {
	dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
		for _, workers := range []int{1, 64, 256} {
			b.Run(fmt.Sprint(workers), func(b *testing.B) {
				c := benchClient(b, db.DSN)
				var group sync.WaitGroup
				each := b.N/workers + 1
				b.ResetTimer()
				for w := range workers {
					group.Go(func() {
						m := c.Mutex(fmt.Sprint("own/", w))
						for range each {
							l, err := m.Lock(b.Context())
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
				group.Wait()
				b.ReportMetric(float64(each*workers)/b.Elapsed().Seconds(), "locks/s")
			})
		}
	})
}

// BenchmarkNewNames is how long locks of names take that are never used again, by
// 64 workers of four processes, at the beginning and at the end, and how many rows
// there are then: as many as were used in the last seconds, however long it goes
// on (-args -locks.for=1m).
func BenchmarkNewNames(b *testing.B) {
	dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
		const processes, workers = 4, 64
		clients := make([]*locks.Client, processes)
		for i := range clients {
			clients[i] = benchClient(b, db.DSN)
		}
		type sample struct{ at, took time.Duration }
		samples := make([][]sample, workers)
		var group sync.WaitGroup
		begin := time.Now()
		b.ResetTimer()
		for w := range workers {
			group.Go(func() {
				for i := 0; time.Since(begin) < *newNames; i++ {
					at := time.Since(begin)
					l, err := clients[w%processes].Mutex(fmt.Sprint("order/", w, ".", i)).Lock(b.Context())
					took := time.Since(begin) - at
					if err == nil {
						err = l.Unlock(b.Context())
					}
					if err != nil {
						b.Error(err)
						return
					}
					samples[w] = append(samples[w], sample{at, took})
				}
			})
		}
		group.Wait()
		var n int
		if err := db.Open(b).QueryRowContext(b.Context(), "SELECT COUNT(*) FROM cronlease_lock").Scan(&n); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		all := slices.Concat(samples...)
		p99 := func(from, to time.Duration) float64 {
			var took []time.Duration
			for _, s := range all {
				if s.at >= from && s.at < to {
					took = append(took, s.took)
				}
			}
			slices.Sort(took)
			return float64(took[len(took)*99/100].Microseconds()) / 1000
		}
		b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "locks/s")
		b.ReportMetric(float64(n), "rows")
		b.ReportMetric(p99(*newNames/20, *newNames*3/20), "p99-ms-first")
		b.ReportMetric(p99(*newNames*9/10, *newNames), "p99-ms-last")
	})
}

// BenchmarkHandOver is from an Unlock to the Lock of another client that waits.
func BenchmarkHandOver(b *testing.B) {
	dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
		x, y := benchClient(b, db.DSN), benchClient(b, db.DSN)
		var took []time.Duration
		held, err := x.Mutex("key").Lock(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			type result struct {
				l   *locks.Lock
				at  time.Time
				err error
			}
			got := make(chan result)
			go func() {
				l, err := y.Mutex("key").Lock(b.Context())
				got <- result{l, time.Now(), err}
			}()
			for {
				i, err := x.Inspect(b.Context(), "key")
				if err != nil {
					b.Fatal(err)
				}
				if len(i.Waiting) == 1 {
					break
				}
			}
			time.Sleep(3 * time.Millisecond) //nolint:forbidigo // a waiter that has come to rest
			begin := time.Now()
			if err := held.Unlock(b.Context()); err != nil {
				b.Fatal(err)
			}
			r := <-got
			if r.err != nil {
				b.Fatal(r.err)
			}
			took = append(took, r.at.Sub(begin))
			held, x, y = r.l, y, x
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		if err := held.Unlock(b.Context()); err != nil {
			b.Fatal(err)
		}
	})
}
