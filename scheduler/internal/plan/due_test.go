package plan

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cronlease/cronlease/jobs"
)

var noon = time.Date(2026, time.March, 28, 12, 0, 0, 0, time.UTC)

// forward hides that a schedule can be walked backwards.
type forward struct{ jobs.Schedule }

func TestDueTicks(t *testing.T) {
	t.Parallel()
	minute := jobs.Every(time.Minute)
	at := func(minutes ...int) (ticks []time.Time) {
		for _, m := range minutes {
			ticks = append(ticks, noon.Add(time.Duration(m)*time.Minute))
		}
		return ticks
	}
	tests := []struct {
		name      string
		schedule  jobs.Schedule
		next, now time.Time
		limit     int
		want      due
	}{
		{"none any more", jobs.At(noon), time.Time{}, noon, 1, due{}},
		{"not yet", minute, noon, noon.Add(-1), 1, due{next: noon}},
		{"on the instant", minute, noon, noon, 1, due{at(0), 0, time.Time{}, at(1)[0]}},
		{"the newest", minute, noon, noon.Add(150 * time.Second), 1, due{at(2), 2, at(1)[0], at(3)[0]}},
		{"the newest two", minute, noon, noon.Add(150 * time.Second), 2, due{at(1, 2), 1, at(0)[0], at(3)[0]}},
		{"exactly as many", minute, noon, noon.Add(150 * time.Second), 3, due{at(0, 1, 2), 0, time.Time{}, at(3)[0]}},
		{"fewer", minute, noon, noon.Add(150 * time.Second), 9, due{at(0, 1, 2), 0, time.Time{}, at(3)[0]}},
		{"the only one", jobs.At(noon), noon, noon.Add(time.Hour), 2, due{ticks: at(0)}},
		{"up to the cap", minute, noon, noon.Add((maxCounted - 1) * time.Minute), 1, due{at(maxCounted - 1), maxCounted - 1, at(maxCounted - 2)[0], at(maxCounted)[0]}},
		{"the cap", minute, noon, noon.Add(maxCounted * time.Minute), 2, due{at(maxCounted-1, maxCounted), maxCounted - 1, at(maxCounted - 2)[0], at(maxCounted + 1)[0]}},
		{"beyond the cap", minute, noon, noon.Add((maxCounted + 5) * time.Minute), 1, due{at(maxCounted + 5), maxCounted, at(maxCounted + 4)[0], at(maxCounted + 6)[0]}},
		{"beyond the cap, forward", forward{minute}, noon, noon.Add((maxCounted + 5) * time.Minute), 1, due{at(maxCounted + 5), maxCounted, at(maxCounted + 4)[0], at(maxCounted + 6)[0]}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := dueTicks(test.schedule, test.next, test.now, test.limit)
			if !slices.EqualFunc(got.ticks, test.want.ticks, time.Time.Equal) || got.missed != test.want.missed || !got.last.Equal(test.want.last) || !got.next.Equal(test.want.next) {
				t.Errorf("got %v", got)
			}
		})
	}
}

// counted counts what a schedule is asked. It cannot be walked backwards.
type counted struct {
	jobs.Schedule
	asked *int
}

func (s counted) Next(after time.Time) time.Time {
	*s.asked++
	return s.Schedule.Next(after)
}

// A long gap costs a bounded number of questions, also for a schedule that only
// knows the way forward.
func TestDueTicksAreBounded(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	for _, test := range []struct {
		schedule jobs.Schedule
		limit    int
		most     int
	}{
		{jobs.Every(time.Second), 1, maxCounted + 100},
		{jobs.Every(time.Second), maxCounted, 3*maxCounted + 100},
		{jobs.Every(time.Hour), maxCounted, 3*maxCounted + 100},
		{jobs.Cron("* * 9-10 * * 1-5"), maxCounted, 3*maxCounted + 1000},
		{jobs.Cron("0,1,2,30 */7 9-10 1,28 * *"), maxCounted / 2, 10 * maxCounted},
	} {
		asked := 0
		got := dueTicks(counted{test.schedule, &asked}, test.schedule.Next(noon), noon.Add(100*year), test.limit)
		if asked > test.most {
			t.Errorf("%v, limit %d: asked %d times, want at most %d", test.schedule, test.limit, asked, test.most)
		}
		if len(got.ticks) != test.limit || got.missed < maxCounted {
			t.Errorf("%v, limit %d: %d ticks, missed %d", test.schedule, test.limit, len(got.ticks), got.missed)
		}
		t.Logf("%v, limit %d: asked %d times", test.schedule, test.limit, asked)
	}
}

