package cron_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs/cron"
)

// Covers is right at each second around changes of clocks, and says no stretch is longer
// than it is.
func TestCovers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"UTC", "Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "Asia/Kolkata"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for text, shows := range map[string]func(time.Time) bool{
			"* 0-2,5 * * *":   func(t time.Time) bool { return t.Hour() <= 2 || t.Hour() == 5 },
			"58-59 * * * SUN": func(t time.Time) bool { return t.Minute() >= 58 && t.Weekday() == time.Sunday },
			"* * 1 * *":       func(t time.Time) bool { return t.Day() == 1 },
			"* * 2 * * *":     func(t time.Time) bool { return t.Hour() == 2 },
			"58,59,0 0 * * * *": func(t time.Time) bool {
				return t.Minute() == 0 && (t.Second() >= 58 || t.Second() == 0)
			},
			"* * * * * *": func(time.Time) bool { return true },
			"-":           func(time.Time) bool { return false },
		} {
			for _, dst := range []cron.DST{cron.Once, cron.Native} {
				e, err := cron.Parse(text, cron.In(zone), cron.WithDST(dst))
				if err != nil {
					t.Fatal(err)
				}
				for _, day := range []time.Time{time.Date(2026, 10, 24, 22, 0, 0, 0, time.UTC), time.Date(2026, 11, 1, 3, 0, 0, 0, time.UTC), time.Date(2026, 3, 28, 22, 0, 0, 0, time.UTC), time.Date(2026, 4, 4, 12, 0, 0, 0, time.UTC)} {
					var until time.Time // of the stretch that was found last
					for s := range 6 * 3600 {
						at := day.Add(time.Duration(s) * time.Second)
						end, covered := e.Covers(at.Add(time.Millisecond))
						if want := shows(at.In(zone)); covered != want || covered && !end.After(at.Add(time.Millisecond)) || !covered && at.Before(until) {
							t.Fatalf("%s in %s at %v: %t until %v, want %t", text, name, at.In(zone), covered, end, want)
						}
						if covered {
							until = end
						}
					}
				}
			}
		}
	}
	e, _ := cron.Parse("* * * * * *")
	for _, at := range []time.Time{{}, time.Unix(-1, 0), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if _, covered := e.Covers(at); covered {
			t.Errorf("%v is covered", at)
		}
	}
}
