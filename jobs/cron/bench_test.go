package cron_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs/cron"
	robfig "github.com/robfig/cron/v3"
)

var common = []struct{ name, expression string }{
	{"daily", "0 0 2 * * *"},
	{"5s", "*/5 * * * * *"},
	{"leapday", "0 0 0 29 2 *"},
	{"weekdays", "0 0 9-17 * * MON-FRI"},
}

// BenchmarkNext walks from answer to answer, as a scheduler does. Sub-benchmark robfig is robfig/cron v3 beside it.
func BenchmarkNext(b *testing.B) {
	berlin := location(b, "Europe/Berlin")
	walk := func(b *testing.B, next func(time.Time) time.Time) {
		b.ReportAllocs()
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		end := start.AddDate(3, 0, 0)
		t := start
		for b.Loop() {
			if t = next(t); t.After(end) {
				t = start
			}
		}
	}
	for _, loc := range []*time.Location{time.UTC, berlin} {
		for _, c := range common {
			name := c.name + "/" + loc.String()
			b.Run(name+"/spring", func(b *testing.B) { walk(b, must(b, c.expression, cron.In(loc)).Next) })
			b.Run(name+"/spring-native", func(b *testing.B) {
				walk(b, must(b, c.expression, cron.In(loc), cron.WithDST(cron.Native)).Next)
			})
			b.Run(name+"/robfig", func(b *testing.B) {
				parser := robfig.NewParser(robfig.Second | robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow)
				schedule, err := parser.Parse("TZ=" + loc.String() + " " + c.expression)
				if err != nil {
					b.Fatal(err)
				}
				walk(b, schedule.Next)
			})
		}
	}
}
