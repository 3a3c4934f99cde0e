package storetest

import (
	"strings"
	"testing"
	"time"
)

func TestSoundLocksPass(t *testing.T) {
	t.Parallel()
	Locks(t, func(testing.TB) Harness { return newLockDatabase("").harness() })
}

func TestLocksWithLeastMeans(t *testing.T) {
	t.Parallel()
	Locks(t, func(testing.TB) Harness {
		h := newLockDatabase("").harness()
		h.StepClock, h.Restart = nil, nil
		return h
	})
}

// A store whose notifiers only watch the rows passes too.
func TestNotifiersWithoutAddressPass(t *testing.T) {
	t.Parallel()
	Locks(t, func(testing.TB) Harness { return newLockDatabase(watching).harness() })
}

// The database that the flaws are built into does not make cases fail by itself.
func TestSoundLocksPassQuickly(t *testing.T) {
	t.Parallel()
	each(t, lockSuite.cases, nameOf, func(t *testing.T, c lockCase) {
		h := newLockDatabase("").quickHarness()
		h.Patience = 6 * time.Second // for a busy machine
		if why := failure(t, lockSuite, c, h); why != "" {
			t.Error(why)
		}
	})
}

func TestEachLockFlawFailsACase(t *testing.T) {
	t.Parallel()
	lockProof.eachFlawFailsACase(t)
}

func TestEachLockCaseFindsAFlaw(t *testing.T) {
	t.Parallel()
	lockProof.eachCaseFindsAFlaw(t)
}

var lockProof = proof[*lockEnv]{
	suite: lockSuite, flaws: lockFlaws, about: aboutLocks,
	harness: func(flaw string) Harness { return newLockDatabase(flaw).quickHarness() },
}

// aboutLocks returns the topic of a flaw or a case, by its name.
func aboutLocks(name string) string {
	name = name[:strings.IndexAny(name, ":/")]
	switch name {
	case "restart":
		return "read"
	case "store":
		return "concurrency"
	case "notify":
		return "notifier"
	}
	return name
}
