package tickclock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/clocks"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler/internal/tickclock"
)

// What the clocks do is told when it is first known, also when they agree, and then when it changes.
func TestClocksAreToldOfFromTheFirstTimeOn(t *testing.T) {
	t.Parallel()
	own := clocks.Instant{Mono: time.Now(), Wall: time.Now()}
	for _, test := range []struct {
		ahead []time.Duration
		want  string
	}{
		{[]time.Duration{0, 10 * time.Millisecond, 0}, "agree first;"},
		{[]time.Duration{0, 2 * time.Second, 2 * time.Second, 0}, "agree first;differ;agree;"},
		{[]time.Duration{2 * time.Second, 0}, "differ first;agree;"},
		{[]time.Duration{time.Hour, time.Hour, 0}, "disagree first;agree;"},
	} {
		got := ""
		c := tickclock.New(tickclock.Config{Own: func() clocks.Instant { return own }, Most: time.Minute, Emit: func(e event.ClockSkew) {
			got += string(e.Now)
			if e.First {
				got += " first"
			}
			got += ";"
		}})
		for _, ahead := range test.ahead {
			_ = c.Observe(lease.Skew{Ahead: ahead, Bound: time.Millisecond}) // an error while they disagree
		}
		if got != test.want {
			t.Errorf("%v: %s want %s", test.ahead, got, test.want)
		}
	}
}

// A statement that was long under way, such as one of a process that stood still,
// replaces what a quicker one showed only if both cannot be true.
func TestSlowStatementAndQuickOne(t *testing.T) {
	t.Parallel()
	const ahead = 400 * time.Millisecond // of the database's clock
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	own := clocks.Instant{Mono: begin, Wall: begin}
	c := tickclock.New(tickclock.Config{Own: func() clocks.Instant { return own }, Most: time.Minute, Emit: func(event.ClockSkew) {}})
	observe := func(wait, measured, bound time.Duration) {
		own.Mono, own.Wall = own.Mono.Add(wait), own.Wall.Add(wait)
		if err := c.Observe(lease.Skew{Ahead: measured, Bound: bound}); err != nil {
			t.Fatal(err)
		}
	}
	wrong := func() time.Duration { return c.Now().Sub(own.Wall.Add(ahead)) }

	observe(0, ahead, 500*time.Millisecond) // takes a second, and cannot tell the clocks apart
	const half = 2300 * time.Millisecond
	observe(5*time.Second, ahead+half, half) // the database answered at its end
	if got := wrong().Abs(); got > 500*time.Millisecond {
		t.Errorf("after a slow statement, the clock is %v off", got)
	}
	observe(5*time.Second, ahead, time.Millisecond)
	if got := wrong(); got != 0 {
		t.Errorf("after a quick statement, the clock is %v off", got)
	}
	observe(5*time.Second, ahead+10*time.Second, half) // it was set, to no less than this
	if got := wrong(); got != 10*time.Second-half {
		t.Errorf("after the database's clock was set, the clock is %v off", got)
	}
	observe(5*time.Second, ahead+10*time.Second, half)
	if got := wrong(); got != 10*time.Second {
		t.Errorf("after another slow statement, the clock is %v off", got)
	}
}

const most = time.Minute // that the clocks may differ by

// machine is a machine whose clocks the test sets, and what its tick clock says.
type machine struct {
	*tickclock.Clock
	own  clocks.Instant
	said string
}

func newMachine(byWorker bool, drift float64) *machine {
	begin := time.Date(2026, time.March, 28, 12, 0, 0, 0, time.UTC)
	m := &machine{own: clocks.Instant{Mono: begin, Wall: begin}}
	m.Clock = tickclock.New(tickclock.Config{
		Own: func() clocks.Instant { return m.own }, ByWorker: byWorker, Most: most, Drift: drift,
		Emit: func(e event.ClockSkew) {
			m.said += string(e.Now)
			if e.First {
				m.said += " first"
			}
			if e.Most != most || e.ByDatabase == byWorker {
				m.said += " of another clock"
			}
		},
	})
	return m
}

