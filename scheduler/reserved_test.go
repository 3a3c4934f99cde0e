package scheduler_test

import (
	"strings"
	"testing"

	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/memstore"
)

func TestReservedGroups(t *testing.T) {
	t.Parallel()
	if _, err := scheduler.New(memstore.New(), "locks/a"); err == nil || !strings.Contains(err.Error(), "reserved for the sessions of locks") {
		t.Errorf("a group of sessions: %v", err)
	}
}
