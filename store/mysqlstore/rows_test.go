package mysqlstore_test

import (
	"math"
	"testing"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
)

// Rows that another program has written, with any value that the columns take,
// do not keep the others of the group from being read.
func TestRowsOfAnyValue(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		pool := conn(t, db.Open(t))
		exec(t, pool, "SET SESSION sql_mode = ''") // lets 0000-00-00 in
		h := holder(t, s, "billing", "me")
		openJobs(t, s, h, "a", "b", "c")
		claim(t, s, h, append(append(running("a", 1), running("b", 1)...), running("c", 1)...)...)

		exec(t, pool, `UPDATE cronlease_run SET attempt = 4294967295, missed = 18446744073709551615, cancel_asked = 100,
			claimed_at = 0, started_at = 0, due_at = '9999-12-31 23:59:59.999999' WHERE job = 'a'`)
		exec(t, pool, "UPDATE cronlease_run SET tick = 9223372036854775807 WHERE job = 'b'")
		exec(t, pool, "UPDATE cronlease_run SET tick = -9223372036854775808, trigger_id = 18446744073709551615 WHERE job = 'c'")
		exec(t, pool, `UPDATE cronlease_job SET paused = 100, since = 0, schedule_since = 0, started_at = 0, finished_at = 0,
			changes = 18446744073709551615, pauses = 'x' WHERE name IN ('', 'a')`)
		exec(t, pool, "UPDATE cronlease_lease SET renewed_at = 0, released = 100, resign_asked = 100")

		snapshot := load(t, s, "billing")
		if !snapshot.Paused || len(snapshot.Jobs) != 3 || !snapshot.Jobs["a"].Paused || len(snapshot.Open) != 3 {
			t.Errorf("got %+v", snapshot)
		}
		if all := runs(t, s, "billing", jobs.Filter{}); len(all) != 2 { // the default begins at 1970
			t.Errorf("got %+v", all)
		}
		r := run(t, s, "billing", key("a", 1))
		if r.Missed != math.MaxInt32 || r.Attempt != math.MaxInt32 || !r.CancelAsked || !r.Claimed.IsZero() {
			t.Errorf("got %+v", r)
		}
		changes(t, s, "billing")
		l := read(t, s, "billing").Lease
		if l == nil || l.Token != h.Token || !l.Released || !l.ResignAsked || l.RenewedAt.Unix() != 0 {
			t.Errorf("got %+v", l)
		}
		if next := holder(t, s, "billing", "next"); next.Token <= h.Token {
			t.Errorf("token %d after %d", next.Token, h.Token)
		}
	})
}
