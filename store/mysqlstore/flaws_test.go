package mysqlstore_test

import (
	"flag"
	"regexp"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
	"github.com/cronlease/cronlease/store/storetest"
)

var flaws = flag.String("flaws", "", "a regular expression: of the statements whose names match it, each condition and assignment is left out in turn")

// Each condition and each assignment of a statement has a case of the suites that fails without it. See docs/checks.md.
func TestFlaws(t *testing.T) {
	t.Parallel()
	all := mysqlstore.Flaws()
	if len(all) < 100 {
		t.Errorf("there are %d flaws", len(all))
	}
	if *flaws == "" {
		return
	}
	wanted := regexp.MustCompile(*flaws)
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		databases := &emptied{fresh: func(t testing.TB) dbtest.Database { return dbtest.Fresh(t, db.Kind) }, parent: t}
		for _, flaw := range all {
			if !wanted.MatchString(flaw.Statement) {
				continue
			}
			found := storetest.Finds(t, func(t testing.TB) storetest.Harness {
				empty := databases.take(t)
				pool := empty.Open(t)
				return storetest.Harness{
					Open: func(t testing.TB) store.Leases {
						s := open(t, empty.DSN)
						s.Break(flaw)
						return s
					},
					Update:   func(t testing.TB, group string, change storetest.Change) { update(t, pool, group, change) },
					Fenced:   storetest.FencedOn(pool),
					Patience: 30 * time.Second,
				}
			}, flaw.About...)
			if found == "" {
				t.Errorf("no case fails where %s", flaw)
			} else {
				t.Logf("where %s, a case fails: %.300s", flaw, found)
			}
		}
	})
}
