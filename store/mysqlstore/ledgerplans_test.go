package mysqlstore_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
)

// No statement reads more rows than it needs, however long the history is.
func TestLedgerPlans(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		h := holder(t, s, "billing", "me")
		// Jobs of another group, or reading the whole table would be the best plan for reading a group's jobs.
		fillLedger(t, db, s, holder(t, s, "other", "me"), 500, 500)
		fillLedger(t, db, s, h, 50, 20_000)
		var claims []store.Claim
		var moves []store.Move
		for n := range 20 {
			c := store.Claim{Key: key("job-0001", n), State: jobs.Running}
			claims = append(claims, c)
			moves = append(moves, store.Move{Key: c.Key, From: jobs.Running, Attempt: 1, Owner: "me", Token: h.Token, To: jobs.Failed})
		}
		c := conn(t, db.Open(t))
		for _, statement := range mysqlconn.SessionStatements(time.Second, "") {
			exec(t, c, statement)
		}
		// The keys and the number of rows that each step on a table may use.
		const key, byState = "PRIMARY", "by_state"
		allowed := map[string]map[string]string{
			"claim": {"f": key, "cronlease_run": "", "r": key, "j": key, "g": key}, "refused": {"f": "", "r": key, "j": key, "g": key}, "move": {"f": key, "r": key, "j": key},
			"read runs": {"r": key, "f": key},
			"changes":   {"cronlease_job": key, "cronlease_run": byState}, "summary": {"cronlease_job": key, "j": key, "cronlease_run": byState},
			"jobs": {"j": key, "r": key}, "open runs": {"r": byState}, "open": {"cronlease_job": key, "j": key, "r": byState, "cronlease_run": byState},
			"open of": {"cronlease_job": key, "j": key, "r": byState, "cronlease_run": byState},
			"runs":    {"r": key, "cronlease_run": byState}, "runs of job": {"r": key, "cronlease_run": key}, "runs of state": {"r": key, "cronlease_run": byState},
			"lock run": {"r": key}, "lock jobs": {"j": key}, "put run": {"cronlease_run": key}, "update jobs": {"j": key}, "trigger": {"j": key, "cronlease_run": ""}, "trigger once": {"j": key, "cronlease_run": ""}, "count open": {"cronlease_run": byState}, "args": {"cronlease_run": key},
			"spread claim": {"f": key, "cronlease_run": "", "r": key, "j": key, "g": key}, "spread move": {"f": key, "r": key, "j": key},
			"movable": {"f": key, "r": key}, "follow": {"cronlease_run": "", "r": key}, "follow claim": {"cronlease_run": "", "r": key},
			"runs behind":   {"r": key, "cronlease_run": byState},
			"keep attempts": {"f": key, "cronlease_attempt": "", "r": key}, "drop attempts": {"a": key}, "prune attempts": {"a": key}, "orphans": {"a": key, "r": key}, "pass attempts": {"a": key, "r": key}, "forget": {"j": key, "r": key},
			"audit": {"e": "by_group"}, "audit of job": {"e": "by_job"}, "terms": {"t": key}, "oldest terms": {"t": key}, "lock terms": {"t": key}, "oldest entries": {"e": "by_group"}, "attempts": {"r": key, "a": key},
			"names": {"cronlease_job": key}, "jobs of": {"j": key, "r": key},
			"newest of": {"r": key}, "cut of": {"cronlease_run": key}, "cut in": {"cronlease_run": byState}, "count of": {"cronlease_run": key}, "count few": {"cronlease_run": key}, "count in": {"cronlease_run": byState},
			"bounds": {"cronlease_run": key}, "kept from": {"cronlease_run": key}, "prunable": {"cronlease_run": key}, "prune": {"r": key},
		}
		for name, statement := range s.LedgerStatements(h, claims, moves) {
			for _, plan := range explainPlan(t, c, statement) {
				table := plan["table"]
				want, ok := allowed[name][table]
				if strings.HasPrefix(table, "<") || table == "" || table == "v" || table == "k" {
					continue // rows of the statement itself
				}
				// These sort what they answer, which is little.
				few := name == "open runs" || name == "open of" || name == "attempts" || name == "count of" || name == "count in"
				sorts := strings.Contains(plan["Extra"], "filesort") && !few
				// Of a group's jobs, a claim reads one by its whole key.
				whole := plan["type"] == "const" || plan["type"] == "eq_ref"
				if (name == "claim" || name == "spread claim" || name == "refused") && (table == "j" || table == "g") && !whole {
					t.Errorf("%s: %v", name, plan)
				}
				if !ok || sorts || want != "" && (plan["key"] != want || plan["type"] == "ALL" || plan["type"] == "index") {
					t.Errorf("%s: %v", name, plan)
				}
			}
		}
	})
}

// explainPlan returns the steps of a statement's plan.
func explainPlan(t testing.TB, c *sql.Conn, statement string) []map[string]string {
	t.Helper()
	rows, err := c.QueryContext(soon(t), "EXPLAIN FORMAT=TRADITIONAL "+statement)
	if err != nil {
		t.Fatalf("explain %.200s: %v", statement, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var steps []map[string]string
	for rows.Next() {
		values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		step := map[string]string{}
		for i, column := range columns {
			step[column] = values[i].String
		}
		steps = append(steps, step)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}

// fillLedger writes a history of n runs that are over, of so many jobs, and
// makes the server look at it.
func fillLedger(t testing.TB, db dbtest.Database, s *mysqlstore.Store, h store.Holder, ofJobs, n int) {
	t.Helper()
	names := make([]string, ofJobs)
	for i := range names {
		names[i] = fmt.Sprintf("job-%04d", i)
	}
	openJobs(t, s, h, names...)
	pool := db.Open(t)
	for from := 0; from < n; from += 2000 {
		var rows []string
		for i := from; i < min(n, from+2000); i++ {
			rows = append(rows, fmt.Sprintf("('%s', '%s', %d, 0, 'an id of 16 byte', 3, '%s', %d, 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), NULL, 0, '', 0)",
				h.Group, names[i%ofJobs], tick(i/ofJobs).UnixMicro(), h.Owner, h.Token))
		}
		exec(t, pool, "INSERT INTO cronlease_run (grp, job, tick, trigger_id, claim_id, state, owner, token, attempt, claimed_at, started_at, finished_at, due_at, missed, error, cancel_asked) VALUES "+
			strings.Join(rows, ","))
	}
	exec(t, pool, "ANALYZE TABLE cronlease_run, cronlease_job")
}
