package locks_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

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
		for _, workers := range []int{1, 64} {
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
