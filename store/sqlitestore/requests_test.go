package sqlitestore_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/store"
)

// What Wake has written for a session goes with the session. Groups that were paused before their first term stay paused.
func TestPruneWokenSessions(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	ok := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	over, there := store.SessionGroup("over"), store.SessionGroup("there")
	for _, session := range []string{over, there} {
		ok(s.Prepare(soon(t), session, time.Minute))
		ok(s.Wake(soon(t), session))
	}
	rs, err := s.Read(soon(t), there)
	ok(err)
	_, err = s.Acquire(soon(t), store.Acquire{Read: rs[0], Owner: "there", Heartbeat: 1, TTL: time.Minute})
	ok(err)
	for _, group := range []string{"a", "z"} {
		ok(s.Pause(soon(t), group, ""))
	}
	n, err := s.PruneSessions(soon(t), "locks/", -time.Hour, time.Hour, 10)
	ok(err)
	if n != 1 {
		t.Errorf("%d sessions were pruned, want 1", n)
	}
	ok(s.Wake(soon(t), over)) // nobody waits for it any more
	for group, want := range map[string]uint64{over: 0, there: 1, "a": 1, "z": 1} {
		changes, err := s.Changes(soon(t), group)
		ok(err)
		if changes.Number != want {
			t.Errorf("%s has %d changes, want %d", group, changes.Number, want)
		}
	}
}
