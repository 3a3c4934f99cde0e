package sqlitestore_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// Statements of the ledger find their rows by a key or an index, also when
// SQLite believes that the tables are small.
func TestLedgerPlans(t *testing.T) {
	t.Parallel()
	const (
		byKey   = "SEARCH cronlease_run USING PRIMARY KEY (grp=? AND job=? AND tick=? AND trigger_id=?)"
		byState = "SEARCH cronlease_run USING INDEX cronlease_run_by_state (grp=? AND state=?"
		ofJob   = "SEARCH cronlease_run USING PRIMARY KEY (grp=? AND job=?"
		ofTick  = "USE TEMP B-TREE FOR LAST 2 TERMS OF ORDER BY" // the runs of one tick
	)
	want := map[string][]string{
		"group": {
			"SCAN schema", "SEARCH g USING PRIMARY KEY (name=?)", "SEARCH f USING PRIMARY KEY (name=?)", "SEARCH o USING PRIMARY KEY (grp=? AND name=?)",
		},
		"jobs":            {"SEARCH j USING PRIMARY KEY (grp=? AND name>?)", "SEARCH c USING PRIMARY KEY (grp=? AND job=?)"},
		"jobs of":         {"SEARCH j USING PRIMARY KEY (grp=? AND name=?)", "SEARCH c USING PRIMARY KEY (grp=? AND job=?)"},
		"open runs":       {byState + ")", "USE TEMP B-TREE FOR ORDER BY"},
		"open runs of":    {byState + ")", "USE TEMP B-TREE FOR ORDER BY"},
		"fence":           {"SEARCH cronlease_fence USING PRIMARY KEY (name=?)"},
		"count open":      {strings.Replace(byState, "USING", "USING COVERING", 1) + ")"},
		"read runs":       {byKey},
		"runs at":         {ofJob + " AND tick=?)"},
		"runs later":      {ofJob + " AND tick>?)"},
		"rekey":           {byKey},
		"rewind":          {"SEARCH cronlease_cursor USING PRIMARY KEY (grp=? AND job=?)", "SEARCH cronlease_run USING PRIMARY KEY (grp=? AND job=?)"},
		"set paused":      {"SEARCH cronlease_job USING PRIMARY KEY (grp=? AND name=?)"},
		"args":            {byKey},
		"prune":           {byKey, ofJob + ")", "SEARCH cronlease_cursor USING PRIMARY KEY (grp=? AND job=?)", ofJob + ")"},
		"newest":          {},
		"newest of job":   {ofJob + " AND tick>? AND tick<?)"},
		"newest of state": {byState + " AND tick>? AND tick<?)", ofTick},
	}
	for range jobs.Interrupted {
		want["newest"] = append(want["newest"], byState+" AND tick>? AND tick<?)", ofTick)
	}
	path := migrated(t)
	s := open(t, path)
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			h := leader(t, s)
			if err := s.Declare(soon(t), h, []store.Declared{{Name: "job", Schedule: "daily"}}); err != nil {
				t.Fatal(err)
			}
			claim(t, s, h, 1, store.Claim{Key: jobs.Key{Job: "job", Tick: tick(0)}, State: jobs.Running})
			run(t, s.DB(), "ANALYZE")
		}
		fresh := open(t, path)
		for name, statement := range fresh.Statements() {
			got := plan(t, fresh, statement)
			if !slices.Equal(got, want[name]) {
				t.Errorf("plan of %q, analyzed %t:\n%s\nwant\n%s", name, analyzed, strings.Join(got, "\n"), strings.Join(want[name], "\n"))
			}
		}
	}
}

func TestRenewPlan(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	want := []string{"SEARCH cronlease_lease USING PRIMARY KEY (name=?)"}
	if got := plan(t, s, s.Renewal()); !slices.Equal(got, want) {
		t.Errorf("plan %q, want %q", got, want)
	}
}

// No statement of locks goes through a table.
func TestLockPlans(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	for name, statement := range s.LockStatements() {
		steps := plan(t, s, statement)
		for _, step := range steps {
			if strings.Contains(step, "SCAN cronlease_l") || strings.Contains(step, "SCAN l") || strings.Contains(step, "SCAN cronlease_fence") {
				t.Errorf("plan of %q: %s", name, strings.Join(steps, "\n"))
			}
		}
		if name == "idle" && !slices.Equal(steps, []string{"SEARCH cronlease_lock USING INDEX cronlease_lock_idle (written_at<?)"}) {
			t.Errorf("plan of %q: %s", name, strings.Join(steps, "\n"))
		}
	}
}

// ofLists are the steps that have nothing to do with a table: lists and constants.
var ofLists = regexp.MustCompile(`VIRTUAL TABLE|CONSTANT ROW|instant|subquery|SUBQUERY|MERGE|^LEFT$|^RIGHT$`)

func plan(t *testing.T, s *sqlitestore.Store, statement string) (steps []string) {
	t.Helper()
	args := []any{"[]"}
	for i := 2; strings.Contains(statement, fmt.Sprint("?", i)); i++ {
		args = append(args, 1)
	}
	rows, err := s.DB().QueryContext(soon(t), "EXPLAIN QUERY PLAN "+statement, args...)
	if err != nil {
		t.Fatalf("%v: %s", err, statement)
	}
	defer func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}()
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		if step, _ = strings.CutSuffix(step, " LEFT-JOIN"); !ofLists.MatchString(step) {
			steps = append(steps, step)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}
