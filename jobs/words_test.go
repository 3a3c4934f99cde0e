package jobs_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/jobs/cron"
)

func TestInWords(t *testing.T) {
	t.Parallel()
	at := time.Date(2027, 1, 2, 3, 4, 0, 0, time.UTC)
	unix := func(expression string) jobs.Schedule { return jobs.Cron(expression) }
	quartz := func(expression string) jobs.Schedule { return jobs.Cron(expression).Dialect(cron.Quartz) }
	for _, c := range []struct {
		schedule jobs.Schedule
		want     string
	}{
		{nil, ""},
		{jobs.Manual(), "only when triggered"},
		{jobs.After("import"), "after each success of import"},
		{jobs.At(at), "once, at 2027-01-02 03:04 UTC"},
		{jobs.At(at.Add(1500 * time.Millisecond)), "once, at 2027-01-02 03:04:01.5 UTC"},
		{jobs.Every(time.Second), "every second"},
		{jobs.Every(90 * time.Second), "every 90 seconds"},
		{jobs.Every(5 * time.Minute), "every 5 minutes"},
		{jobs.Every(time.Hour), "every hour"},
		{jobs.Every(48 * time.Hour), "every 2 days"},
		{jobs.Every(1500 * time.Millisecond), "every 1.5s"},
		{jobs.FixedRate(time.Minute), "every minute, counted from when the job was first known"},
		{jobs.FixedDelay(time.Minute).InitialDelay(10 * time.Second), "1 minute after the end of each run, the first one after 10 seconds"},
		{unix("-"), "never"},
		{unix("* * * * *"), "every minute"},
		{unix("*/1 * * * *"), "every minute"},
		{unix("*/5 * * * *"), "every 5 minutes"},
		{unix("0,15,30,45 * * * *"), "every 15 minutes"},
		{unix("*/7 * * * *"), "cron */7 * * * *, UTC"},
		{unix("5/10 * * * *"), "cron 5/10 * * * *, UTC"},
		{unix("7 * * * *"), "every hour at :07"},
		{unix("7 */6 * * *"), "every 6 hours at :07, UTC"},
		{unix("7 */12 * * *"), "at 00:07 and 12:07 every day, UTC"},
		{unix("0 */5 * * *"), "at 00:00, 05:00, 10:00, 15:00 and 20:00 every day, UTC"},
		{unix("0 2 * * *"), "at 02:00 every day, UTC"},
		{unix("0 2,14 * * *"), "at 02:00 and 14:00 every day, UTC"},
		{unix("*/15 9-17 * * 1-5"), "every 15 minutes from 09:00 to 17:45 on weekdays, UTC"},
		{unix("0,30 9-10 * * *"), "at 09:00, 09:30, 10:00 and 10:30 every day, UTC"},
		{unix("0,20,40 2,14 * * *"), "at 02:00, 02:20, 02:40, 14:00, 14:20 and 14:40 every day, UTC"},
		{unix("30 9-17 * * *"), "every hour from 09:30 to 17:30, UTC"},
		{unix("30 9-12 * * *"), "at 09:30, 10:30, 11:30 and 12:30 every day, UTC"},
		{unix("0 9 * * 0"), "at 09:00 on Sundays, UTC"},
		{unix("0 9 * * 7"), "at 09:00 on Sundays, UTC"},
		{unix("0 9 * * sun"), "at 09:00 on Sundays, UTC"},
		{unix("0 9 * * mon,wed,fri"), "at 09:00 on Monday, Wednesday and Friday, UTC"},
		{unix("0 9 * * 5-7"), "at 09:00 on Friday, Saturday and Sunday, UTC"},
		{unix("0 9 * * 0-6"), "at 09:00 every day, UTC"},
		{unix("0 9 1 * *"), "at 09:00 on day 1 of the month, UTC"},
		{unix("0 9 1,15 1 *"), "at 09:00 on days 1 and 15 of January, UTC"},
		{unix("0 9 1,5,10,15,20,25 * *"), "at 09:00 on days 1, 5, 10, 15, 20 and 25 of the month, UTC"},
		{unix("0 9 1-7 * *"), "cron 0 9 1-7 * *, UTC"},
		{unix("0 9 * 6-8 *"), "at 09:00 every day in June, July and August, UTC"},
		{unix("0 9 13 * FRI"), "cron 0 9 13 * FRI, UTC"},
		{unix("@daily"), "at 00:00 every day, UTC"},
		{unix("@weekly"), "at 00:00 on Sundays, UTC"},
		{unix("@hourly"), "every hour at :00"},
		{jobs.Cron("0 0 2 * * *").In("Europe/Berlin"), "at 02:00 every day, Europe/Berlin"},
		{jobs.Cron("30 0 2 * * MON-FRI"), "at 02:00:30 on weekdays, UTC"},
		{jobs.Cron("*/10 * * * * *"), "every 10 seconds"},
		{jobs.Cron("* * * * * *"), "every second"},
		{jobs.Cron("*/10 * 8 * * *"), "cron */10 * 8 * * *, UTC"},
		{jobs.Cron("20 */5 * * * *"), "every 5 minutes at second 20"},
		{jobs.Cron("0 0 2 L * *"), "at 02:00 on the last day of the month, UTC"},
		{jobs.Cron("0 0 2 15W * *"), "cron 0 0 2 15W * *, UTC"},
		{jobs.Cron("0 0 2 * * MON#1"), "at 02:00 on the first Monday of the month, UTC"},
		{jobs.Cron("0 0 2 * * SUN#5"), "at 02:00 on the fifth Sunday of the month, UTC"},
		{jobs.Cron("0 0 2 * * FRIL"), "at 02:00 on the last Friday of the month, UTC"},
		{quartz("0 0 9 ? * 2"), "at 09:00 on Mondays, UTC"},
		{quartz("0 0 9 ? * 2-6"), "at 09:00 on weekdays, UTC"},
		{quartz("0 0 9 ? * 6L"), "at 09:00 on the last Friday of the month, UTC"},
		{quartz("0 0 9 ? * 7#1"), "at 09:00 on the first Saturday of the month, UTC"},
		{quartz("0 0 22-2 ? * *"), "cron 0 0 22-2 ? * *, UTC"},
		{quartz("0 0 9 1 1 ? 2027"), "cron 0 0 9 1 1 ? 2027, UTC"},
		{
			jobs.Within(jobs.Cron("0 2 * * *").In("Europe/Berlin"), jobs.Calendar{Until: at, Except: []string{"12-24..01-06", "* * * * SUN"}}),
			"at 02:00 every day, Europe/Berlin; until 2027-01-02 03:04 UTC; except 12-24..01-06, * * * * SUN",
		},
		{jobs.Within(jobs.FixedDelay(time.Minute), jobs.Calendar{From: at}), "1 minute after the end of each run; from 2027-01-02 03:04 UTC"},
	} {
		if got := jobs.InWords(c.schedule); got != c.want {
			t.Errorf("%v: %q, want %q", c.schedule, got, c.want)
		}
	}
}
