package mysqlconn_test

import (
	"testing"

	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
)

// Of two connects at the same time that find different hosts, the later one
// yields, unless it has found the other's of no use.
func TestHostsSettle(t *testing.T) {
	t.Parallel()
	next, settle := mysqlconn.Settle("a:1", "b:1", "c:1")
	for i, step := range []struct {
		next    int
		tried   []bool
		host    int
		settles bool
	}{
		{0, []bool{false, false, false}, 1, true}, // there was no current host before
		{1, []bool{false, false, false}, 1, true},
		{1, []bool{true, false, false}, 2, false},
		{0, []bool{false, true, false}, 0, true},
		{0, []bool{false, true, false}, 2, false},
		{1, []bool{true, false, false}, 1, true},
		{1, []bool{false, false, true}, 1, true},
	} {
		if got := next(step.tried); got != step.next {
			t.Errorf("step %d: host %d is tried, want %d", i, got, step.next)
		}
		if got := settle(step.host, step.tried); got != step.settles {
			t.Errorf("step %d: host %d settles: %t", i, step.host, got)
		}
	}
}
