package cron_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cronlease/cronlease/jobs/cron"
)

// The second oracle: what an expression means is worked out second by second, with the clock of package time, and
// compared with what Next and Prev answer.

// shown is one second: the instant, and the wall clock as if it were UTC.
type shown struct{ instant, wall int64 }

// clock reads the wall clock of a zone at every second. Clocks change at full minutes.
func clock(loc *time.Location, from, to int64) (seconds []shown) {
	offset := 0
	for s := from; s < to; s++ {
		if s == from || s%60 == 0 {
			_, offset = time.Unix(s, 0).In(loc).Zone()
		}
		seconds = append(seconds, shown{s, s + int64(offset)})
	}
	return seconds
}

// matches reports whether the expression names the time on the wall clock.
func (s *spec) matches(wall int64) bool {
	second := wall % 86400
	if !s.second.in[second%60] || !s.minute.in[second/60%60] || !s.hour.in[second/3600] {
		return false
	}
	if midnight := wall - second; s.today != midnight {
		s.today, s.isToday = midnight, s.isDay(time.Unix(midnight, 0).UTC())
	}
	return s.isToday
}

// due returns the instants from one to another, not included, at which the expression is due.
func (s *spec) due(loc *time.Location, dst cron.DST, from, to int64) (instants []int64) {
	const around = 9000 // more than any change in these tests
	interval := !slices.Contains(s.hour.in[:24], false)
	times := make(map[int64]bool)
	last := make(map[int64]int64) // wall clock to the instant it was shown at
	seconds := clock(loc, from-around, to+around)
	for i, now := range seconds {
		if dst == cron.Once && !interval && i > 0 {
			for wall := seconds[i-1].wall + 1; wall < now.wall; wall++ { // left out
				if s.matches(wall) {
					times[now.instant+wall-seconds[i-1].wall-1] = true
				}
			}
		}
		if !s.matches(now.wall) {
			continue
		}
		before, again := last[now.wall]
		last[now.wall] = now.instant
		switch {
		case again && dst == cron.Once && !interval:
			continue
		case again && dst == cron.Native && s.dialect == cron.Quartz:
			delete(times, before)
		}
		times[now.instant] = true
	}
	for t := range times {
		if t >= from && t < to {
			instants = append(instants, t)
		}
	}
	slices.Sort(instants)
	return instants
}

// ask returns what Next answers from one instant to another, and checks that Prev gives the same from behind.
func ask(t *rapid.T, e *cron.Expression, from, to int64) (instants []int64) {
	for now := from - 1; ; {
		next := e.Next(time.Unix(now, 0))
		if next.IsZero() || next.Unix() >= to {
			break
		}
		if now = next.Unix(); len(instants) > 0 && now <= instants[len(instants)-1] {
			t.Fatalf("Next goes back to %v", next)
		}
		instants = append(instants, now)
	}
	var back []int64
	for now := to; ; {
		prev := e.Prev(time.Unix(now, 0))
		if prev.IsZero() || prev.Unix() < from {
			break
		}
		now = prev.Unix()
		back = append(back, now)
	}
	if slices.Reverse(back); !slices.Equal(back, instants) {
		t.Fatalf("%d instants forward, %d back:\n%v\n%v", len(instants), len(back), utc(instants), utc(back))
	}
	return instants
}

func utc(instants []int64) (texts []string) {
	for _, s := range instants[:min(len(instants), 20)] {
		texts = append(texts, time.Unix(s, 0).UTC().Format(time.RFC3339))
	}
	return texts
}

// locations loads zones once for all the checks of a test.
func locations(t *testing.T, names ...string) (zones []*time.Location) {
	for _, name := range names {
		zones = append(zones, location(t, name))
	}
	return zones
}

// drawChange returns an instant at which the clocks of the zone change.
func drawChange(t *rapid.T, loc *time.Location) int64 {
	year := rapid.IntRange(1990, 2090).Draw(t, "year")
	now := time.Date(year, time.Month(rapid.IntRange(1, 12).Draw(t, "month")), 1, 0, 0, 0, 0, time.UTC).In(loc)
	if _, end := now.ZoneBounds(); !end.IsZero() {
		return end.Unix()
	}
	return now.Unix()
}

