package jobs_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cronlease/cronlease/jobs"
)

var noon = time.Date(2026, time.March, 28, 12, 0, 0, 0, time.UTC)

func TestFixedRateFrom(t *testing.T) {
	t.Parallel()
	known := jobs.Known{Since: noon.Add(-time.Hour), ScheduleSince: noon, Cursor: noon.Add(time.Hour), Finished: noon.Add(2 * time.Hour)}
	s := jobs.FixedRate(time.Minute).From(known)
	later := jobs.FixedRate(time.Minute).InitialDelay(90 * time.Second).From(known)
	tests := []struct {
		schedule jobs.Schedule
		after    time.Duration // after noon
		want     time.Duration
	}{
		{s, -time.Hour, 0}, {s, -1, 0}, {s, 0, time.Minute}, {s, 59 * time.Second, time.Minute}, {s, time.Minute, 2 * time.Minute},
		{s, time.Hour + 1, 61 * time.Minute},
		{later, -1, 90 * time.Second}, {later, 0, 90 * time.Second}, {later, 90 * time.Second, 150 * time.Second},
	}
	for _, test := range tests {
		if got := test.schedule.Next(noon.Add(test.after)); !got.Equal(noon.Add(test.want)) {
			t.Errorf("%v: after %v: %v, want %v", test.schedule, test.after, got.Sub(noon), test.want)
		}
	}
	for _, relative := range []jobs.Relative{jobs.FixedRate(time.Minute), jobs.FixedDelay(time.Minute)} {
		if !relative.Next(noon).IsZero() {
			t.Errorf("%v has a tick without what is known", relative)
		}
	}
}

func TestFixedDelayFrom(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		known jobs.Known
		want  time.Duration // after noon
	}{
		{"first", jobs.Known{}, 10 * time.Second},
		{"after a run", jobs.Known{Cursor: noon.Add(10 * time.Second), Finished: noon.Add(time.Minute)}, 2 * time.Minute},
		{"after a tick that was skipped", jobs.Known{Cursor: noon.Add(10 * time.Second)}, 70 * time.Second},
		{"after an older end", jobs.Known{Cursor: noon.Add(2 * time.Minute), Finished: noon.Add(time.Minute)}, 3 * time.Minute},
		{"after a manual run", jobs.Known{Finished: noon.Add(time.Minute)}, 2 * time.Minute},
		{"of an earlier schedule", jobs.Known{Cursor: noon.Add(-time.Hour), Finished: noon.Add(-time.Hour)}, 10 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.known.ScheduleSince = noon
			s := jobs.FixedDelay(time.Minute).InitialDelay(10 * time.Second).From(test.known)
			tick := s.Next(noon.Add(-24 * time.Hour))
			if !tick.Equal(noon.Add(test.want)) || !s.Next(tick).IsZero() {
				t.Errorf("%v, then %v", tick.Sub(noon), s.Next(tick))
			}
		})
	}
}

// Prev is the reverse of Next, for each schedule that has both.
func TestPrev(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		every := time.Duration(rapid.IntRange(1000, 100_000).Draw(t, "every")) * time.Millisecond
		schedule := rapid.SampledFrom([]jobs.Schedule{
			jobs.Every(every),
			jobs.At(noon),
			jobs.FixedRate(every).InitialDelay(every.Truncate(time.Second)).From(jobs.Known{ScheduleSince: noon}),
			jobs.Cron("*/7 1-5 * * *").In("Europe/Berlin"),
		}).Draw(t, "schedule")
		instant := noon.Add(time.Duration(rapid.Int64Range(-int64(48*time.Hour), int64(48*time.Hour)).Draw(t, "instant")))
		backward := schedule.(jobs.Backward)
		next := schedule.Next(instant)
		if !next.IsZero() && !next.After(instant) {
			t.Fatalf("%v: %v follows %v", schedule, next, instant)
		}
		prev := backward.Prev(instant)
		if !prev.IsZero() && !prev.Before(instant) {
			t.Fatalf("%v: %v precedes %v", schedule, prev, instant)
		}
		if !next.IsZero() {
			if back := backward.Prev(next); !back.IsZero() && back.After(instant) {
				t.Fatalf("%v: between %v and its next, %v, there is %v", schedule, instant, next, back)
			}
			if back := backward.Prev(next.Add(1)); !back.Equal(next) {
				t.Fatalf("%v: before %v there is %v", schedule, next.Add(1), back)
			}
		}
		if !prev.IsZero() {
			if again := schedule.Next(prev.Add(-1)); !again.Equal(prev) {
				t.Fatalf("%v: after %v there is %v", schedule, prev.Add(-1), again)
			}
			if then := schedule.Next(prev); !then.IsZero() && then.Before(instant) {
				t.Fatalf("%v: between %v and %v there is %v", schedule, prev, instant, then)
			}
		}
	})
}

// What is wrong is reported by the schedule, and At holds microseconds.
func TestScheduleErrors(t *testing.T) {
	t.Parallel()
	if s := jobs.At(noon.Add(1500)); s.Err() != nil || !s.Next(noon).Equal(noon.Add(time.Microsecond)) {
		t.Errorf("%v, %v", s.Err(), s.Next(noon))
	}
	wantError(t, jobs.At(time.Time{}).Err(), "give an instant")
	wantError(t, jobs.Every(1500*time.Microsecond+time.Second).Err(), "whole number of milliseconds")
	wantError(t, jobs.Cron("* * *").Err(), "3 fields given")
	if !jobs.Manual().Next(noon).IsZero() {
		t.Error("manual has a tick")
	}
}
