package election_test

import (
	"strings"
	"testing"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/memdb"
)

func TestReservedGroups(t *testing.T) {
	t.Parallel()
	if _, err := election.New(memdb.New(), "locks/a"); err == nil || !strings.Contains(err.Error(), "reserved for the sessions of locks") {
		t.Errorf("a group of sessions: %v", err)
	}
}