// passes lets time pass on both clocks.
func (m *machine) passes(d time.Duration) {
	m.own.Mono, m.own.Wall = m.own.Mono.Add(d), m.own.Wall.Add(d)
}

// ahead is how far the tick clock is ahead of the machine's.
func (m *machine) ahead() time.Duration { return m.Now().Sub(m.own.Wall) }

// The clocks differ by as much as is sure, whatever the statement may be wrong by. Each limit belongs to the smaller side.
func TestWhatIsSaid(t *testing.T) {
	t.Parallel()
	type step struct {
		sure time.Duration
		want string
	}
	const least, again = time.Second, 500 * time.Millisecond
	for name, test := range map[string]struct {
		byWorker bool
		steps    []step
	}{
		"a second is no difference": {false, []step{{least, "agree first"}, {least, ""}, {least + 1, "differ"}, {least + 1, ""}}},
		"more is one":               {false, []step{{least + 1, "differ first"}, {least + 2, ""}}},
		"half a second ends none":   {false, []step{{2 * least, "differ first"}, {again, ""}, {again - 1, "agree"}, {0, ""}, {2 * least, "differ"}}},
		"most is still right":       {false, []step{{most, "differ first"}, {most + 1, "disagree"}, {most + 2, ""}, {most, "agree"}}},
		"more than most is wrong":   {false, []step{{most + 1, "disagree first"}, {most + 1, ""}}},
		// A difference that is left after a disagreement has an end of its own. One that is not has none.
		"after it they differ":            {false, []step{{most + 1, "disagree first"}, {least + 1, "agree"}, {again, ""}, {again - 1, "agree"}}},
		"after it they do not":            {false, []step{{most + 1, "disagree first"}, {least, "agree"}, {0, ""}, {least + 1, "differ"}}},
		"after it they disagree again":    {false, []step{{most + 1, "disagree first"}, {most, "agree"}, {most + 1, "disagree"}}},
		"by the worker's clock":           {true, []step{{most + 1, "differ first"}, {most + 1, ""}, {0, "agree"}}},
		"by the worker's clock, at first": {true, []step{{0, "agree first"}, {most + 1, "differ"}}},
	} {
		for _, behind := range []bool{false, true} {
			m := newMachine(test.byWorker, 0)
			for i, step := range test.steps {
				const bound = 10 * time.Millisecond
				m.said = ""
				ahead := step.sure + bound
				if behind {
					ahead = -ahead
				}
				err := m.Observe(lease.Skew{Ahead: ahead, Bound: bound})
				if m.said != step.want {
					t.Errorf("%s: step %d by %v says %q, want %q", name, i+1, ahead, m.said, step.want)
				}
				if wrong := !test.byWorker && step.sure > most; errors.Is(err, tickclock.ErrSkew) != wrong || (err != nil) != wrong {
					t.Errorf("%s: step %d by %v: %v", name, i+1, ahead, err)
				}
			}
		}
	}
}

