package jobs_test

import (
	"context"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/jobs/cron"
)

func TestWithin(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		t.Helper()
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	daily := jobs.Cron("0 2 * * *").In("Europe/Berlin")
	tests := []struct {
		name     string
		schedule jobs.Schedule
		calendar jobs.Calendar
		after    string
		want     []string // "never" where there is no further one
	}{
		{"from is a tick", jobs.Every(time.Hour), jobs.Calendar{From: at("2026-03-01T12:00:00Z")}, "2026-01-01T00:00:00Z", []string{"2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z"}},
		{"from is none", jobs.Every(time.Hour), jobs.Calendar{From: at("2026-03-01T12:00:01Z")}, "2026-01-01T00:00:00Z", []string{"2026-03-01T13:00:00Z"}},
		{"until is no tick", jobs.Every(time.Hour), jobs.Calendar{Until: at("2026-03-01T12:00:00Z")}, "2026-03-01T10:30:00Z", []string{"2026-03-01T11:00:00Z", "never"}},
		{"both", jobs.At(at("2026-03-01T12:00:00Z")), jobs.Calendar{From: at("2026-03-01T12:00:00Z"), Until: at("2026-03-01T12:00:01Z")}, "2026-01-01T00:00:00Z", []string{"2026-03-01T12:00:00Z", "never"}},
		{"a day of the zone", daily, jobs.Calendar{Except: []string{"2026-12-24"}}, "2026-12-22T12:00:00Z", []string{"2026-12-23T01:00:00Z", "2026-12-25T01:00:00Z"}},
		{"a day of another zone", jobs.Cron("30 23 * * *"), jobs.Calendar{Except: []string{"2026-12-24"}, Zone: "Europe/Berlin"}, "2026-12-22T12:00:00Z", []string{"2026-12-22T23:30:00Z", "2026-12-24T23:30:00Z"}},
		{"a range", daily, jobs.Calendar{Except: []string{"2026-12-24..2027-01-06"}}, "2026-12-22T12:00:00Z", []string{"2026-12-23T01:00:00Z", "2027-01-07T01:00:00Z"}},
		{"each year", jobs.Cron("0 0 24 12 *"), jobs.Calendar{Except: []string{"2026-12-24"}}, "2025-12-25T00:00:00Z", []string{"2027-12-24T00:00:00Z"}},
		{"each year, over its end", daily, jobs.Calendar{Except: []string{"12-24..01-06"}}, "2026-12-23T12:00:00Z", []string{"2027-01-07T01:00:00Z"}},
		{"leap days", jobs.Cron("0 0 29 2 *"), jobs.Calendar{Except: []string{"02-29"}}, "2026-01-01T00:00:00Z", []string{"never"}},
		{"whole minutes", jobs.Every(20 * time.Second), jobs.Calendar{Except: []string{"0-1 * * * *"}}, "2026-01-01T00:59:45Z", []string{"2026-01-01T01:02:00Z"}},
		{"seconds", jobs.Every(20 * time.Second), jobs.Calendar{Except: []string{"0 0-1 * * * *"}}, "2026-01-01T00:59:45Z", []string{"2026-01-01T01:00:20Z", "2026-01-01T01:00:40Z", "2026-01-01T01:01:20Z"}},
		{"parts of a second", jobs.Every(1500 * time.Millisecond), jobs.Calendar{Except: []string{"1 * * * * *"}}, "2026-01-01T00:00:00Z", []string{"2026-01-01T00:00:03Z"}},
		{"Quartz", jobs.Cron("0 0 2 ? * *").Dialect(cron.Quartz), jobs.Calendar{Except: []string{"* * * ? * 1"}}, "2026-11-20T12:00:00Z", []string{"2026-11-21T02:00:00Z", "2026-11-23T02:00:00Z"}},
		{"five fields beside Quartz", jobs.Cron("0 0 2 ? * *").Dialect(cron.Quartz), jobs.Calendar{Except: []string{"* * * * 0"}}, "2026-11-21T12:00:00Z", []string{"2026-11-23T02:00:00Z"}},
		{"both passes of an hour", jobs.Every(30 * time.Minute), jobs.Calendar{Except: []string{"* 2 * * *"}, Zone: "Europe/Berlin"}, "2026-10-24T23:40:00Z", []string{"2026-10-25T02:00:00Z"}},
		{"a day of 25 hours", jobs.Every(time.Hour), jobs.Calendar{Except: []string{"10-25"}, Zone: "Europe/Berlin"}, "2026-10-24T21:30:00Z", []string{"2026-10-25T23:00:00Z"}},
		{"a day of 23 hours", jobs.Every(time.Hour), jobs.Calendar{Except: []string{"03-29"}, Zone: "Europe/Berlin"}, "2026-03-28T22:30:00Z", []string{"2026-03-29T22:00:00Z"}},
		{"a midnight that comes twice", jobs.Every(30 * time.Minute), jobs.Calendar{Except: []string{"2026-10-31"}, Zone: "America/Havana"}, "2026-10-31T03:40:00Z", []string{"2026-11-01T04:00:00Z", "2026-11-01T04:30:00Z", "2026-11-01T05:00:00Z"}},
		{"a midnight that is skipped", jobs.Every(30 * time.Minute), jobs.Calendar{Except: []string{"2026-03-07"}, Zone: "America/Havana"}, "2026-03-07T04:40:00Z", []string{"2026-03-08T05:00:00Z"}},
		{"all times", jobs.Every(time.Second), jobs.Calendar{Except: []string{"* * * * *"}}, "2026-01-01T00:00:00Z", []string{"never"}},
		{"all days", jobs.Every(time.Second), jobs.Calendar{Except: []string{"01-01..12-31"}}, "2026-01-01T00:00:00Z", []string{"never"}},
		{"all ticks", jobs.Cron("0 * * * * *"), jobs.Calendar{Except: []string{"0 * * * * *"}}, "2026-01-01T00:00:00Z", []string{"never"}},
		{"all but one", jobs.Cron("0 0 * * * *"), jobs.Calendar{Except: []string{"0 0 1-23 * * *", "0 0 0 1-30 * *"}}, "2026-02-01T00:00:00Z", []string{"2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := jobs.Within(test.schedule, test.calendar)
			if err := (jobs.Job{Name: "a", Schedule: s, Do: func(context.Context, jobs.Run) error { return nil }}).Validate(); err != nil {
				t.Fatal(err)
			}
			tick := at(test.after)
			for _, want := range test.want {
				tick = s.Next(tick)
				got := "never"
				if !tick.IsZero() {
					got = tick.Format(time.RFC3339)
				}
				if got != want {
					t.Fatalf("%v: %s, want %s", s, got, want)
				}
			}
			if again, ok := jobs.ParseSchedule(s.String()); !ok || again.String() != s.String() || !again.Next(at(test.after)).Equal(s.Next(at(test.after))) {
				t.Errorf("%v is read as %v, %t", s, again, ok)
			}
		})
	}
}

