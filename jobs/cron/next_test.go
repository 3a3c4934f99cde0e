package cron_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs/cron"
)

// What an expression means, in UTC: the instants that follow from, as far as want goes.
var meanings = []struct{ dialect, expression, from, want string }{
	// macros
	{"auto", "@hourly", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z 2026-01-01T02:00:00Z"},
	{"auto", "@daily", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z 2026-01-03T00:00:00Z"},
	{"unix", "@midnight", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z 2026-01-03T00:00:00Z"},
	{"spring", " @Weekly ", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z 2026-01-11T00:00:00Z"},
	{"auto", "@monthly", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z 2026-03-01T00:00:00Z"},
	{"auto", "@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z 2028-01-01T00:00:00Z"},
	{"auto", "@annually", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z 2028-01-01T00:00:00Z"},

	// the dialects' Sundays
	{"unix", "0 0 * * 0", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"},
	{"unix", "0 0 * * 7", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"},
	{"unix", "0 0 * * 7-1", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z 2026-01-05T00:00:00Z 2026-01-11T00:00:00Z"},
	{"unix", "0 0 * * SAT-SUN", "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z 2026-01-04T00:00:00Z 2026-01-10T00:00:00Z"},
	{"unix", "0 0 * * SUN-SUN", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z 2026-01-11T00:00:00Z"},
	{"unix", "0 0 * * 7-7", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z 2026-01-11T00:00:00Z"},
	{"unix", "0 0 * * 4/3", "2026-01-01T00:00:00Z", "2026-01-08T00:00:00Z 2026-01-15T00:00:00Z"},
	{"spring", "0 0 0 * * 4/3", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z 2026-01-08T00:00:00Z"},
	{"spring", "0 0 0 * * 0", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"},
	{"spring", "0 0 0 * * 7", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"},
	{"spring", "0 0 0 ? * SUN-MON", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z 2026-01-05T00:00:00Z 2026-01-11T00:00:00Z"},
	{"spring", "0 0 0 * * 7-7", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z 2026-01-03T00:00:00Z"},
	{"quartz", "0 0 0 ? * 1", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"},
	{"quartz", "0 0 0 ? * 2", "2026-01-01T00:00:00Z", "2026-01-05T00:00:00Z"},
	{"auto", "0 0 0 ? * 2", "2026-01-01T00:00:00Z", "2026-01-06T00:00:00Z"},
	{"quartz", "0 0 0 ? * sat-mon", "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z 2026-01-04T00:00:00Z 2026-01-05T00:00:00Z 2026-01-10T00:00:00Z"},

	// two day fields
	{"unix", "0 0 13 * FRI", "2026-01-10T00:00:00Z", "2026-01-13T00:00:00Z 2026-01-16T00:00:00Z 2026-01-23T00:00:00Z"},
	{"unix", "0 0 */2 * FRI", "2026-01-10T00:00:00Z", "2026-01-23T00:00:00Z 2026-02-13T00:00:00Z"},
	{"unix", "0 0 13 * */5", "2026-01-10T00:00:00Z", "2026-02-13T00:00:00Z 2026-03-13T00:00:00Z 2026-09-13T00:00:00Z"},
	{"unix", "0 0 13 * ?", "2026-01-10T00:00:00Z", "2026-01-13T00:00:00Z 2026-02-13T00:00:00Z"},
	{"unix", "0 0 1-31 * FRI", "2026-01-10T00:00:00Z", "2026-01-11T00:00:00Z"},
	{"spring", "0 0 0 13 * FRI", "2026-01-10T00:00:00Z", "2026-02-13T00:00:00Z 2026-03-13T00:00:00Z 2026-11-13T00:00:00Z"},

	// L, W and #
	{"spring", "0 0 0 L * *", "2028-01-31T00:00:00Z", "2028-02-29T00:00:00Z 2028-03-31T00:00:00Z"},
	{"spring", "0 0 0 L-28 * *", "2026-01-31T00:00:00Z", "2026-03-03T00:00:00Z 2026-04-02T00:00:00Z"},
	{"spring", "0 0 0 L-31 3 *", "2026-04-01T00:00:00Z", "2027-03-28T00:00:00Z 2028-03-29T00:00:00Z"},
	{"spring", "0 0 0 LW * *", "2026-01-01T00:00:00Z", "2026-01-30T00:00:00Z 2026-02-27T00:00:00Z 2026-03-31T00:00:00Z"},
	{"spring", "0 0 0 1W * *", "2026-07-02T00:00:00Z", "2026-08-03T00:00:00Z 2026-09-01T00:00:00Z"},
	{"spring", "0 0 0 31W * *", "2026-05-01T00:00:00Z", "2026-07-31T00:00:00Z"},
	{"quartz", "0 0 0 31W * ?", "2026-05-01T00:00:00Z", "2026-05-29T00:00:00Z 2026-07-31T00:00:00Z"},
	{"quartz", "0 0 0 31W 4 ?", "2026-05-01T00:00:00Z", "2027-04-30T00:00:00Z"},
	{"quartz", "0 0 0 l-3w * ?", "2026-01-01T00:00:00Z", "2026-01-28T00:00:00Z 2026-02-25T00:00:00Z 2026-03-27T00:00:00Z"},
	{"quartz", "0 0 0 L-0 * ?", "2026-01-01T00:00:00Z", "2026-01-31T00:00:00Z"},
	{"quartz", "0 0 0 ? * L", "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z 2026-01-10T00:00:00Z"},
	{"quartz", "0 0 0 ? * 6L", "2026-01-01T00:00:00Z", "2026-01-30T00:00:00Z 2026-02-27T00:00:00Z"},
	{"spring", "0 0 0 ? * fril,MON#1", "2026-01-01T00:00:00Z", "2026-01-05T00:00:00Z 2026-01-30T00:00:00Z 2026-02-02T00:00:00Z"},
	{"spring", "0 0 0 1W,LW,15 * ?", "2026-01-01T00:00:00Z", "2026-01-15T00:00:00Z 2026-01-30T00:00:00Z 2026-02-02T00:00:00Z"},
	{"spring", "0 0 0 ? * SUN#5", "2026-01-01T00:00:00Z", "2026-03-29T00:00:00Z 2026-05-31T00:00:00Z"},
	{"spring", "0 0 0 ? * SUN#6", "2026-01-01T00:00:00Z", "-"},

	// ranges and steps
	{"auto", "50/5 23 31 12 *", "2026-01-01T00:00:00Z", "2026-12-31T23:50:00Z 2026-12-31T23:55:00Z 2027-12-31T23:50:00Z"},
	{"auto", "\t0\t0  1\tjan-Feb/1 *", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z 2027-01-01T00:00:00Z"},
	{"quartz", "0 0 22-1 ? * *", "2026-01-01T01:00:00Z", "2026-01-01T22:00:00Z 2026-01-01T23:00:00Z 2026-01-02T00:00:00Z 2026-01-02T01:00:00Z 2026-01-02T22:00:00Z"},
	{"quartz", "0 0 /6 ? * *", "2026-01-01T01:00:00Z", "2026-01-01T06:00:00Z 2026-01-01T12:00:00Z"},
	{"quartz", "0 0 0 1 12-1 ?", "2026-01-01T01:00:00Z", "2026-12-01T00:00:00Z 2027-01-01T00:00:00Z 2027-12-01T00:00:00Z"},

	{"quartz", "0 0 8-18/24 ? * *", "2026-01-01T01:00:00Z", "2026-01-01T08:00:00Z 2026-01-02T08:00:00Z"},

	// years
	{"quartz", "0 0 0 1 1 ? 1975,2050", "1976-01-01T00:00:00Z", "2050-01-01T00:00:00Z -"},
	{"quartz", "0 0 0 1 1 ? 2027,2030-2034/2", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z 2030-01-01T00:00:00Z 2032-01-01T00:00:00Z 2034-01-01T00:00:00Z -"},
	{"quartz", "0 0 0 1 1 ? 2025", "2026-01-01T00:00:00Z", "-"},
	{"quartz", "0 0 0 1 1 ? 2098/1", "2026-01-01T00:00:00Z", "2098-01-01T00:00:00Z 2099-01-01T00:00:00Z -"},

	// never, and the bounds
	{"auto", "-", "2026-01-01T00:00:00Z", "-"},
	{"quartz", " - ", "2026-01-01T00:00:00Z", "-"},
	{"auto", "0 0 0 30 2 *", "2026-01-01T00:00:00Z", "-"},
	{"auto", "0 0 0 31 4,6,9,11 *", "2026-01-01T00:00:00Z", "-"},
	{"auto", "0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
	{"auto", "* * * * * *", "0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z 1970-01-01T00:00:01Z"},
	{"auto", "* * * * * *", "2199-12-31T23:59:57.5Z", "2199-12-31T23:59:58Z 2199-12-31T23:59:59Z -"},
	{"auto", "* * * * * *", "9999-01-01T00:00:00Z", "-"},

	// fractions of a second
	{"auto", "* * * * * *", "2026-01-01T00:00:00.999999999Z", "2026-01-01T00:00:01Z"},
	{"auto", "* * * * * *", "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"},
}

func TestMeaning(t *testing.T) {
	t.Parallel()
	for _, c := range meanings {
		t.Run(c.dialect+"/"+c.expression, func(t *testing.T) {
			t.Parallel()
			dialect, _ := cron.ParseDialect(c.dialect)
			e := must(t, c.expression, cron.WithDialect(dialect))
			var got []string
			from := at(t, c.from)
			for range strings.Fields(c.want) {
				if from = e.Next(from); from.IsZero() {
					got = append(got, "-")
					break
				}
				got = append(got, from.Format(time.RFC3339))
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("\n got %s\nwant %s", g, c.want)
			}
			if e.String() != c.expression {
				t.Errorf("String() = %q, want %q", e, c.expression)
			}
		})
	}
}

func TestPrev(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expression, before, want string }{
		{"* * * * * *", "2026-01-01T00:00:01Z", "2026-01-01T00:00:00Z"},
		{"* * * * * *", "2026-01-01T00:00:01.000000001Z", "2026-01-01T00:00:01Z"},
		{"* * * * * *", "1970-01-01T00:00:00.5Z", "1970-01-01T00:00:00Z"},
		{"* * * * * *", "1970-01-01T00:00:00Z", "-"},
		{"* * * * * *", "0001-01-01T00:00:00Z", "-"},
		{"* * * * * *", "9999-01-01T00:00:00Z", "2199-12-31T23:59:59Z"},
		{"0 0 0 29 2 *", "2026-01-01T00:00:00Z", "2024-02-29T00:00:00Z"},
		{"0 0 29 2 *", "2104-02-29T00:00:00Z", "2096-02-29T00:00:00Z"},
		{"0 30 9-17 * * MON-FRI", "2026-01-05T09:30:00Z", "2026-01-02T17:30:00Z"},
		{"0 30 9-17 * * MON-FRI", "2026-01-05T12:00:00Z", "2026-01-05T11:30:00Z"},
		{"10-20 5 12 31 12 *", "2026-12-31T12:05:30Z", "2026-12-31T12:05:20Z"},
		{"10-20 5 12 31 12 *", "2026-12-31T12:05:15Z", "2026-12-31T12:05:14Z"},
		{"10-20 5 12 31 12 *", "2026-12-31T12:04:59Z", "2025-12-31T12:05:20Z"},
		{"0 0 0 30 2 *", "2026-01-01T00:00:00Z", "-"},
		{"-", "2026-01-01T00:00:00Z", "-"},
		{"0 0 0 1 1 ? 1975,2050", "2099-01-01T00:00:00Z", "2050-01-01T00:00:00Z"},
		{"0 0 0 1 1 ? 1975,2050", "2050-01-01T00:00:00Z", "1975-01-01T00:00:00Z"},
	} {
		dialect := cron.Auto
		if strings.HasSuffix(c.expression, "2050") {
			dialect = cron.Quartz
		}
		got := "-"
		if prev := must(t, c.expression, cron.WithDialect(dialect)).Prev(at(t, c.before)); !prev.IsZero() {
			got = prev.Format(time.RFC3339)
		}
		if got != c.want {
			t.Errorf("%q before %s: got %s, want %s", c.expression, c.before, got, c.want)
		}
	}
}

func TestZones(t *testing.T) {
	t.Parallel()
	from := at(t, "2026-07-01T00:00:00Z")
	kolkata := must(t, "0 0 9 * * *", cron.In(location(t, "Asia/Kolkata"))).Next(from)
	if want := at(t, "2026-07-01T03:30:00Z"); !kolkata.Equal(want) || kolkata.Location() != time.UTC {
		t.Errorf("nine in Kolkata: got %v, want %v", kolkata, want)
	}
	if got, want := must(t, "0 0 9 * * *", cron.In(nil)).Next(from), at(t, "2026-07-01T09:00:00Z"); !got.Equal(want) {
		t.Errorf("nine in no zone: got %v, want %v in UTC", got, want)
	}
	// Every LoadLocation makes a new pointer; the cache behind the zones must bear it.
	for range 100 {
		e := must(t, "0 0 9 * * *", cron.In(location(t, "Europe/Berlin")))
		if got, want := e.Next(from), at(t, "2026-07-01T07:00:00Z"); !got.Equal(want) {
			t.Fatalf("nine in Berlin: got %v, want %v", got, want)
		}
	}
}

// TestFar looks for what is many changes of the clocks away, in either direction and from either side of a change.
func TestFar(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expression, winter, summer string }{
		{"0 30 2 1 7 *", "2026-01-10T00:00:00Z", "2026-07-01T00:30:00Z"},
		{"0 30 2 29 2 *", "2028-02-29T01:30:00Z", "2024-07-10T00:00:00Z"},
		{"0 30 2 1 12 *", "2026-12-01T01:30:00Z", "2026-07-10T00:00:00Z"},
		{"0 30 2 29 8 MON", "2022-12-31T00:00:00Z", "2033-08-29T00:30:00Z"},
	} {
		e := must(t, c.expression, cron.In(location(t, "Europe/Berlin")))
		winter, summer := at(t, c.winter), at(t, c.summer)
		answer, question := summer, winter
		if winter.Minute() == 30 {
			answer, question = winter, summer
		}
		if got := e.Next(question); !got.Equal(answer) {
			t.Errorf("%q after %v: got %v, want %v", c.expression, question, got, answer)
		}
		// From behind: the other side of a change, some months later.
		if got := e.Prev(answer.AddDate(0, 5, 0)); !got.Equal(answer) {
			t.Errorf("%q before %v: got %v, want %v", c.expression, answer.AddDate(0, 5, 0), got, answer)
		}
	}
}

// TestAllocations keeps Next and Prev free of garbage, also near a change of the clocks and under Native.
func TestAllocations(t *testing.T) {
	loc := location(t, "Europe/Berlin")
	from := at(t, "2026-03-28T22:00:00Z")
	for _, c := range []struct {
		dialect cron.Dialect
		text    string
	}{
		{cron.Unix, "30 2 * * *"},
		{cron.Spring, "*/5 * * * * *"},
		{cron.Spring, "0 30 2 29 2 *"},
		{cron.Spring, "0 30 2 LW * FRIL,MON#1"},
		{cron.Quartz, "0 30 2 15W * ? 2026-2030"},
	} {
		for _, dst := range []cron.DST{cron.Once, cron.Native} {
			e := must(t, c.text, cron.WithDialect(c.dialect), cron.WithDST(dst), cron.In(loc))
			if n := testing.AllocsPerRun(100, func() { e.Next(from) }); n != 0 {
				t.Errorf("%q %v: Next allocates %v times", c.text, dst, n)
			}
			if n := testing.AllocsPerRun(100, func() { e.Prev(from) }); n != 0 {
				t.Errorf("%q %v: Prev allocates %v times", c.text, dst, n)
			}
		}
	}
}
