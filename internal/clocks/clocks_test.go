package clocks_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/clocks"
)

func TestNow(t *testing.T) {
	t.Parallel()
	before := time.Now()
	at := clocks.Now()
	if passed := at.Mono.Sub(before); passed < 0 || passed > time.Minute || !at.Wall.Equal(at.Mono) {
		t.Errorf("%v, %v after %v", at.Mono, at.Wall, before)
	}
	if at.Wall != at.Wall.Round(0) {
		t.Errorf("the wall clock %v has a monotonic reading", at.Wall)
	}
}
