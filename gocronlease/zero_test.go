package gocronlease_test

import (
	"context"
	"testing"

	"github.com/cronlease/cronlease/gocronlease"
)

// What was left out is an error, and never a panic.
func TestNothingGiven(t *testing.T) {
	t.Parallel()
	for _, l := range []*gocronlease.Locker{gocronlease.NewLocker(nil, nil), {}} {
		if _, err := l.Lock(t.Context(), "job"); err == nil {
			t.Error("Lock without a client: no error")
		}
	}
	if _, err := gocronlease.NewElector(t.Context(), nil, "g"); err == nil {
		t.Error("NewElector without a store: no error")
	}
	var e gocronlease.Elector
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for what, err := range map[string]error{"IsLeader": e.IsLeader(ctx), "Do": e.Do(ctx, nil), "Wait": e.Wait(ctx)} {
		if err == nil {
			t.Errorf("%s of a zero Elector: no error", what)
		}
	}
}
