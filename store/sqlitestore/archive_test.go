package sqlitestore_test

import (
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Jobs that have too many runs are counted up to their shares, whatever else there is.
func TestCountsOfTooManyRuns(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	h := leader(t, s)
	for n, job := range []string{"counted", "other"} {
		var claims []store.Claim
		for i := range 50 {
			claims = append(claims, store.Claim{Key: jobs.Key{Job: job, Tick: tick(i)}, State: jobs.Skipped})
		}
		claim(t, s, h, byte(1+n), claims...)
	}
	run(t, s.DB(), `INSERT INTO cronlease_run (grp, job, tick, trigger_id, claim_id, state, owner, token, attempt, claimed_at, missed, error, cancel_asked)
		SELECT 'elsewhere', job, tick, trigger_id, claim_id, state, owner, token, attempt, claimed_at, missed, error, cancel_asked FROM cronlease_run`)
	s.CountAtMost(20)
	for _, test := range []struct {
		name         string
		jobs         []string
		since, until int
		runs         int
		cut          int // the tick behind which all are counted; 0: they are from the first one on
	}{
		{"as many as are counted", []string{"counted"}, 10, 30, 20, 0},
		{"one more", []string{"counted"}, 10, 31, 20, 10},
		{"two jobs", []string{"counted", "other"}, 0, 50, 20, 39},
		{"all jobs, as many as are counted", nil, 10, 20, 20, 0},
		{"all jobs, more", nil, 10, 21, 20, 10},
	} {
		counts, err := s.Counts(soon(t), "group", jobs.CountFilter{Jobs: test.jobs, Since: tick(test.since), Until: tick(test.until), Every: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		runs := 0
		for _, c := range counts.List {
			runs += c.Runs
		}
		if runs != test.runs {
			t.Errorf("%s: %d runs, want %d", test.name, runs, test.runs)
		}
		for _, job := range append(test.jobs, "")[:max(1, len(test.jobs))] {
			if from, cut := counts.Cut[job]; cut != (test.cut > 0) || cut && !from.Equal(tick(test.cut).Add(time.Microsecond)) {
				t.Errorf("%s: complete from %v on, want all behind %d", test.name, counts.Cut, test.cut)
			}
		}
	}
}

// What is too old is not all that is pruned: so is what is too much of one group.
func TestPruneArchiveByNumber(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	for _, statement := range []string{
		`INSERT INTO cronlease_audit (grp, at, actor, via, action, job, tick, trigger_id, note, result)
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
			SELECT grp, cronlease_micros(), '', 'api', 'pause', '', 0, 0, '', 'done' FROM n, (SELECT 'group' AS grp UNION ALL SELECT 'other')`,
		`INSERT INTO cronlease_term (grp, token, owner, began_at, ended_at, early, why)
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
			SELECT grp, i, 'me', cronlease_micros(), cronlease_micros(), 0, '' FROM n, (SELECT 'group' AS grp UNION ALL SELECT 'other')`,
	} {
		run(t, s.DB(), statement, store.MaxAudit, store.MaxTerms)
	}
	if n, err := s.PruneArchive(soon(t), "group", 0); n != 0 || err != nil {
		t.Errorf("pruned %d, %v of as many as are kept", n, err)
	}
	run(t, s.DB(), "INSERT INTO cronlease_audit (grp, at, actor, via, action, job, tick, trigger_id, note, result) SELECT grp, at, actor, via, action, job, tick, trigger_id, note, result FROM cronlease_audit WHERE grp = 'group' LIMIT 3")
	run(t, s.DB(), "INSERT INTO cronlease_term (grp, token, owner, began_at, ended_at, early, why) SELECT grp, token + 1000000, owner, began_at, ended_at, early, why FROM cronlease_term WHERE grp = 'group' LIMIT 2")
	for _, want := range []int{5, 0} {
		if n, err := s.PruneArchive(soon(t), "group", 0); n != want || err != nil {
			t.Errorf("pruned %d, %v, want %d", n, err, want)
		}
	}
}
