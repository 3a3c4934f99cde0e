package storetest

import (
	"slices"
	"strings"
	"testing"
)

func TestSoundLedgerPasses(t *testing.T) {
	t.Parallel()
	Ledger(t, func(testing.TB) Harness { return newLedgerDatabase("").harness() })
}

func TestLedgerWithoutStepClock(t *testing.T) {
	t.Parallel()
	Ledger(t, func(testing.TB) Harness {
		h := newLedgerDatabase("").harness()
		h.StepClock = nil
		return h
	})
}

func TestEachLedgerFlawFailsACase(t *testing.T) {
	t.Parallel()
	ledgerProof.eachFlawFailsACase(t)
}

func TestEachLedgerCaseFindsAFlaw(t *testing.T) {
	t.Parallel()
	ledgerProof.eachCaseFindsAFlaw(t)
}

var ledgerProof = proof[*ledgerEnv]{
	suite: ledgerSuite, flaws: slices.Concat(ledgerFlaws, verdictFlaws, requestFlaws, replicaFlaws), about: aboutLedger,
	harness: func(flaw string) Harness { return newLedgerDatabase(flaw).quickHarness() },
}

// aboutLedger is what a flaw or a case is about, by its name.
func aboutLedger(name string) string {
	name = name[:strings.IndexAny(name, ":/")]
	switch name {
	case "resume":
		return "pause"
	case "names", "errors", "ticks", "clock", "context":
		return "values"
	case "store":
		return "concurrency"
	}
	return name
}
