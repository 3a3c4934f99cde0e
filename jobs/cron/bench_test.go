package cron_test

import (
	"testing"
	"time"

	robfig "github.com/robfig/cron/v3"

	"github.com/cronlease/cronlease/jobs/cron"
)

// BenchmarkNext walks from answer to answer, as a scheduler does, with robfig/cron v3 beside it.
func BenchmarkNext(b *testing.B) {
	for _, c := range []struct{ name, unix, spring, quartz string }{
		{"daily", "0 2 * * *", "0 0 2 * * *", "0 0 2 * * ?"},
		{"5s", "", "*/5 * * * * *", "*/5 * * * * ?"},
		{"leapday", "0 0 29 2 *", "0 0 0 29 2 *", "0 0 0 29 2 ?"},
		{"weekdays", "0 9-17 * * MON-FRI", "0 0 9-17 * * MON-FRI", "0 0 9-17 ? * MON-FRI"},
	} {
		for _, zone := range []string{"UTC", "Europe/Berlin"} {
			loc := location(b, zone)
			ours := func(name, text string, options ...cron.Option) {
				if text != "" {
					b.Run(c.name+"/"+loc.String()+"/"+name, func(b *testing.B) {
						step(b, must(b, text, append(options, cron.In(loc))...).Next)
					})
				}
			}
			ours("unix", c.unix, cron.WithDialect(cron.Unix))
			ours("spring", c.spring, cron.WithDialect(cron.Spring))
			ours("quartz", c.quartz, cron.WithDialect(cron.Quartz))
			ours("spring-native", c.spring, cron.WithDST(cron.Native))
			b.Run(c.name+"/"+loc.String()+"/robfig", func(b *testing.B) {
				parser := robfig.NewParser(robfig.Second | robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow)
				schedule, err := parser.Parse("TZ=" + loc.String() + " " + c.spring)
				if err != nil {
					b.Fatal(err)
				}
				step(b, schedule.Next)
			})
		}
	}
}

func BenchmarkPrev(b *testing.B) {
	e := must(b, "0 0 9-17 * * MON-FRI", cron.In(location(b, "Europe/Berlin")))
	start := time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC)
	b.ReportAllocs()
	t := start
	for b.Loop() {
		if t = e.Prev(t); t.Year() < 2026 {
			t = start
		}
	}
}

func BenchmarkParse(b *testing.B) {
	loc := location(b, "Europe/Berlin")
	b.ReportAllocs()
	for b.Loop() {
		must(b, "0 0 9-17 * * MON-FRI", cron.In(loc))
	}
}

func step(b *testing.B, next func(time.Time) time.Time) {
	b.ReportAllocs()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	end := start.AddDate(12, 0, 0)
	t := start
	for b.Loop() {
		if t = next(t); t.After(end) {
			t = start
		}
	}
}
