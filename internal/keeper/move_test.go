package keeper

import (
	"testing"
	"time"
)

func TestMove(t *testing.T) {
	t.Parallel()
	const soon = time.Nanosecond
	for _, test := range []struct {
		name string
		finding
		want move
	}{
		{"a lease that stands", finding{lease: true, fence: true, takeable: soon}, stay},
		{"one whose time is up", finding{lease: true, fence: true}, acquire},
		{"and was up before", finding{lease: true, fence: true, takeable: -soon}, acquire},
		{"a signal for one that stands", finding{lease: true, fence: true, takeable: soon, suspected: true}, hasten},
		{"a signal for one whose time is up", finding{lease: true, fence: true, suspected: true}, acquire},
		{"a new group", finding{}, prepare},
		{"a group whose rows are gone", finding{takeable: soon}, stay},
		{"and have been for a while", finding{takeable: -soon}, prepare},
		{"a signal for rows that are gone", finding{takeable: soon, suspected: true}, stay},
		{"a lease without its fence", finding{lease: true, takeable: soon}, prepare},
		{"a fence without its lease", finding{fence: true, takeable: soon}, prepare},
		{"a gate that is shut", finding{lease: true, fence: true, barred: true}, refrain},
		{"before a new group", finding{barred: true}, refrain},
		{"before a signal", finding{lease: true, fence: true, takeable: soon, barred: true, suspected: true}, refrain},
		{"a follower beside a lease that stands", finding{lease: true, fence: true, takeable: soon, follows: true}, stay},
		{"and one whose time is up", finding{lease: true, fence: true, follows: true}, refrain},
		{"a term of ours", finding{lease: true, fence: true, takeable: soon, leftOver: true}, settle},
		{"whatever the gate says", finding{lease: true, fence: true, leftOver: true, barred: true}, settle},
		{"or the signal", finding{lease: true, fence: true, takeable: soon, leftOver: true, suspected: true}, settle},
		{"and without its fence", finding{lease: true, leftOver: true}, settle},
	} {
		if got := test.move(); got != test.want {
			t.Errorf("%s: move %d, want %d", test.name, got, test.want)
		}
	}
}

func TestReleasableIn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ quarantined, standing, want time.Duration }{
		{2, 3, 2}, {2, 1, 2}, {2, -1, 2}, {0, 3, 3}, {-1, 3, 3}, {-1, 0, 0},
	} {
		if got := releasableIn(test.quarantined, test.standing); got != test.want {
			t.Errorf("after %d and %d: %d, want %d", test.quarantined, test.standing, got, test.want)
		}
	}
}
