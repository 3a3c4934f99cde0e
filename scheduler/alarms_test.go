package scheduler

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// The first alarm of a term is the first tick after it began, also when that is
// less than a second away.
func TestAlarm(t *testing.T) {
	t.Parallel()
	at := func(s string) time.Time {
		at, err := time.Parse(time.RFC3339Nano, "2026-11-20T10:00:"+s+"Z")
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, test := range []struct {
		schedule   jobs.Schedule
		last, next time.Time
	}{
		{jobs.Every(time.Second), at("00.3"), at("01")},
		{jobs.Every(time.Second), at("01"), at("02")},
		{jobs.Cron("*/5 * * * * *"), at("04.999"), at("05")},
		{jobs.Every(1500 * time.Millisecond), at("01.5"), at("03")},
		{jobs.At(at("01.7")), at("01.2"), never}, // the sweep finds it
		{jobs.At(at("01.7")), at("00.2"), at("01.7")},
		{jobs.Manual(), at("00"), never},
	} {
		if next := (alarm{test.schedule, func() time.Duration { return 0 }}).Next(test.last); !next.Equal(test.next) {
			t.Errorf("%v after %v: %v, want %v", test.schedule, test.last, next, test.next)
		}
		// Where the ticks are judged by a clock that is ahead of gocron's.
		const ahead = 3 * time.Minute
		next := (alarm{test.schedule, func() time.Duration { return ahead }}).Next(test.last.Add(-ahead))
		if want := test.next.Add(-ahead); !next.Equal(want) && (!next.Equal(never) || !test.next.Equal(never)) {
			t.Errorf("%v after %v, %v ahead: %v, want %v", test.schedule, test.last, ahead, next, want)
		}
	}
}

// Alarms go by the same difference of the clocks until it has changed by more than 50 ms.
func TestAlarmsAreSteady(t *testing.T) {
	t.Parallel()
	var measured time.Duration
	ahead := steady(func() time.Duration { return measured })
	for _, test := range [][2]int{{0, 0}, {50, 0}, {-50, 0}, {51, 51}, {1, 51}, {0, 0}, {-300, -300}, {-260, -300}, {1000, 1000}} {
		want := time.Duration(test[1]) * time.Millisecond
		measured = time.Duration(test[0]) * time.Millisecond
		if got := ahead(); got != want {
			t.Errorf("%v ahead: %v, want %v", measured, got, want)
		}
	}
}
