package scheduler_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

// A slog logger has the lines of runs, with the keys that zap has.
func TestWithSlog(t *testing.T) {
	inBubble(t, func(c *cluster) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "owner" || a.Key == "token" {
				return slog.Attr{}
			}
			return a
		}}))
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Retry: exact(2, time.Second), Do: failing(2)}}, scheduler.WithSlog(log))
		c.until(time.Minute + 30*time.Second)
		r.stop()
		for _, want := range []string{
			`level=INFO msg="run started" group=g job=job tick=2000-01-01T00:01:00.000Z attempt=1`,
			`level=WARN msg="run failed" group=g job=job tick=2000-01-01T00:01:00.000Z attempt=1 took=0s error="no luck" will_retry=true retry=`,
			`level=ERROR msg="run failed" group=g job=job tick=2000-01-01T00:01:00.000Z attempt=2 took=0s error="no luck" will_retry=false`,
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no line %s in\n%s", want, out.String())
			}
		}
	})
}