func TestOracleSeconds(t *testing.T) {
	t.Parallel()
	zones := locations(t,
		"UTC", "Europe/Berlin", "Europe/London", "America/New_York", "America/Santiago", "Australia/Lord_Howe",
		"America/Havana", "America/Nuuk", "Antarctica/Troll", "America/St_Johns", "Asia/Kolkata")
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		loc := zones[rapid.IntRange(0, len(zones)-1).Draw(t, "zone")]
		from := drawChange(t, loc) + rapid.Int64Range(-3*3600, 3600).Draw(t, "from")
		compareSeconds(t, s, loc, cron.Once, from)
		if s.dialect == cron.Unix {
			compareSeconds(t, s, loc, cron.Native, from)
		}
	})
}

// TestOracleNative has zones only where the engines' answers do not depend on the question, and does not ask within
// the first pass of a repeated hour, where Quartz' do.
func TestOracleNative(t *testing.T) {
	t.Parallel()
	zones := locations(t, "UTC", "Europe/Berlin", "Europe/London", "America/New_York", "Australia/Sydney")
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		loc := zones[rapid.IntRange(0, len(zones)-1).Draw(t, "zone")]
		from := drawChange(t, loc) - rapid.Int64Range(3601, 3*3600).Draw(t, "before")
		compareSeconds(t, s, loc, cron.Native, from)
	})
}

func compareSeconds(t *rapid.T, s *spec, loc *time.Location, dst cron.DST, from int64) {
	e, err := cron.Parse(s.String(), cron.WithDialect(s.dialect), cron.In(loc), cron.WithDST(dst))
	if err != nil {
		t.Fatal(err)
	}
	to := from + 4*3600
	got, want := ask(t, e, from, to), s.due(loc, dst, from, to)
	if !slices.Equal(got, want) {
		t.Fatalf("%v %q in %v, %v, from %v:\n got %d %v\nwant %d %v",
			s.dialect, s, loc, dst, time.Unix(from, 0).UTC(), len(got), utc(got), len(want), utc(want))
	}
}

// TestOracleDays compares the days of years, one instant each.
func TestOracleDays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		s.second = values{text: "0", in: [60]bool{0: true}}
		s.minute, s.hour = s.second, values{text: "12", in: [60]bool{12: true}}
		e, err := cron.Parse(s.String(), cron.WithDialect(s.dialect))
		if err != nil {
			t.Fatal(err)
		}
		limit := 2186
		if s.dialect == cron.Quartz {
			limit = 2086
		}
		from := time.Date(rapid.IntRange(1970, limit).Draw(t, "year"), 1, 1, 0, 0, 0, 0, time.UTC)
		to := from.AddDate(14, 0, 0)
		var want []int64
		for date := from; date.Before(to); date = date.AddDate(0, 0, 1) {
			if s.isDay(date) {
				want = append(want, date.Unix()+12*3600)
			}
		}
		if got := ask(t, e, from.Unix(), to.Unix()); !slices.Equal(got, want) {
			t.Fatalf("%v %q from %v:\n got %d %v\nwant %d %v", s.dialect, s, from, len(got), utc(got), len(want), utc(want))
		}
	})
}

// TestDuality jumps about: nothing matches between an instant and its Next, nor between it and its Prev.
func TestDuality(t *testing.T) {
	t.Parallel()
	zones := locations(t, "UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca")
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		loc := zones[rapid.IntRange(0, len(zones)-1).Draw(t, "zone")]
		e, err := cron.Parse(s.String(), cron.WithDialect(s.dialect), cron.In(loc))
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(rapid.Int64Range(0, 7258118400-1).Draw(t, "now"), rapid.Int64Range(0, 999999999).Draw(t, "nanos"))
		next, prev := e.Next(now), e.Prev(now)
		if !next.IsZero() {
			if !next.After(now) {
				t.Fatalf("next of %v is %v", now, next)
			}
			if back := e.Prev(next); !back.IsZero() && back.After(now) || e.Prev(next.Add(1)) != next {
				t.Fatalf("before %v, the next of %v, comes %v", next, now, back)
			}
		}
		if !prev.IsZero() {
			if !prev.Before(now) {
				t.Fatalf("the one before %v is %v", now, prev)
			}
			if again := e.Next(prev); !again.IsZero() && again.Before(now) || e.Next(prev.Add(-1)) != prev {
				t.Fatalf("after %v, the one before %v, comes %v", prev, now, again)
			}
		}
	})
}