func TestErrorSaysWhichClockIsAhead(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[time.Duration]string{
		2 * most:  "scheduler: the clocks disagree: the database's is 2m0s ahead of this machine's, and max_skew is 1m0s",
		-2 * most: "scheduler: the clocks disagree: the database's is 2m0s behind this machine's, and max_skew is 1m0s",
	} {
		if err := newMachine(false, 0).Observe(lease.Skew{Ahead: ahead}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// The tick clock stays as it was while the clocks disagree, and goes on once they agree.
func TestDisagreementMovesNoTick(t *testing.T) {
	t.Parallel()
	m := newMachine(false, 0)
	for _, step := range []struct{ measured, want time.Duration }{
		{2 * most, 0}, {most, most}, {2 * most, most}, {time.Second, time.Second},
	} {
		_ = m.Observe(lease.Skew{Ahead: step.measured})
		if got := m.ahead(); got != step.want {
			t.Errorf("after %v: the tick clock is %v ahead, want %v", step.measured, got, step.want)
		}
	}
}

// A statement cannot tell clocks apart that differ by no more than it may be wrong.
func TestDifferenceWithinTheBound(t *testing.T) {
	t.Parallel()
	const bound = 300 * time.Millisecond
	for measured, want := range map[time.Duration]time.Duration{
		bound - 1: 0, bound: 0, bound + 1: bound + 1, -bound + 1: 0, -bound: 0, -bound - 1: -bound - 1,
	} {
		m := newMachine(false, 0)
		if _, ok := m.Last(); ok {
			t.Error("a skew before the first statement")
		}
		if err := m.Observe(lease.Skew{Ahead: measured, Bound: bound}); err != nil {
			t.Error(err)
		}
		if s, ok := m.Last(); !ok || s.Ahead != want || m.ahead() != want {
			t.Errorf("measured %v: the skew is %v, and the tick clock is %v ahead, want %v", measured, s.Ahead, m.ahead(), want)
		}
	}
}

// A later statement counts if it is as exact as what is known has become. If it shows that what is known cannot be true, it counts
// as the earliest that it allows: a slow answer starts no tick before its time.
func TestLaterStatement(t *testing.T) {
	t.Parallel()
	const first, bound = 10 * time.Second, 200 * time.Millisecond
	for name, test := range map[string]struct {
		drift           float64
		passed          time.Duration
		measured, bound time.Duration
		want            time.Duration
	}{
		"as exact":                      {0, time.Minute, first + 50*time.Millisecond, bound, first + 50*time.Millisecond},
		"less exact":                    {0, time.Minute, first + 50*time.Millisecond, bound + 1, first},
		"less exact, and at the limit":  {0, time.Minute, first + 2*bound + 1, bound + 1, first},
		"less exact, and it shows more": {0, time.Minute, first + 2*bound + 2, bound + 1, first + bound + 1},
		"less exact, and it shows less": {0, time.Minute, first - 2*bound - 2, bound + 1, first - 3*bound - 3},
		"as exact as drift has left it": {0.5, time.Second, first + 50*time.Millisecond, bound + 500*time.Millisecond, first + 50*time.Millisecond},
		"less exact than that":          {0.5, time.Second, first + 50*time.Millisecond, bound + 500*time.Millisecond + 1, first},
	} {
		m := newMachine(false, test.drift)
		if err := m.Observe(lease.Skew{Ahead: first, Bound: bound}); err != nil {
			t.Error(err)
		}
		m.passes(test.passed)
		if err := m.Observe(lease.Skew{Ahead: test.measured, Bound: test.bound}); err != nil {
			t.Error(err)
		}
		if got := m.ahead(); got != test.want {
			t.Errorf("%s: the tick clock is %v ahead, want %v", name, got, test.want)
		}
	}
}

// Instants of the database are translated for ticks by the worker's clock, if the two differ by more than a second.
func TestInstantsOfTheDatabase(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 28, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		byWorker    bool
		ahead, want time.Duration // want is what Ours adds
	}{
		{true, 0, 0},
		{true, time.Second, 0},
		{true, -time.Second, 0},
		{true, time.Second + time.Microsecond, -time.Second - time.Microsecond},
		{true, -time.Second - time.Microsecond, time.Second + time.Microsecond},
		{true, time.Minute + 1, -time.Minute - time.Microsecond}, // the database has microseconds
		{false, time.Minute, 0},
	} {
		m := newMachine(test.byWorker, 0)
		_ = m.Observe(lease.Skew{Ahead: test.ahead})
		if ours, theirs := m.Ours(at), m.Theirs(at); ours.Sub(at) != test.want || theirs.Sub(at) != -test.want {
			t.Errorf("the database is %v ahead, by worker %v: Ours adds %v, want %v, and Theirs %v", test.ahead, test.byWorker, ours.Sub(at), test.want, theirs.Sub(at))
		}
		if !m.Ours(time.Time{}).IsZero() || !m.Theirs(time.Time{}).IsZero() {
			t.Error("no instant becomes one")
		}
		if test.byWorker && m.ahead() != 0 {
			t.Errorf("the worker's clock is %v ahead of itself", m.ahead())
		}
	}
}
