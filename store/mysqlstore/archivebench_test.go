package mysqlstore_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// What pages read of 10,000 jobs with a million runs, and of 50 jobs with 10,000 runs each.
func BenchmarkArchive(b *testing.B) {
	dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
		s := migrated(b, db.DSN)
		fillLedger(b, db, s, holder(b, s, "wide", "me"), 10_000, 1_000_000)
		fillLedger(b, db, s, holder(b, s, "deep", "me"), 50, 500_000)
		for n := range uint64(1000) {
			if err := s.NoteTerm(b.Context(), store.TermNote{Holder: store.Holder{Group: "wide", Owner: "me", Token: n + 1}, Over: true}); err != nil {
				b.Fatal(err)
			}
			if err := s.Resume(b.Context(), "wide", ""); err != nil {
				b.Fatal(err)
			}
		}
		names := make([]string, 50)
		for i := range names {
			names[i] = fmt.Sprintf("job-%04d", i)
		}
		runs := func(group string, f jobs.Filter) func() error {
			return func() error { _, err := s.Runs(b.Context(), group, f); return err }
		}
		newest := func(group string, of jobs.Newest) func() error {
			return func() error { _, err := s.Newest(b.Context(), group, of); return err }
		}
		counts := func(group string, of []string, ticks, buckets int) func() error {
			every := (time.Duration(ticks) * time.Minute / time.Duration(buckets)).Round(time.Microsecond)
			f := jobs.CountFilter{Jobs: of, Since: tick(0), Until: tick(ticks), Every: every}
			return func() error { _, err := s.Counts(b.Context(), group, f); return err }
		}
		for _, read := range []struct {
			name string
			do   func() error
		}{
			{"runs", runs("wide", jobs.Filter{Limit: 500})},
			{"runs/window", runs("wide", jobs.Filter{Since: tick(40), Until: tick(50), Limit: 500})},
			{"runs/behind", runs("wide", jobs.Filter{Behind: jobs.Key{Job: "job-5000", Tick: tick(50)}, Limit: 500})},
			{"runs/job", runs("deep", jobs.Filter{Job: "job-0007", Since: tick(100), Until: tick(5000), Limit: 500})},
			{"newest/50x1", newest("wide", jobs.Newest{Jobs: names, Over: true})},
			{"newest/50x100", newest("deep", jobs.Newest{Jobs: names, Limit: 100})},
			{"counts/50 jobs", counts("wide", names, 100, 100)},
			{"counts/50 deep jobs", counts("deep", names, 10_000, 200)},
			{"counts/together", counts("wide", nil, 100, 100)},
			{"terms", func() error { _, err := s.Terms(b.Context(), "wide", jobs.TermFilter{Limit: 200}); return err }},
			{"audit", func() error { _, err := s.Audit(b.Context(), "wide", jobs.AuditFilter{Limit: 200}); return err }},
			{"attempts", func() error { _, err := s.Attempts(b.Context(), "wide", key("job-0007", 7)); return err }},
			{"load", func() error { _, err := s.Load(b.Context(), "wide"); return err }},
		} {
			b.Run(read.name, func(b *testing.B) {
				for b.Loop() {
					if err := read.do(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	})
}

// What it costs to keep what runs print, beside moves of as many runs that printed nothing.
func BenchmarkMoveOutput(b *testing.B) {
	for _, rows := range []int{1, 20, 200} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
				s := migrated(b, db.DSN)
				h := holder(b, s, "billing", uniqueName("me"))
				fillLedger(b, db, s, h, 1000, 1000)
				var ticks ticksOf
				ticks.next = 1000
				output := bytes.Repeat([]byte("a line\n"), 100)
				var plain time.Duration
				for b.Loop() {
					b.StopTimer()
					claimed, err := s.Claim(b.Context(), h, id(), ticks.claims(2*rows))
					if err != nil {
						b.Fatal(err)
					}
					moves := make([]store.Move, 2*rows)
					for i, c := range claimed {
						moves[i] = to(c.Record, jobs.Succeeded)
						if i < rows {
							moves[i].Output = output
						}
					}
					begin := time.Now()
					if done, err := s.Move(b.Context(), h, moves[rows:]); err != nil || slices.Contains(done, false) {
						b.Fatal(err)
					}
					plain += time.Since(begin)
					b.StartTimer()
					if done, err := s.Move(b.Context(), h, moves[:rows]); err != nil || slices.Contains(done, false) {
						b.Fatal(err)
					}
				}
				b.ReportMetric(b.Elapsed().Seconds()/plain.Seconds(), "times-plain")
				b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds(), "rows/s")
			})
		})
	}
}