// For any schedule, gap and limit: the ticks are the newest ones, they and the
// missed ones are all that are due, and the next one is later.
func TestDueTicksProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		schedule := rapid.OneOf(
			rapid.Map(rapid.IntRange(1000, 100_000), func(ms int) jobs.Schedule { return jobs.Every(time.Duration(ms) * time.Millisecond) }),
			rapid.Map(rapid.SampledFrom([]string{"* * * * * *", "*/7 * * * * *", "* * * * *", "30 2 * * *", "0 9 * * 1-5", "0 0 29 2 *"}), func(text string) jobs.Schedule {
				return jobs.Cron(text).In("Europe/Berlin")
			}),
			rapid.Map(rapid.IntRange(1000, 100_000), func(ms int) jobs.Schedule {
				return jobs.FixedRate(time.Duration(ms) * time.Millisecond).From(jobs.Known{ScheduleSince: noon.Add(-time.Hour)})
			}),
			rapid.Just[jobs.Schedule](jobs.At(noon.Add(time.Minute))),
			rapid.Map(rapid.SampledFrom([]string{"* * 9 * * *", "*/2 */5 * * * *", "* 0-20 */6 * * *", "0-3 * * * * 0,6"}), func(text string) jobs.Schedule {
				return jobs.Cron(text)
			}),
		).Draw(t, "schedule")
		if rapid.Bool().Draw(t, "forward") {
			schedule = forward{schedule}
		}
		limit := rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(9990, maxCounted)).Draw(t, "limit")
		next := schedule.Next(noon.Add(time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "since"))))
		gap := rapid.OneOf(rapid.Int64Range(0, int64(time.Minute)), rapid.Int64Range(0, int64(5*time.Hour)), rapid.Int64Range(0, int64(14*24*time.Hour))).Draw(t, "gap")
		now := next.Add(time.Duration(gap))
		var all []time.Time
		tick := next
		for ; !tick.IsZero() && !tick.After(now); tick = schedule.Next(tick) {
			all = append(all, tick)
		}
		got := dueTicks(schedule, next, now, limit)
		if n := min(limit, len(all)); !slices.Equal(got.ticks, all[len(all)-n:]) {
			t.Errorf("%d ticks, want the newest %d", len(got.ticks), n)
		}
		earlier := len(all) - len(got.ticks)
		if want := append([]time.Time{{}}, all...)[earlier]; !got.last.Equal(want) {
			t.Errorf("the last that is missed is %v, want %v", got.last, want)
		}
		if got.missed != min(earlier, maxCounted) && (len(all) <= maxCounted+limit || got.missed < maxCounted || got.missed > earlier) {
			t.Errorf("missed %d of %d", got.missed, earlier)
		}
		if !got.next.Equal(tick) || !got.next.IsZero() && !got.next.After(now) {
			t.Errorf("next %v, want %v", got.next, tick)
		}
	})
}

func TestEarly(t *testing.T) {
	t.Parallel()
	in := func(wait ...time.Duration) (ticks []time.Time) {
		for _, w := range wait {
			ticks = append(ticks, noon.Add(w))
		}
		return ticks
	}
	for _, test := range []struct {
		next  []time.Time
		early time.Duration // 0: it is not
	}{
		{nil, 0},
		{[]time.Time{{}}, 0}, // a schedule without another tick
		{in(0), 0},
		{in(-time.Nanosecond), 0},
		{in(time.Nanosecond), time.Nanosecond},
		{in(hair - 1), hair - 1},
		{in(hair), 0},
		{in(time.Hour), 0},
		{in(time.Hour, 3*time.Millisecond, -time.Second, 2*time.Millisecond, 0), 2 * time.Millisecond},
	} {
		if early, ok := Early(noon, test.next); ok != (test.early > 0) || ok && early != test.early {
			t.Errorf("%v: %v, %t, want %v", test.next, early, ok, test.early)
		}
	}
}
