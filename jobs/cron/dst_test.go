package cron_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs/cron"
)

// The clocks go forward from a to b, and back, at these instants:
//
//	Berlin     02:00 to 03:00  2026-03-29T01:00Z   back 03:00 to 02:00  2026-10-25T01:00Z
//	London     01:00 to 02:00  2026-03-29T01:00Z   back 02:00 to 01:00  2026-10-25T01:00Z
//	New York   02:00 to 03:00  2026-03-08T07:00Z   back 02:00 to 01:00  2026-11-01T06:00Z
//	Santiago   00:00 to 01:00  2026-09-06T04:00Z   back 24:00 to 23:00  2026-04-05T03:00Z
//	Lord Howe  02:00 to 02:30  2026-10-03T15:30Z   back 02:00 to 01:30  2026-04-04T15:00Z
//	Apia       00:00 to 24:00  2011-12-30T10:00Z   (the date line moved: 30 December did not come)
var changes = []struct {
	name, dialect, dst, zone, expression, from, want string
}{
	{
		"a skipped time of day runs as late as the clock went forward",
		"spring", "once", "Europe/Berlin", "0 30 2 * * *", "2026-03-27T12:00:00Z",
		"03-28T01:30:00 03-29T01:30:00 03-30T00:30:00",
	},
	{
		"a repeated time of day runs in the first pass",
		"spring", "once", "Europe/Berlin", "0 30 2 * * *", "2026-10-23T12:00:00Z",
		"10-24T00:30:00 10-25T00:30:00 10-26T01:30:00",
	},
	{
		"asked in the second pass, it is over",
		"spring", "once", "Europe/Berlin", "0 30 2 * * *", "2026-10-25T01:10:00Z",
		"10-26T01:30:00",
	},
	{
		"several skipped times keep their distance",
		"spring", "once", "Europe/Berlin", "0 */15 2 * * *", "2026-03-28T12:00:00Z",
		"03-29T01:00:00 03-29T01:15:00 03-29T01:30:00 03-29T01:45:00 03-30T00:00:00",
	},
	{
		"several repeated times run in the first pass",
		"spring", "once", "Europe/Berlin", "0 */15 2 * * *", "2026-10-24T12:00:00Z",
		"10-25T00:00:00 10-25T00:15:00 10-25T00:30:00 10-25T00:45:00 10-26T01:00:00",
	},
	{
		"a skipped time that meets another one is one with it",
		"spring", "once", "Europe/Berlin", "0 30 2,3 * * *", "2026-03-28T12:00:00Z",
		"03-29T01:30:00 03-30T00:30:00 03-30T01:30:00",
	},
	{
		"a range across a skipped hour does not bunch",
		"spring", "once", "Europe/Berlin", "0 */30 1-5 * * *", "2026-03-28T12:00:00Z",
		"03-29T00:00:00 03-29T00:30:00 03-29T01:00:00 03-29T01:30:00 03-29T02:00:00 03-29T02:30:00 03-29T03:00:00 " +
			"03-29T03:30:00 03-29T23:00:00",
	},
	{
		"every other hour is a list of times: forward",
		"spring", "once", "Europe/Berlin", "0 0 */2 * * *", "2026-03-28T22:30:00Z",
		"03-28T23:00:00 03-29T01:00:00 03-29T02:00:00 03-29T04:00:00",
	},
	{
		"every other hour is a list of times: back",
		"spring", "once", "Europe/Berlin", "0 0 */2 * * *", "2026-10-24T21:30:00Z",
		"10-24T22:00:00 10-25T00:00:00 10-25T03:00:00 10-25T05:00:00",
	},
	{
		"an hourly job keeps its hour: forward",
		"unix", "once", "Europe/Berlin", "30 * * * *", "2026-03-28T23:00:00Z",
		"03-28T23:30:00 03-29T00:30:00 03-29T01:30:00 03-29T02:30:00",
	},
	{
		"an hourly job keeps its hour: back",
		"unix", "once", "Europe/Berlin", "30 * * * *", "2026-10-24T23:00:00Z",
		"10-24T23:30:00 10-25T00:30:00 10-25T01:30:00 10-25T02:30:00",
	},
	{
		"0-23 is a full hour field, too",
		"quartz", "once", "Europe/Berlin", "0 30 0-23 * * ?", "2026-10-24T23:00:00Z",
		"10-24T23:30:00 10-25T00:30:00 10-25T01:30:00 10-25T02:30:00",
	},
	{
		"London skips",
		"unix", "once", "Europe/London", "30 1 * * *", "2026-03-28T12:00:00Z",
		"03-29T01:30:00 03-30T00:30:00",
	},
	{
		"London repeats",
		"unix", "once", "Europe/London", "30 1 * * *", "2026-10-24T12:00:00Z",
		"10-25T00:30:00 10-26T01:30:00",
	},
	{
		"New York skips",
		"quartz", "once", "America/New_York", "0 30 2 * * ?", "2026-03-07T12:00:00Z",
		"03-08T07:30:00 03-09T06:30:00",
	},
	{
		"New York repeats",
		"quartz", "once", "America/New_York", "0 30 1 * * ?", "2026-10-31T12:00:00Z",
		"11-01T05:30:00 11-02T06:30:00",
	},
	{
		"Santiago skips midnight",
		"spring", "once", "America/Santiago", "0 0 0 * * SUN", "2026-09-05T12:00:00Z",
		"09-06T04:00:00 09-13T03:00:00",
	},
	{
		"Santiago skips what follows midnight",
		"spring", "once", "America/Santiago", "0 30 0 * * *", "2026-09-05T12:00:00Z",
		"09-06T04:30:00 09-07T03:30:00",
	},
	{
		"Santiago repeats the hour before midnight",
		"spring", "once", "America/Santiago", "0 30 23 * * *", "2026-04-04T12:00:00Z",
		"04-05T02:30:00 04-06T03:30:00",
	},
	{
		"Santiago repeats it for an hourly job",
		"spring", "once", "America/Santiago", "0 30 * * * SAT", "2026-04-05T01:00:00Z",
		"04-05T01:30:00 04-05T02:30:00 04-05T03:30:00 04-11T04:30:00",
	},
	{
		"Lord Howe skips half an hour",
		"spring", "once", "Australia/Lord_Howe", "0 15 2 * * *", "2026-10-03T12:00:00Z",
		"10-03T15:45:00 10-04T15:15:00",
	},
	{
		"Lord Howe repeats half an hour",
		"spring", "once", "Australia/Lord_Howe", "0 45 1 * * *", "2026-04-04T12:00:00Z",
		"04-04T14:45:00 04-05T15:15:00",
	},
	{
		"Lord Howe leaves a job of every half hour alone",
		"spring", "once", "Australia/Lord_Howe", "0 */30 * * * *", "2026-04-04T14:00:00Z",
		"04-04T14:30:00 04-04T15:00:00 04-04T15:30:00 04-04T16:00:00",
	},
	{
		"Apia leaves out a day: a daily job keeps its distance",
		"spring", "once", "Pacific/Apia", "0 0 12 * * *", "2011-12-29T12:00:00Z",
		"12-29T22:00:00 12-30T22:00:00 12-31T22:00:00",
	},
	{
		"Apia leaves out a day: what is due on it is not lost",
		"spring", "once", "Pacific/Apia", "0 0 12 30 12 *", "2011-12-01T12:00:00Z",
		"12-30T22:00:00 12-29T22:00:00",
	},
	{
		"Spring itself leaves out what is skipped",
		"spring", "native", "Europe/Berlin", "0 30 2 * * *", "2026-03-27T12:00:00Z",
		"03-28T01:30:00 03-30T00:30:00",
	},
	{
		"Spring itself runs twice what is repeated",
		"spring", "native", "Europe/Berlin", "0 30 2 * * *", "2026-10-24T12:00:00Z",
		"10-25T00:30:00 10-25T01:30:00 10-26T01:30:00",
	},
	{
		"Spring itself loses half an hour at Lord Howe",
		"spring", "native", "Australia/Lord_Howe", "0 */10 * * * *", "2026-10-03T15:15:00Z",
		"10-03T15:20:00 10-03T16:00:00 10-03T16:10:00",
	},
	{
		"where Spring itself goes back, the wall clock decides",
		"spring", "native", "Australia/Lord_Howe", "0 0 * * * *", "2022-04-02T14:22:05Z",
		"04-02T15:30:00 04-02T16:30:00",
	},
	{
		"Quartz itself leaves out what is skipped",
		"quartz", "native", "Europe/Berlin", "0 30 2 * * ?", "2026-03-27T12:00:00Z",
		"03-28T01:30:00 03-30T00:30:00",
	},
	{
		"Quartz itself runs in the second pass only",
		"quartz", "native", "Europe/Berlin", "0 0/30 * * * ?", "2026-10-24T23:15:00Z",
		"10-24T23:30:00 10-25T01:00:00 10-25T01:30:00 10-25T02:00:00",
	},
	{
		"Unix goes by the wall clock: forward",
		"unix", "native", "Europe/Berlin", "30 2 * * *", "2026-03-27T12:00:00Z",
		"03-28T01:30:00 03-30T00:30:00",
	},
	{
		"Unix goes by the wall clock: back",
		"unix", "native", "Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00Z",
		"10-25T00:30:00 10-25T01:30:00 10-26T01:30:00",
	},
}

