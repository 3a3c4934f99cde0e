package clocks_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/clocks"
)

type elsewhere struct{}

func (elsewhere) Clocks() clocks.Instant { return clocks.Instant{Wall: time.Unix(1, 0)} }

func TestOf(t *testing.T) {
	t.Parallel()
	if at := clocks.Of(elsewhere{})(); !at.Wall.Equal(time.Unix(1, 0)) {
		t.Errorf("%v", at)
	}
	before := time.Now()
	at := clocks.Of(struct{}{})()
	if passed := at.Mono.Sub(before); passed < 0 || passed > time.Minute || !at.Wall.Equal(at.Mono) {
		t.Errorf("%v, %v after %v", at.Mono, at.Wall, before)
	}
	if at.Wall != at.Wall.Round(0) {
		t.Errorf("the wall clock %v has a monotonic reading", at.Wall)
	}
}
