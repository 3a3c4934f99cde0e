package cron_test

import (
	"testing"
	"time"
	_ "time/tzdata" // for a machine without zone data

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/jobs/cron"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(tb testing.TB, expression string, options ...cron.Option) *cron.Expression {
	tb.Helper()
	e, err := cron.Parse(expression, options...)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func location(tb testing.TB, name string) *time.Location {
	tb.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		tb.Fatal(err)
	}
	return loc
}

// at reads an instant with any offset.
func at(tb testing.TB, text string) time.Time {
	tb.Helper()
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// chain returns the next n instants after t, fewer if there are no more.
func chain(e *cron.Expression, t time.Time, n int) (answers []time.Time) {
	for range n {
		if t = e.Next(t); t.IsZero() {
			break
		}
		answers = append(answers, t)
	}
	return answers
}
