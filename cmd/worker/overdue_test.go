package main

import (
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// led makes a group whose leader has declared the jobs "tick", "slow" and "gone" a
// while ago, and has claimed nothing since.
func led(t *testing.T, ago time.Duration) (path string, s *sqlitestore.Store, h store.Holder) {
	t.Helper()
	path = configure(t, "  - {name: tick, every: 1s, exec: [\"true\"]}\n  - {name: slow, fixed_delay: 1s, lock_at_least_for: 1h, exec: [\"true\"]}\n")
	s = openStore(t, path)
	ctx := t.Context()
	if err := errors.Join(s.Migrate(ctx), s.Prepare(ctx, "billing", time.Minute)); err != nil {
		t.Fatal(err)
	}
	h = takeOver(t, s)
	declared := []store.Declared{{Name: "tick", Schedule: "every 1s"}, {Name: "slow", Schedule: "fixed delay 1s, initial delay 0s"}, {Name: "gone", Schedule: "every 1s"}}
	if err := s.Declare(ctx, h, declared); err != nil {
		t.Fatal(err)
	}
	execute(t, s, "UPDATE cronlease_job SET since = since - ?1, schedule_since = schedule_since - ?1", ago.Microseconds())
	execute(t, s, "UPDATE cronlease_job SET since = since - 1, started_at = schedule_since WHERE name <> '' AND name <> 'tick'")
	return path, s, h
}

func takeOver(t *testing.T, s *sqlitestore.Store) store.Holder {
	t.Helper()
	rs, err := s.Read(t.Context(), "billing")
	if err != nil {
		t.Fatal(err)
	}
	h := store.Holder{Group: "billing", Owner: "a/b/1/c"}
	if h.Token, err = s.Acquire(t.Context(), store.Acquire{Read: rs[0], Owner: h.Owner, Heartbeat: 1, TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	return h
}

func execute(t *testing.T, s *sqlitestore.Store, statement string, args ...any) {
	t.Helper()
	if _, err := s.DB().ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

// wantStatus checks the exit code of status and returns what it says as JSON.
func wantStatus(t *testing.T, code int, where ...string) (s status, text string) {
	t.Helper()
	plain := command(t, append([]string{"status"}, where...)...)
	r := command(t, append([]string{"status", "--json"}, where...)...)
	if exitCode(r.err) != code || exitCode(plain.err) != code {
		t.Errorf("exit codes %d and %d, want %d: %v", exitCode(r.err), exitCode(plain.err), code, r.err)
	}
	if err := json.Unmarshal([]byte(r.stdout), &s); err != nil {
		t.Fatal(err)
	}
	if r.err != nil {
		plain.stdout += r.err.Error()
	}
	return s, plain.stdout
}

// A leader is not healthy if its heartbeats get through, but its claims do not.
func TestStatusOfALeaderThatClaimsNothing(t *testing.T) {
	t.Parallel()
	path, s, h := led(t, 2*time.Minute)
	if err := s.AskResign(t.Context(), "billing", h.Token); err != nil {
		t.Fatal(err)
	}
	if got, text := wantStatus(t, 0, "--config", path); got.Overdue == nil || !strings.Contains(text, "\nleaving ") {
		t.Errorf("of a leader that leaves: %+v, %s", got, text)
	}
	execute(t, s, "UPDATE cronlease_lease SET resign_asked = 0")
	got, text := wantStatus(t, 4, "--config", path)
	if o := got.Overdue; o == nil || o.Job != "tick" || o.Jobs != 1 || o.LateSeconds < 110 || o.LateSeconds > 200 || got.State != "held" || got.UnknownJobs != 0 {
		t.Errorf("got %+v", got)
	}
	for _, want := range []string{"\noverdue    tick since ", `job "tick" was due at `, "jobs with such ticks: 1", "the leader's log says why"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	// Without the file, only the first job is known to be the leader's: the term has
	// declared it.
	got, text = wantStatus(t, 4, "--database", "sqlite:"+filepath.Join(filepath.Dir(path), "lease.db"), "--group", "billing")
	if o := got.Overdue; o == nil || o.Job != "tick" || o.Jobs != 1 || got.UnknownJobs != 2 || !strings.Contains(text, "overdue?   2 jobs, if the leader has them") {
		t.Errorf("got %+v, %s", got, text)
	}
	execute(t, s, "UPDATE cronlease_job SET since = since - 1 WHERE name = 'tick'")
	if got, _ = wantStatus(t, 0, "--database", "sqlite:"+filepath.Join(filepath.Dir(path), "lease.db"), "--group", "billing"); got.UnknownJobs != 3 || got.Overdue != nil {
		t.Errorf("got %+v", got)
	}

	if err := s.Pause(t.Context(), "billing", "tick"); err != nil {
		t.Fatal(err)
	}
	if got, text = wantStatus(t, 0, "--config", path); got.Overdue != nil || len(got.PausedJobs) != 1 || got.Paused || !strings.Contains(text, "1: tick\n") {
		t.Errorf("got %+v, %s", got, text)
	}
	if err := errors.Join(s.Resume(t.Context(), "billing", "tick"), s.Pause(t.Context(), "billing", "")); err != nil {
		t.Fatal(err)
	}
	if got, text = wantStatus(t, 0, "--config", path); got.Overdue != nil || !got.Paused || !strings.Contains(text, "the whole group\n") {
		t.Errorf("got %+v, %s", got, text)
	}
	if err := s.Resume(t.Context(), "billing", ""); err != nil {
		t.Fatal(err)
	}

	// A run that goes on holds back what lies behind a pause, and a new leader gets
	// the time to catch up.
	past := store.Claim{Key: jobs.Key{Job: "tick", Tick: time.Now().Add(-time.Minute).UTC().Truncate(time.Second)}, State: jobs.Running}
	if _, err := s.Claim(t.Context(), h, store.ClaimID{1}, []store.Claim{past}); err != nil {
		t.Fatal(err)
	}
	if got, _ = wantStatus(t, 0, "--config", path); got.Overdue != nil {
		t.Errorf("got %+v", got)
	}
	if err := s.Release(t.Context(), "billing", h.Owner, h.Token); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, 3, "--config", path)
	takeOver(t, s)
	execute(t, s, "UPDATE cronlease_job SET pauses = ''")
	execute(t, s, "UPDATE cronlease_group SET pauses = ''")
	if got, text = wantStatus(t, 0, "--config", path); got.Overdue == nil || got.OldRuns != 1 || !strings.Contains(text, "old runs   1,") {
		t.Errorf("got %+v, %s", got, text)
	}
}

// A job whose run an earlier leader may still do waits, for the TTL at most.
func TestStatusOfAJobThatIsLeftAlone(t *testing.T) {
	t.Parallel()
	path, s, h := led(t, 10*time.Minute)
	old := store.Claim{Key: jobs.Key{Job: "tick", Tick: time.Now().Add(-5 * time.Minute).UTC().Truncate(time.Second)}, State: jobs.Running}
	if _, err := s.Claim(t.Context(), h, store.ClaimID{1}, []store.Claim{old}); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), "billing", h.Owner, h.Token); err != nil {
		t.Fatal(err)
	}
	if err := s.Declare(t.Context(), takeOver(t, s), nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ttl, ago time.Duration
		code     int
		left     bool
	}{
		{3 * time.Minute, 2 * time.Minute, 0, true},
		{3 * time.Minute, 4 * time.Minute, 4, false},
	} {
		execute(t, s, "UPDATE cronlease_lease SET ttl_us = ?1", c.ttl.Microseconds())
		execute(t, s, "UPDATE cronlease_job SET schedule_since = ?1 WHERE name = ''", time.Now().Add(-c.ago).UnixMicro())
		if got, text := wantStatus(t, c.code, "--config", path); got.Overdue == nil != c.left || got.OldRuns != 1 {
			t.Errorf("%+v: got %+v, %s", c, got, text)
		}
	}
}

// A ledger that is gone takes no claims: status names the leader, and exits as where ticks are not claimed.
func TestStatusWithoutALedger(t *testing.T) {
	t.Parallel()
	path, s, _ := led(t, 0)
	if got, _ := wantStatus(t, 0, "--config", path); got.Overdue != nil || got.PausedJobs == nil {
		t.Errorf("got %+v", got)
	}
	for _, table := range []string{"cronlease_run", "cronlease_job"} {
		execute(t, s, "ALTER TABLE "+table+" RENAME TO away")
		if got, text := wantStatus(t, 4, "--config", path); got.State != "held" || got.PausedJobs != nil || !strings.Contains(text, "not claimed") || !strings.Contains(text, "no such table") {
			t.Errorf("got %+v, %s", got, text)
		}
		execute(t, s, "ALTER TABLE away RENAME TO "+table)
		wantStatus(t, 0, "--config", path)
	}
}

// A TTL that another program has written is shown as what replicas take it for.
func TestStatusOfAnAbsurdTTL(t *testing.T) {
	t.Parallel()
	path, s, _ := led(t, 0)
	for ttl, want := range map[int64]string{math.MaxInt64: "24h0m0s", 86400e9: "24h0m0s"} {
		execute(t, s, "UPDATE cronlease_lease SET ttl_us = ?1", ttl)
		if got, text := wantStatus(t, 0, "--config", path); got.State != "held" || !strings.Contains(text, "ttl        "+want+"\n") {
			t.Errorf("%d: got %+v, %s", ttl, got, text)
		}
	}
	execute(t, s, "UPDATE cronlease_lease SET ttl_us = -5")
	if got, _ := wantStatus(t, 3, "--config", path); got.State != "expired" || got.TTLSeconds != 0 {
		t.Errorf("got %+v", got)
	}
}
