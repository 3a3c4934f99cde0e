package mysqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// ticksOf gives out ticks of 1,000 jobs, one tick after the other, each once.
// Claims at the same time are of jobs of their own: a tick is refused that comes
// after a later one of its job.
type ticksOf struct{ caller, next int }

func (g *ticksOf) claims(n int) []store.Claim {
	claims := make([]store.Claim, n)
	from := g.next
	g.next += n
	for i := range claims {
		at := from + i
		claims[i] = store.Claim{Key: key(fmt.Sprintf("job-%04d", 1000*g.caller+at%1000), at/1000), State: jobs.Running}
	}
	return claims
}

// claim claims n ticks, each of which must be had.
func (g *ticksOf) claim(ctx context.Context, s *mysqlstore.Store, h store.Holder, n int) error {
	claimed, err := s.Claim(ctx, h, id(), g.claims(n))
	if err == nil && slices.ContainsFunc(claimed, func(c store.Claimed) bool { return !c.Mine }) {
		err = errors.New("claim: another call has one, or it was refused")
	}
	return err
}

// report gives the times that half, 99 % and all of the calls took at most.
func report(b *testing.B, what string, took []time.Duration) {
	slices.Sort(took)
	for name, q := range map[string]float64{"p50": 0.5, "p99": 0.99, "max": 1} {
		b.ReportMetric(float64(took[int(q*float64(len(took)-1))].Microseconds())/1000, what+"-"+name+"-ms")
	}
}

func BenchmarkClaim(b *testing.B) {
	for _, shape := range []struct{ rows, callers int }{{1, 1}, {1, 4}, {20, 1}, {200, 1}, {200, 2}, {200, 4}, {1000, 1}} {
		b.Run(fmt.Sprintf("rows=%d/callers=%d", shape.rows, shape.callers), func(b *testing.B) {
			dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
				s := migrated(b, db.DSN)
				h := holder(b, s, "billing", uniqueName("me"))
				var all sync.WaitGroup
				var calls atomic.Int64
				b.ResetTimer()
				for caller := range shape.callers {
					all.Go(func() {
						ticks := ticksOf{caller: caller}
						for calls.Add(1) <= int64(b.N) {
							if err := ticks.claim(b.Context(), s, h, shape.rows); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
				b.ReportMetric(float64(b.N*shape.rows)/b.Elapsed().Seconds(), "rows/s")
			})
		})
	}
}

func BenchmarkMove(b *testing.B) {
	for _, rows := range []int{1, 20, 200, 1000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
				s := migrated(b, db.DSN)
				h := holder(b, s, "billing", uniqueName("me"))
				fillLedger(b, db, s, h, 1000, 1000)
				var ticks ticksOf
				ticks.next = 1000
				for b.Loop() {
					b.StopTimer()
					claimed, err := s.Claim(b.Context(), h, id(), ticks.claims(rows))
					if err != nil {
						b.Fatal(err)
					}
					moves := make([]store.Move, rows)
					for i, c := range claimed {
						moves[i] = to(c.Record, jobs.Succeeded)
					}
					b.StartTimer()
					if done, err := s.Move(b.Context(), h, moves); err != nil || slices.Contains(done, false) {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds(), "rows/s")
			})
		})
	}
}

// BenchmarkRunSize is what a run that has succeeded takes on the disk, with its place in the indexes. An operation is a tick of 1,000 jobs.
func BenchmarkRunSize(b *testing.B) {
	dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
		s := migrated(b, db.DSN)
		h := holder(b, s, "billing", "web-1/web-1.example.com/12345/0123456789abcdef")
		var ticks ticksOf
		for b.Loop() {
			claimed, err := s.Claim(b.Context(), h, id(), ticks.claims(1000))
			if err != nil {
				b.Fatal(err)
			}
			moves := make([]store.Move, len(claimed))
			for i, c := range claimed {
				moves[i] = to(c.Record, jobs.Succeeded)
			}
			if _, err := s.Move(b.Context(), h, moves); err != nil {
				b.Fatal(err)
			}
		}
		c := conn(b, db.Open(b))
		exec(b, c, "ANALYZE TABLE cronlease_run")
		var bytes float64
		if err := c.QueryRowContext(b.Context(), `SELECT data_length + index_length FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = 'cronlease_run'`).Scan(&bytes); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(bytes/float64(ticks.next), "bytes/run")
	})
}

