package mysqlstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
)

// Jobs that have too many runs together are counted up to their shares.
func TestCountsOfTooManyRuns(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		h := holder(t, s, "billing", "me")
		fillLedger(t, db, s, h, 2, 200) // 100 of each
		s.CountAtMost(120)
		f := jobs.CountFilter{Jobs: []string{"job-0000", "job-0001", "job-0001"}, Since: tick(0), Until: tick(100), Every: 10 * time.Minute}
		for _, test := range []struct {
			name  string
			until int
			runs  int // of each job
			cut   bool
		}{{"all", 60, 60, false}, {"up to their shares", 61, 60, true}, {"up to their shares, in ten buckets", 100, 60, true}} {
			f.Until = tick(test.until)
			counts, err := s.Counts(soon(t), "billing", f)
			if err != nil {
				t.Fatal(err)
			}
			runs := map[string]int{}
			for _, c := range counts.List {
				runs[c.Job] += c.Runs
				if c.State != jobs.Succeeded || c.From.Sub(f.Since)%f.Every != 0 {
					t.Errorf("%s: %+v", test.name, c)
				}
			}
			for _, job := range f.Jobs {
				from, cut := counts.Cut[job]
				if runs[job] != test.runs || cut != test.cut || cut && !from.Equal(tick(test.until-61).Add(time.Microsecond)) {
					t.Errorf("%s: %d of %s, complete from %v on", test.name, runs[job], job, from)
				}
			}
		}
		f.Jobs = nil
		counts, err := s.Counts(soon(t), "billing", f)
		if err != nil {
			t.Fatal(err)
		}
		runs := 0
		for _, c := range counts.List {
			runs += c.Runs
		}
		if from := counts.Cut[""]; runs != 120 || !from.Equal(tick(39).Add(time.Microsecond)) {
			t.Errorf("all jobs together: %d, complete from %v on", runs, counts.Cut)
		}
	})
}

// A caller that leaves right after the request was granted does not keep it from being
// recorded.
func TestResignIsRecordedWithoutItsCaller(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		h := holder(t, s, uniqueName("g"), "me")
		pool := db.Open(t)
		locked := conn(t, pool)
		exec(t, locked, "LOCK TABLES cronlease_audit WRITE")
		ctx, cancel := context.WithCancel(soon(t))
		defer cancel()
		asked := make(chan error, 1)
		go func() { asked <- s.AskResign(ctx, h.Group, h.Token) }()
		for waiting := 0; waiting == 0; { // for the table: the request is granted
			var err error
			if waiting, err = dbserver.Sessions(soon(t), pool, "db = DATABASE() AND state LIKE 'Waiting for table%' AND info LIKE 'INSERT%'"); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		exec(t, locked, "UNLOCK TABLES")
		if err := <-asked; err != nil {
			t.Error(err)
		}
		entries, err := s.Audit(soon(t), h.Group, jobs.AuditFilter{})
		if err != nil || len(entries) != 1 || entries[0].Action != jobs.ActionResign || entries[0].Result != jobs.Done {
			t.Errorf("%+v, %v", entries, err)
		}
	})
}
