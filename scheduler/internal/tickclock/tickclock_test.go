package tickclock_test

import (
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
	observe(5*time.Second, ahead+10*time.Second, half) // it was set
	if got := wrong(); got != 10*time.Second {
		t.Errorf("after the database's clock was set, the clock is %v off", got)
	}
}
