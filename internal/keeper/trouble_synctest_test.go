package keeper_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/stream"
	"github.com/cronlease/cronlease/lease"
)

// A day without a database, with four attempts a second by each of two tasks.
func TestTroubleIsLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.DebugLevel)
		trouble := keeper.NewTrouble(stream.New(zap.New(core)), "", "")
		trouble.Worked("look")
		away, denied := errors.New("connection refused"), fmt.Errorf("%w: 1045", lease.ErrDenied)
		minutes := func(n int, err error) {
			for range n * 60 * 4 {
				trouble.Failed("heartbeat", err)
				trouble.Failed("look", err)
				time.Sleep(time.Second / 4)
			}
		}
		lines := func() (texts []string) {
			for _, l := range logs.FilterLevelExact(zapcore.WarnLevel).All() {
				texts = append(texts, l.Message)
			}
			for _, l := range logs.FilterLevelExact(zapcore.InfoLevel).All() {
				texts = append(texts, l.Message)
			}
			logs.TakeAll()
			return texts
		}
		minutes(24*60, away)
		if n := len(lines()); n < 24*60-1 || n > 24*60+1 {
			t.Errorf("%d lines in a day", n)
		}
		minutes(1, denied)
		if texts := lines(); len(texts) < 1 || len(texts) > 3 {
			t.Errorf("after another kind of failure: %q", texts)
		}
		if since, err := trouble.Last(); !errors.Is(err, lease.ErrDenied) || time.Since(since) < 24*time.Hour {
			t.Errorf("trouble since %v: %v", since, err)
		}
		trouble.Worked("look")
		if texts := lines(); len(texts) != 0 {
			t.Errorf("one task works: %q", texts)
		}
		trouble.Worked("heartbeat")
		trouble.Worked("heartbeat")
		if texts := lines(); len(texts) != 1 || texts[0] != "database trouble over" {
			t.Errorf("all tasks work: %q", texts)
		}
		if _, err := trouble.Last(); err != nil {
			t.Error(err)
		}

		// A task that is over does not keep the trouble from ending.
		trouble.Failed("claim", away)
		time.Sleep(2 * time.Minute)
		if _, err := trouble.Last(); err == nil {
			t.Error("a task that has failed two minutes ago is taken to be over")
		}
		time.Sleep(time.Nanosecond)
		if _, err := trouble.Last(); err != nil {
			t.Errorf("of a task that is over: %v", err)
		}
		trouble.Failed("look", away)
		trouble.Worked("look")
		if texts := lines(); len(texts) != 4 { // each trouble has its beginning and its end
			t.Errorf("two troubles, of which one was forgotten: %q", texts)
		}
	})
}

// A database that fails and works in turn, as one at the limit of its memory, is told of a few times a minute, and
// another kind of failure at once.
func TestTroublesInARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		var away, back int
		trouble := keeper.NewTrouble(stream.New(zap.New(core), func(e event.Event) {
			switch e.(type) {
			case event.DatabaseAway:
				away++
			case event.DatabaseBack:
				back++
			}
		}), "", "")
		full := fmt.Errorf("%w: OOM", lease.ErrNotReady)
		flap := func(d time.Duration, err error) {
			for end := time.Now().Add(d); time.Now().Before(end); {
				trouble.Failed("claim", err)
				time.Sleep(time.Second / 4)
				trouble.Worked("claim")
				time.Sleep(time.Second / 4)
			}
		}
		began := time.Now()
		flap(10*time.Minute, full)
		synctest.Wait()
		begins, ends := logs.FilterMessageSnippet("database not ready").All(), logs.FilterMessageSnippet("database trouble over").Len()
		if len(begins) != 50 || ends != 50 || begins[5].Time.Sub(began) != time.Minute {
			t.Errorf("%d beginnings and %d ends in ten minutes, the sixth after %v", len(begins), ends, begins[min(5, len(begins)-1)].Time.Sub(began))
		}
		if away != 1200 || back != 1200 {
			t.Errorf("observers have %d beginnings and %d ends, want 1200", away, back)
		}
		logs.TakeAll()
		flap(time.Second/2, errors.New("connection refused"))
		if n := logs.Len(); n != 2 {
			t.Errorf("%d lines about another kind of failure: %v", n, logs.All())
		}
		// What began without a line and lasts has one soon, once a minute then, and one about its end.
		flap(10*time.Second, full)
		logs.TakeAll()
		began = time.Now()
		for range 122 {
			trouble.Failed("claim", full)
			time.Sleep(time.Second)
		}
		trouble.Worked("claim")
		lines := logs.FilterMessageSnippet("database not ready").All()
		if n := len(lines); n < 2 || n > 3 || lines[0].Time.Sub(began) != 3*time.Second {
			t.Errorf("a trouble of two minutes: %d lines, %v", n, lines)
		}
		if n := logs.FilterMessageSnippet("database trouble over").Len(); n != 1 {
			t.Errorf("%d lines about its end", n)
		}
	})
}

// ends are how long the troubles lasted whose end was logged.
func ends(logs *observer.ObservedLogs) (lasted []time.Duration) {
	for _, l := range logs.FilterMessage("database trouble over").All() {
		lasted = append(lasted, l.ContextMap()["for"].(time.Duration))
	}
	logs.TakeAll()
	return lasted
}

// Failures of a term say nothing about the database once the term is over: the next
// task that works ends the trouble.
func TestTroubleEndsAfterTheTerm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		trouble := keeper.NewTrouble(stream.New(zap.New(core)), "", "")
		away := errors.New("connection refused")
		term, other := trouble.Tasks(), trouble.Tasks()
		check := func(when string, want ...time.Duration) {
			t.Helper()
			if got := ends(logs); !slices.Equal(got, want) {
				t.Errorf("%s: ends logged %v, want %v", when, got, want)
			}
			if _, err := trouble.Last(); (err == nil) != (len(want) > 0) {
				t.Errorf("%s: the last error is %v", when, err)
			}
		}

		term.Failed("claim", away)
		trouble.Failed("heartbeat", away)
		time.Sleep(time.Second)
		term.End()
		trouble.Ended("heartbeat")
		check("the term is over, and the database still away")
		time.Sleep(time.Second)
		trouble.Worked("look")
		check("the database is back", 2*time.Second)

		term = trouble.Tasks()
		term.Failed("claim", away)
		other.Failed("claim", away)
		term.End()
		trouble.Worked("look")
		check("another term still fails")
		time.Sleep(time.Second)
		other.Worked("claim")
		check("the other term works", time.Second)

		term.Failed("claim", away)
		check("a statement of the term fails after its end")
		time.Sleep(time.Second)
		trouble.Worked("look")
		check("the database is back, though nothing more is heard of that", time.Second)

		term = trouble.Tasks()
		term.Failed("claim", away)
		time.Sleep(time.Second)
		term.Failed("claim", away)
		time.Sleep(3 * time.Minute)
		if _, err := trouble.Last(); err != nil {
			t.Errorf("of a task that was not heard of for 3 minutes: %v", err)
		}
		trouble.Worked("look")
		check("a task was not heard of", time.Second)
	})
}
