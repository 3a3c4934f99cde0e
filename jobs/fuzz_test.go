package jobs_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// FuzzValidate checks that a job that is accepted has a schedule, a retry and a
// name that work, however large or small its numbers are.
func FuzzValidate(f *testing.F) {
	const year = int64(365 * 24 * time.Hour)
	for _, n := range []int64{0, 1, -1, int64(time.Second), int64(time.Second) + 1, 200 * year, math.MaxInt64, math.MinInt64, math.MaxInt64 / 1e6 * 1e6} {
		f.Add("job", n, n, n, n, 0.5)
		f.Add("job", int64(time.Minute), n, 180*year, n, 1.0)
	}
	f.Add("a\x00b", int64(time.Minute), int64(0), int64(0), int64(3), math.NaN())
	f.Add(strings.Repeat("x", 129), int64(time.Minute), int64(0), int64(0), int64(3), math.Inf(1))
	f.Fuzz(func(t *testing.T, name string, every, more, since, count int64, jitter float64) {
		from := time.Unix(since%(1<<33), 0).UTC() // to the year 2242
		after := from.Add(time.Duration(more)).Add(time.Duration(more))
		known := jobs.Known{Since: from, ScheduleSince: from, Finished: from.Add(time.Hour), Cursor: from}
		d, initial := time.Duration(every), time.Duration(more)
		for _, s := range []jobs.Schedule{
			jobs.Every(d), jobs.FixedRate(d).InitialDelay(initial), jobs.FixedDelay(d).InitialDelay(initial), jobs.At(after), jobs.Manual(),
		} {
			j := jobs.Job{
				Name: name, Schedule: s, Do: func(context.Context, jobs.Run) error { return nil },
				Timeout: initial, CatchUp: jobs.CatchUp{Limit: int(count % 20_000), Deadline: d}, Limit: int(count), LockAtLeastFor: initial,
				History: jobs.History{Keep: int(count), For: d},
				Retry:   jobs.Retry{Attempts: int(count), Initial: d, Max: initial, Jitter: jitter},
			}
			if err := j.Validate(); err != nil {
				for shown := range strings.Lines(err.Error()) {
					shown = strings.TrimSuffix(shown, "\n")
					if !strings.HasPrefix(shown, "jobs: ") || len(shown) > 1000 || strings.ContainsAny(shown, "\n\x1b") {
						t.Errorf("error of %d bytes: %.1000q", len(shown), shown)
					}
				}
				continue
			}
			if store.CheckName("job", name) != nil {
				t.Errorf("name %q is accepted", name)
			}
			ruling := s
			if r, ok := s.(jobs.Relative); ok {
				ruling = r.From(known)
			}
			at := after
			for range 5 {
				next := ruling.Next(at)
				if next.IsZero() {
					break
				}
				if !next.After(at) || next.Location() != time.UTC {
					t.Fatalf("%v since %v: after %v comes %v", s, from, at, next)
				}
				if b, ok := ruling.(jobs.Backward); ok {
					if prev := b.Prev(next); !prev.IsZero() && prev.After(at) {
						t.Fatalf("%v since %v: after %v comes %v, but %v is between them", s, from, at, next, prev)
					}
				}
				at = next
			}
			for _, attempt := range []int{1, 2, 40, 63, 64, 1000} {
				wait, again := j.Retry.After(attempt)
				most := max(j.Retry.Max, j.Retry.Initial, 5*time.Minute)
				if again != (attempt < j.Retry.Attempts) || wait < 0 || wait > most {
					t.Fatalf("%+v: waits %v after attempt %d, %t", j.Retry, wait, attempt, again)
				}
			}
		}
	})
}