// BenchmarkLedgerReads is with 1,000 jobs and a history of 200,000 runs.
func BenchmarkLedgerReads(b *testing.B) {
	dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
		s := migrated(b, db.DSN)
		h := holder(b, s, "billing", "me")
		fillLedger(b, db, s, h, 1000, 200_000)
		ticks := ticksOf{}
		ticks.next = 200_000
		if _, err := s.Claim(b.Context(), h, id(), ticks.claims(50)); err != nil { // 50 open runs
			b.Fatal(err)
		}
		for name, do := range map[string]func() error{
			"Load":       func() error { _, err := s.Load(b.Context(), "billing"); return err },
			"Changes":    func() error { _, err := s.Changes(b.Context(), "billing"); return err },
			"Runs":       func() error { _, err := s.Runs(b.Context(), "billing", jobs.Filter{}); return err },
			"Runs/job":   func() error { _, err := s.Runs(b.Context(), "billing", jobs.Filter{Job: "job-0007"}); return err },
			"Runs/state": func() error { _, err := s.Runs(b.Context(), "billing", jobs.Filter{State: jobs.Failed}); return err },
			"Prune/none": func() error {
				_, err := s.Prune(b.Context(), "billing", "job-0007", jobs.History{Keep: 1000, For: time.Hour}, 0)
				return err
			},
		} {
			b.Run(name, func(b *testing.B) {
				for b.Loop() {
					if err := do(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	})
}

// BenchmarkHeartbeats is how long they take beside claims at full speed.
func BenchmarkHeartbeats(b *testing.B) {
	for _, callers := range []int{0, 1, 4, 16} {
		b.Run(fmt.Sprintf("claimers=%d", callers), func(b *testing.B) {
			dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
				s := migrated(b, db.DSN)
				h := holder(b, s, "billing", uniqueName("me"))
				done := atFullSpeed(b, s, h, callers)
				var took []time.Duration
				beat := uint64(1)
				for b.Loop() {
					begin := time.Now()
					if n := renew(b, s, "billing", h.Owner, h.Token, beat, beat+1); n != 1 {
						b.Fatalf("%d renewed", n)
					}
					took = append(took, time.Since(begin))
					beat++
					<-time.After(2 * time.Millisecond) // heartbeats are far apart
				}
				rows := done()
				report(b, "beat", took)
				b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "claims/s")
			})
		})
	}
}

// atFullSpeed claims until done is called, which returns how many.
func atFullSpeed(b *testing.B, s *mysqlstore.Store, h store.Holder, callers int) (done func() int) {
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	var rows atomic.Int64
	for caller := range callers {
		all.Go(func() {
			ticks := ticksOf{caller: caller}
			for ctx.Err() == nil {
				err := ticks.claim(ctx, s, h, 200)
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					b.Error(err)
					return
				}
				rows.Add(200)
			}
		})
	}
	return func() int {
		cancel()
		all.Wait()
		return int(rows.Load())
	}
}

// BenchmarkClaimBesidePruning is how long a claim of 20 ticks takes while a
// history of 100,000 runs is pruned.
func BenchmarkClaimBesidePruning(b *testing.B) {
	for _, pruning := range []bool{false, true} {
		b.Run(fmt.Sprintf("pruning=%v", pruning), func(b *testing.B) {
			dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
				s := migrated(b, db.DSN)
				h := holder(b, s, "billing", "me")
				fillLedger(b, db, s, h, 1000, 100_000)
				ctx, cancel := context.WithCancel(b.Context())
				var all sync.WaitGroup
				var pruned atomic.Int64
				all.Go(func() {
					for job := 0; pruning && ctx.Err() == nil; job++ {
						n, err := s.Prune(ctx, "billing", fmt.Sprintf("job-%04d", job%1000), jobs.History{Keep: 10}, 0)
						if err != nil && ctx.Err() == nil {
							b.Errorf("prune: %v", err)
							return
						}
						pruned.Add(int64(n))
					}
				})
				var ticks ticksOf
				ticks.next = 100_000
				var took []time.Duration
				for b.Loop() {
					begin := time.Now()
					if _, err := s.Claim(b.Context(), h, id(), ticks.claims(20)); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(begin))
				}
				cancel()
				all.Wait()
				report(b, "claim", took)
				b.ReportMetric(float64(pruned.Load())/b.Elapsed().Seconds(), "pruned/s")
			})
		})
	}
}