func TestClockChanges(t *testing.T) {
	t.Parallel()
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dialect, _ := cron.ParseDialect(c.dialect)
			dst, _ := cron.ParseDST(c.dst)
			e := must(t, c.expression, cron.WithDialect(dialect), cron.WithDST(dst), cron.In(location(t, c.zone)))
			want := strings.Fields(c.want)
			var got []string
			answers := chain(e, at(t, c.from), len(want))
			for _, answer := range answers {
				got = append(got, answer.Format("01-02T15:04:05"))
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("\n got %s\nwant %s", g, c.want)
			}
			for i := len(answers) - 1; i > 0; i-- {
				if prev := e.Prev(answers[i]); !prev.Equal(answers[i-1]) && c.dst == "once" {
					t.Errorf("before %v: got %v, want %v", answers[i], prev, answers[i-1])
				}
			}
		})
	}
}

// TestPrevNative checks what Prev promises under Native: an instant that Next gives when asked one second earlier.
func TestPrevNative(t *testing.T) {
	t.Parallel()
	spring := must(t, "0 */10 * * * *", cron.In(location(t, "Australia/Lord_Howe")), cron.WithDST(cron.Native))
	quartz := must(t, "0 0/30 * * * ?", cron.In(location(t, "Europe/Berlin")), cron.WithDST(cron.Native),
		cron.WithDialect(cron.Quartz))
	for _, c := range []struct {
		e            *cron.Expression
		before, want string
	}{
		// 15:40 is what Next gives to 15:39:59, though a chain of Next comes from 15:20 to 16:00.
		{spring, "2026-10-03T15:45:00Z", "2026-10-03T15:40:00Z"},
		{spring, "2026-10-03T15:25:00Z", "2026-10-03T15:20:00Z"},
		// 00:30 is in the first pass.
		{quartz, "2026-10-25T01:00:00Z", "2026-10-24T23:30:00Z"},
		{quartz, "2026-10-25T02:00:00Z", "2026-10-25T01:30:00Z"},
	} {
		if got := c.e.Prev(at(t, c.before)).Format(time.RFC3339); got != c.want {
			t.Errorf("%v before %s: got %s, want %s", c.e, c.before, got, c.want)
		}
	}
}
