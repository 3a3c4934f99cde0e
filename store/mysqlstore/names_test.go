package mysqlstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Names are distinct in the database exactly when they are in Go, also where
// its collation takes upper for lower case, and text for numbers or patterns.
func TestNamesThatNearlyCollide(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		admin := db.Open(t)
		exec(t, admin, "ALTER DATABASE "+db.Config(t).DBName+" CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
		s := migrated(t, db.DSN)
		h := holder(t, s, "billing", "me")
		var names []string
		for c := rune(' '); c <= 'ÿ'; c++ {
			for _, name := range []string{string(c), "a" + string(c), "a" + string(c) + "b", strings.Repeat("x", store.MaxName-1) + string(c)} {
				if store.CheckName("job", name) == nil {
					names = append(names, name)
				} else if err := s.Declare(soon(t), h, []store.Declared{{Name: name}}); err == nil {
					t.Errorf("%q is taken", name)
				}
			}
		}
		names = append(names, "1.0", "1e0", "01", "0x1", "1", "NULL", "null", "true", "a_b", "axb", "A_B")
		declared, claims := map[string]string{}, []store.Claim{}
		var list []store.Declared
		for _, name := range names {
			if _, twice := declared[name]; twice {
				continue
			}
			declared[name] = fmt.Sprint("schedule ", len(declared))
			list = append(list, store.Declared{Name: name, Schedule: declared[name]})
			claims = append(claims, store.Claim{Key: key(name, 1), State: jobs.Running})
		}
		if err := s.Declare(soon(t), h, list); err != nil {
			t.Fatal(err)
		}
		for _, r := range claim(t, s, h, claims...) {
			if declared[r.Job] == "" {
				t.Errorf("a claim of %q", r.Job)
			}
		}
		known := load(t, s, "billing")
		if len(known.Jobs) != len(declared) || len(known.Open) != len(declared) {
			t.Errorf("%d jobs and %d runs of %d names", len(known.Jobs), len(known.Open), len(declared))
		}
		for name, schedule := range declared {
			if known.Jobs[name].Schedule != schedule {
				t.Errorf("%q has %q, want %q", name, known.Jobs[name].Schedule, schedule)
			}
		}
	})
}
