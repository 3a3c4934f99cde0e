package sqlitestore_test

import (
	"flag"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/store/internal/sqlflaws"
	"github.com/cronlease/cronlease/store/sqlitestore"
	"github.com/cronlease/cronlease/store/storetest"
)

var flaws = flag.String("flaws", "", "a regular expression: of the statements whose names match it, each condition and assignment is left out in turn")

// unnoticed are flaws that no case of the suites can notice, by the beginning of their text.
var unnoticed = map[string]string{
	"archive.cut":                                         "see TestCountsOfTooManyRuns: the suites have no 20,000 runs",
	"archive.dropEntry: grp = ?1 is true":                 "a number of an entry is of one group",
	"archive.had":                                         "see TestPruneArchiveByNumber: the suites have no 100,000 entries",
	"lease.awaited: l.name IS NULL is false":              "it wakes a waiter, who would look a little later",
	"lease.checkFence":                                    "see the tests of package fence",
	"ledger.dropCursor: grp = ?1 is true":                 "no other cursor has that tick",
	"ledger.dropCursor: job = ?2 is true":                 "no other cursor has that tick",
	"ledger.group: o.name = '' is true":                   "the job without a name is the first one",
	"ledger.readRuns: trigger_id = k.value ->> 2 is true": "more is read than is needed",
	"ledger.runsAt: job = ?2 is true":                     "more is read than is needed",
	"ledger.runsAt: tick = ?3 is true":                    "more is read than is needed",
	"lease.wake: name = ?1 is true":                       "more are woken than is needed",
	"lock.pruneGroups":                                    "see TestPruneWokenSessions",
	"lock.check":                                          "see the tests of package fence; the name decides nothing there, since a mark stands in one row",
}

// whyUnnoticed is empty for a flaw that a case has to notice.
func whyUnnoticed(f sqlflaws.Flaw) string {
	for flaw, why := range unnoticed {
		if strings.HasPrefix(f.String(), flaw) {
			return why
		}
	}
	return ""
}

// Each condition and each assignment of a statement has a case of the suites that fails without it. See docs/checks.md.
func TestFlaws(t *testing.T) {
	t.Parallel()
	if *flaws == "" {
		return
	}
	wanted := regexp.MustCompile(*flaws)
	for _, flaw := range sqlitestore.Flaws() {
		if !wanted.MatchString(flaw.Statement) {
			continue
		}
		t.Run(flaw.String(), func(t *testing.T) {
			why, tries := whyUnnoticed(flaw), 3 // some are found by random histories alone
			if why != "" {
				tries = 1
			}
			var found string
			for ; tries > 0 && found == ""; tries-- {
				found = storetest.Finds(t, func(t testing.TB) storetest.Harness {
					h := harness(t, &flaw)
					h.Patience = 30 * time.Second
					return h
				}, flaw.About...)
			}
			switch {
			case found == "" && why == "":
				t.Error("no case fails")
			case found == "":
				t.Logf("no case fails: %s", why)
			default:
				t.Logf("a case fails: %.300s", found)
			}
		})
	}
}
