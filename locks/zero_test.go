package locks_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/locks"
)

// What is nil, or was not made by New, is an error and no panic.
func TestZeroValues(t *testing.T) {
	t.Parallel()
	work := func(context.Context) error { return nil }
	for name, c := range map[string]*locks.Client{"zero": {}, "nil": nil} {
		_, inspected := c.Inspect(t.Context(), "a")
		for what, err := range map[string]error{
			"Lock":    second(c.Mutex("a").Lock(t.Context())),
			"TryLock": second(c.RWMutex("a").TryRLock(t.Context())),
			"Do":      c.Do(t.Context(), "a", work),
			"Inspect": inspected,
			"Close":   c.Close(t.Context()),
		} {
			if err == nil || !strings.Contains(err.Error(), "not made by New") {
				t.Errorf("%s of a %s client: %v", what, name, err)
			}
		}
	}
	if err := second(new(locks.Mutex).Lock(t.Context())); err == nil {
		t.Error("a zero Mutex was locked")
	}
	if _, err := locks.New(memdb.New(), nil); err == nil || !strings.Contains(err.Error(), "option 1 of 1 is nil") {
		t.Errorf("a nil option: %v", err)
	}
	if _, err := locks.New(memdb.New(), locks.WithLogger(nil)); err == nil || !strings.Contains(err.Error(), "WithLogger(nil)") {
		t.Errorf("a nil logger: %v", err)
	}
	if _, err := locks.New(memdb.New(), locks.WithEvents(nil)); err == nil || !strings.Contains(err.Error(), "WithEvents(nil)") {
		t.Errorf("a nil function for events: %v", err)
	}
	c, err := locks.New(memdb.New(), locks.WithEvents(func(event.Event) {}))
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"a nil option of a lock": second(c.Mutex("a", nil).Lock(t.Context())),
		"a nil function":         c.Do(t.Context(), "a", nil),
	} {
		if err == nil || !strings.Contains(err.Error(), "nil") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := c.Do(t.Context(), "a", work); err != nil {
		t.Errorf("after that: %v", err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
