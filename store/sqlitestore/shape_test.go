package sqlitestore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// Check names each table, column, index and trigger that is missing, and Migrate
// makes what it can. What a column held only a backup has.
func TestWhatIsMissingIsNamedAndMade(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	for _, c := range []struct {
		breaks, names string
		made          bool
	}{
		{"DROP TABLE cronlease_lock", "no table cronlease_lock", true},
		{"DROP TABLE cronlease_run", "no table cronlease_run", true},
		{"DROP INDEX cronlease_run_by_state", "no index cronlease_run_by_state", true},
		{"DROP TRIGGER cronlease_takeover", "no trigger cronlease_takeover", true},
		{"ALTER TABLE cronlease_lease DROP COLUMN resign_asked", "no column resign_asked", false},
	} {
		if _, err := s.DB().ExecContext(t.Context(), c.breaks); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(t.Context()); !errors.Is(err, lease.ErrNotReady) || !strings.Contains(err.Error(), c.names) || !strings.Contains(err.Error(), "run Migrate") {
			t.Errorf("Check after %s: %v", c.breaks, err)
		}
		var made []string
		_, err := s.MigrateSteps(t.Context(), 0, func(step string) { made = append(made, step) }, func(error) {})
		if c.made != strings.Contains(strings.Join(made, "\n"), c.names) {
			t.Errorf("after %s: told of %q", c.breaks, made)
		}
		if c.made {
			if err := errors.Join(err, s.Check(t.Context())); err != nil {
				t.Errorf("Migrate and Check after %s: %v", c.breaks, err)
			}
			var floor int
			if err := s.DB().QueryRowContext(t.Context(), "SELECT count(*) FROM cronlease_lock WHERE name = ''").Scan(&floor); err != nil || floor != 1 {
				t.Errorf("after %s: %d rows of the floor, %v", c.breaks, floor, err)
			}
			continue
		}
		if !keeper.Ends(err) || !strings.Contains(err.Error(), c.names) || !strings.Contains(err.Error(), "backup") {
			t.Errorf("Migrate after %s: %v", c.breaks, err)
		}
	}
}

// A program goes on with tables of a later version that lets it, as one that is
// restarted in the middle of a rolling upgrade has to.
func TestOlderProgramOnNewerTables(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	for _, statement := range []string{
		"ALTER TABLE cronlease_lease ADD COLUMN later INTEGER NOT NULL DEFAULT 0",
		"UPDATE cronlease_schema SET level = level + 5",
	} {
		if _, err := s.DB().ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Migrate(t.Context()), s.Check(t.Context()), s.Prepare(t.Context(), "billing", 1e9)); err != nil {
		t.Error(err)
	}
	var level int
	if err := s.DB().QueryRowContext(t.Context(), "SELECT level FROM cronlease_schema").Scan(&level); err != nil || level != sqlitestore.Newest+5 {
		t.Errorf("an older program has set the level to %d", level)
	}
}

// A program of a version before verdicts ends runs by such an UPDATE.
func TestOlderProgramLeavesFailing(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	h := leader(t, s)
	if err := s.Declare(soon(t), h, []store.Declared{{Name: "a", Schedule: "every 1m0s"}}); err != nil {
		t.Fatal(err)
	}
	for n, verdict := range []store.Verdict{store.JobFails, store.JobWorks} {
		ours, theirs := jobs.Key{Job: "a", Tick: tick(2*n + 1)}, jobs.Key{Job: "a", Tick: tick(2*n + 2)}
		claim(t, s, h, byte(n+1), store.Claim{Key: ours, State: jobs.Running}, store.Claim{Key: theirs, State: jobs.Running})
		moves := []store.Move{
			{Key: ours, From: jobs.Running, Attempt: 1, Owner: h.Owner, Token: h.Token, To: jobs.Failed, Verdict: verdict},
			{Key: theirs, From: jobs.Running, Attempt: 1, Owner: h.Owner, Token: h.Token, To: jobs.Waiting, Verdict: verdict},
		}
		if _, err := s.Move(soon(t), h, moves); err != nil {
			t.Fatal(err)
		}
		for state := jobs.Succeeded; state <= jobs.Failed; state++ {
			run(t, s.DB(), "UPDATE cronlease_run SET state = ?1, finished_at = 1 WHERE job = 'a' AND tick = ?2", state, theirs.Tick.UnixMicro())
			snapshot, err := s.Load(soon(t), h.Group)
			if known := snapshot.Jobs["a"]; err != nil || known.Failing != (verdict == store.JobFails) || known.Finished.UnixMicro() != 1 {
				t.Errorf("after verdict %d, and %v by an older program: %+v, %v", verdict, state, known, err)
			}
		}
	}
}