// A fixed delay that ends while days are left out goes on after them, and a fixed
// rate keeps its phase.
func TestWithinOfRelativeSchedules(t *testing.T) {
	t.Parallel()
	known := jobs.Known{ScheduleSince: noon, Cursor: noon, Finished: noon.Add(30 * time.Minute)}
	calendar := jobs.Calendar{Except: []string{"* 13-14 * * *"}, Until: noon.Add(4 * time.Hour)}
	next := func(s jobs.Schedule, after time.Time) string {
		return s.(jobs.Relative).From(known).Next(after).Format("15:04:05")
	}
	delay := jobs.Within(jobs.FixedDelay(40*time.Minute), calendar)
	if got := next(delay, noon); got != "15:00:00" {
		t.Errorf("the delay ends at %s", got)
	}
	rate := jobs.Within(jobs.FixedRate(50*time.Minute), calendar)
	if got := next(rate, noon) + " " + next(rate, noon.Add(time.Hour)); got != "12:50:00 15:20:00" {
		t.Errorf("the rate has ticks at %s", got)
	}
	for _, s := range []jobs.Schedule{delay, rate} {
		known := known
		known.Finished = noon.Add(4 * time.Hour)
		if tick := s.(jobs.Relative).From(known).Next(noon.Add(4*time.Hour - 1)); !tick.IsZero() || !s.Next(noon).IsZero() {
			t.Errorf("%v: %v", s, tick)
		}
		if again, ok := jobs.ParseSchedule(s.String()); !ok || again.String() != s.String() {
			t.Errorf("%v is read as %v", s, again)
		}
	}
	if b := jobs.Base(delay); b != jobs.Schedule(jobs.FixedDelay(40*time.Minute)) || jobs.Base(b) != b {
		t.Errorf("base: %v", b)
	}
}

func TestWithinRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		schedule jobs.Schedule
		calendar jobs.Calendar
		want     string
	}{
		{jobs.Every(time.Minute), jobs.Calendar{From: noon, Until: noon}, "calendar: until 2026-03-28T12:00:00Z: must be later than from"},
		{jobs.Every(time.Minute), jobs.Calendar{Except: []string{"2026-02-30"}}, `except "2026-02-30": expected a day such as 2026-12-24 or 12-24, days such as 12-24..12-26, or a cron expression: no such day`},
		{jobs.Every(time.Minute), jobs.Calendar{Except: []string{"0000-12-24"}}, "no such day"},
		{jobs.Every(time.Minute), jobs.Calendar{Except: []string{"61 * * * *"}}, `or a cron expression: cron: minutes "61"`},
		{jobs.Every(time.Minute), jobs.Calendar{Except: []string{"@dayly"}}, `or a cron expression: cron: macro "@dayly"`},
		{jobs.Every(time.Minute), jobs.Calendar{Except: []string{"2026-03-01..2026-02-01"}}, "except"},
		{jobs.Every(time.Minute), jobs.Calendar{Except: []string{"12-24..2027-01-01"}}, "except"},
		{jobs.Every(time.Minute), jobs.Calendar{Except: []string{""}}, `or a cron expression: cron: expression ""`},
		{jobs.Every(time.Minute), jobs.Calendar{Except: []string{"12-24"}, Zone: "Local"}, `zone "Local": not known`},
		{jobs.Every(1), jobs.Calendar{Except: []string{"12-24"}}, "every 1ns: must be at least 1s"},
		{jobs.Manual(), jobs.Calendar{Until: noon}, "only run by hand"},
		{jobs.Within(jobs.Every(time.Minute), jobs.Calendar{Until: noon}), jobs.Calendar{From: noon}, "has one already"},
		{nil, jobs.Calendar{Until: noon}, "no schedule"},
	}
	for _, test := range tests {
		s := jobs.Within(test.schedule, test.calendar)
		err := (jobs.Job{Name: "a", Schedule: s, Do: func(context.Context, jobs.Run) error { return nil }}).Validate()
		if err == nil || !strings.Contains(err.Error(), test.want) || !s.Next(noon).IsZero() {
			t.Errorf("%v: %v, want %q", s, err, test.want)
		}
	}
	if s := jobs.Within(jobs.Manual(), jobs.Calendar{Zone: "UTC"}); s != jobs.Schedule(jobs.Manual()) {
		t.Errorf("a calendar that leaves out nothing makes %v", s)
	}
}

// The days that are left out are those of the calendar's zone, of the schedule's, or of UTC.
func TestZoneOfACalendar(t *testing.T) {
	t.Parallel()
	berlin, days := jobs.Cron("0 2 * * *").In("Europe/Berlin"), []string{"12-24"}
	for _, test := range []struct {
		schedule jobs.Schedule
		want     string
	}{
		{jobs.Within(berlin, jobs.Calendar{From: noon}), "Europe/Berlin"},
		{jobs.Within(berlin, jobs.Calendar{Except: days}), "Europe/Berlin"},
		{jobs.Within(berlin, jobs.Calendar{Except: days, Zone: "America/Havana"}), "America/Havana"},
		{jobs.Within(jobs.Every(time.Hour), jobs.Calendar{Except: days}), "UTC"},
		{jobs.Within(jobs.Every(time.Hour), jobs.Calendar{From: noon}), "UTC"},
	} {
		if zone := test.schedule.(interface{ Zone() string }).Zone(); zone != test.want {
			t.Errorf("%v: zone %s, want %s", test.schedule, zone, test.want)
		}
	}
}

// FuzzParseSchedule checks that a text which is read as a schedule is its text, and
// that its search ends.
func FuzzParseSchedule(f *testing.F) {
	for _, s := range []jobs.Schedule{
		jobs.Manual(), jobs.Every(time.Minute), jobs.At(noon), jobs.FixedRate(time.Minute), jobs.FixedDelay(time.Minute).InitialDelay(time.Second),
		jobs.Cron(`0 0 2 ? * "`).Dialect(cron.Quartz), jobs.Cron("0 2 * * *").In("Europe/Berlin").DST(cron.Native),
		jobs.Within(jobs.Cron("0 2 * * *").In("Europe/Berlin"), jobs.Calendar{From: noon, Until: noon.Add(1e15), Except: []string{"12-24..01-06", `* * * * 0`}}),
		jobs.Within(jobs.FixedDelay(time.Minute), jobs.Calendar{Except: []string{"2026-12-24", "* * * * *"}}),
	} {
		f.Add(s.String(), int64(0))
	}
	f.Fuzz(func(t *testing.T, text string, after int64) {
		s, ok := jobs.ParseSchedule(text)
		if !ok {
			return
		}
		if s.String() != text {
			t.Fatalf("%q is read as %q", text, s)
		}
		if (jobs.Job{Name: "a", Schedule: s, Do: func(context.Context, jobs.Run) error { return nil }}).Validate() != nil {
			return
		}
		from := time.Unix(after%(1<<33), 0).UTC()
		if r, ok := s.(jobs.Relative); ok {
			s = r.From(jobs.Known{ScheduleSince: from})
		}
		for range 3 {
			next := s.Next(from)
			if next.IsZero() {
				return
			}
			if !next.After(from) {
				t.Fatalf("%q: after %v comes %v", text, from, next)
			}
			from = next
		}
	})
}
