package lease_test

import (
	"testing"

	"github.com/cronlease/cronlease/lease"
)

func TestHolds(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	if holds := lease.Holds(ctx); holds != nil {
		t.Errorf("%v of nothing", holds)
	}
	one := lease.WithHold(ctx, lease.Hold{Name: "a"})
	two := lease.WithHold(one, lease.Hold{Kind: lease.HoldLock, Name: "b"})
	other := lease.WithHold(one, lease.Hold{Name: "c"})
	lease.Holds(two)[0].Name = "changed"
	for _, c := range []struct {
		holds []lease.Hold
		want  string
	}{
		{lease.Holds(one), "a"}, {lease.Holds(two), "ab"}, {lease.Holds(other), "ac"},
	} {
		got := ""
		for _, h := range c.holds {
			got += h.Name
		}
		if got != c.want {
			t.Errorf("holds %q, want %q", got, c.want)
		}
	}
}
