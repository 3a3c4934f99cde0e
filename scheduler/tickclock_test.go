package scheduler

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/clocks"
	"github.com/cronlease/cronlease/lease"
)

// A statement that was long under way, such as one of a process that stood still,
// replaces what a quicker one showed only if both cannot be true.
func TestSlowStatementAndQuickOne(t *testing.T) {
	t.Parallel()
	const ahead = 400 * time.Millisecond // of the database's clock
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	own := clocks.Instant{Mono: begin, Wall: begin}
	c := &tickClock{own: func() clocks.Instant { return own }, most: time.Minute, log: zap.NewNop()}
	observe := func(wait, measured, bound time.Duration) {
		own.Mono, own.Wall = own.Mono.Add(wait), own.Wall.Add(wait)
		if err := c.observe(lease.Skew{Ahead: measured, Bound: bound}); err != nil {
			t.Fatal(err)
		}
	}
	wrong := func() time.Duration { return c.now().Sub(own.Wall.Add(ahead)) }

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
