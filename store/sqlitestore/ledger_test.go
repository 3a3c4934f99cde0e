package sqlitestore_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// leader takes the lease of the group, even if another owner holds it.
func leader(t testing.TB, s *sqlitestore.Store) store.Holder {
	t.Helper()
	if err := s.Prepare(soon(t), "group", time.Second); err != nil {
		t.Fatal(err)
	}
	rs, err := s.Read(soon(t), "group")
	if err != nil {
		t.Fatal(err)
	}
	h := store.Holder{Group: "group", Owner: keeper.NewOwner("test")}
	h.Token, err = s.Acquire(soon(t), store.Acquire{Read: rs[0], Owner: h.Owner, Heartbeat: 1, TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func tick(n int) time.Time { return time.Unix(int64(n), 0).UTC() }

func claim(t testing.TB, s *sqlitestore.Store, h store.Holder, id byte, claims ...store.Claim) []store.Claimed {
	t.Helper()
	claimed, err := s.Claim(soon(t), h, store.ClaimID{id}, claims)
	if err != nil {
		t.Fatal(err)
	}
	return claimed
}

// Rows that another program has written, with any value that the columns take,
// do not keep the others of the group from being read.
func TestRowsOfAnyValue(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	h := leader(t, s)
	if err := s.Declare(soon(t), h, []store.Declared{{Name: "a", Schedule: "x"}, {Name: "b", Schedule: "x"}}); err != nil {
		t.Fatal(err)
	}
	claim(t, s, h, 1, store.Claim{Key: jobs.Key{Job: "a", Tick: tick(1)}, State: jobs.Running}, store.Claim{Key: jobs.Key{Job: "b", Tick: tick(1)}, State: jobs.Running})
	for _, statement := range []string{
		"UPDATE cronlease_run SET attempt = -1, missed = 9223372036854775807, token = -1, started_at = -9223372036854775808 WHERE job = 'a'",
		"UPDATE cronlease_run SET tick = -9223372036854775808, trigger_id = -1 WHERE job = 'b'",
		"UPDATE cronlease_job SET schedule = 'x', since = 9223372036854775807, schedule_since = -9223372036854775808, pauses = 'x'",
		"UPDATE cronlease_group SET changes = -1, pauses = 'x'",
		"UPDATE cronlease_lease SET renewed_at = 9223372036854775807, heartbeat = -1",
	} {
		if _, err := s.DB().ExecContext(soon(t), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	snapshot, err := s.Load(soon(t), "group")
	if err != nil {
		t.Fatal(err)
	}
	if len(snapshot.Jobs) != 2 || len(snapshot.Open) != 2 || snapshot.Open[1].Missed != math.MaxInt32 {
		t.Errorf("got %+v", snapshot)
	}
	if _, err := s.Changes(soon(t), "group"); err != nil {
		t.Error(err)
	}
	if _, err := s.Read(soon(t), "group"); err != nil {
		t.Error(err)
	}
}

// Any text and any tick comes back as it was.
func TestLedgerKeepsValues(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	h := leader(t, s)
	for i, test := range []struct {
		text, want string
	}{
		{"", ""},
		{"plain", "plain"},
		{"not \xff UTF-8 and \x00 and \"quotes\" </b>", "not \xff UTF-8 and \x00 and \"quotes\" </b>"},
		{strings.Repeat("x", 2000) + "y", strings.Repeat("x", 2000)},
		{strings.Repeat("x", 1999) + "é", strings.Repeat("x", 1999)},
		{strings.Repeat("x", 1998) + "é", strings.Repeat("x", 1998) + "é"},
		{strings.Repeat("東", 700), strings.Repeat("東", 666)},
	} {
		for _, at := range []time.Time{
			time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC),
			time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC),
			time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC),
			time.Date(9998, 12, 31, 23, 59, 59, 999999000, time.UTC),
		} {
			job := "job" + string(rune('a'+i))
			key := jobs.Key{Job: job, Tick: at}
			claimed := claim(t, s, h, 1, store.Claim{Key: key, State: jobs.Skipped, Missed: 3, Error: test.text})
			if r := claimed[0].Record; r.Error != test.want || r.Key != key || r.Missed != 3 {
				t.Errorf("claimed %+v, want the error %q at %v", r, test.want, at)
			}
			runs, err := s.Runs(soon(t), "group", jobs.Filter{Job: job, Since: at, Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			if last := runs[len(runs)-1]; last != claimed[0].Record {
				t.Errorf("read %+v, want %+v", last, claimed[0].Record)
			}
		}
	}
	if _, err := s.Claim(soon(t), h, store.ClaimID{2}, []store.Claim{{Key: jobs.Key{Job: "job", Tick: time.Unix(0, 1)}, State: jobs.Running}}); err == nil {
		t.Error("a tick of nanoseconds was claimed, want an error")
	}
}

// A batch of more rows than one statement takes is as one.
func TestLedgerLargeBatch(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	h := leader(t, s)
	const n = 1201
	claims, moves := make([]store.Claim, n), make([]store.Move, n)
	for i := range claims {
		key := jobs.Key{Job: "job", Tick: tick(i)}
		claims[i] = store.Claim{Key: key, State: jobs.Running}
		moves[i] = store.Move{Key: key, From: jobs.Running, Attempt: 1, Owner: h.Owner, Token: h.Token, To: jobs.Succeeded}
	}
	for range 2 { // the second time is a repetition
		for i, c := range claim(t, s, h, 1, claims...) {
			if !c.Mine || c.Key != claims[i].Key {
				t.Fatalf("claim %d: %+v", i, c)
			}
		}
	}
	for range 2 {
		done, err := s.Move(soon(t), h, moves)
		if err != nil || len(done) != n {
			t.Fatalf("%d moved, error %v, want %d", len(done), err, n)
		}
		for i, is := range done {
			if !is {
				t.Fatalf("move %d was not done", i)
			}
		}
	}
	for _, want := range []int{500, 600, 91, 0} {
		got, err := s.Prune(soon(t), "group", "job", jobs.History{Keep: 10}, map[int]int{600: 600}[want])
		if err != nil || got != want {
			t.Errorf("pruned %d, error %v, want %d", got, err, want)
		}
	}
	next := leader(t, s)
	if err := s.Declare(soon(t), h, nil); !errors.Is(err, store.ErrReplaced) {
		t.Errorf("Open of a replaced term: error %v, want ErrReplaced", err)
	}
	declared := make([]store.Declared, n)
	for i := range declared {
		declared[i] = store.Declared{Name: "job" + tick(i).Format("150405"), Schedule: "daily"}
	}
	if err := s.Declare(soon(t), next, declared); err != nil {
		t.Fatal(err)
	}
	snapshot, err := s.Load(soon(t), "group")
	if err != nil || len(snapshot.Jobs) != n {
		t.Errorf("%d jobs, error %v, want %d", len(snapshot.Jobs), err, n)
	}
}

// Moves of one row in one call apply in their order.
func TestMovesOfOneRow(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	h := leader(t, s)
	key := jobs.Key{Job: "job", Tick: tick(0)}
	claim(t, s, h, 1, store.Claim{Key: key, State: jobs.Running})
	as := store.Move{Key: key, From: jobs.Running, Attempt: 1, Owner: h.Owner, Token: h.Token, To: jobs.Waiting}
	again := as
	again.From, again.To = jobs.Waiting, jobs.Running
	late := as
	late.To = jobs.Failed
	done, err := s.Move(soon(t), h, []store.Move{as, again, late})
	if err != nil || len(done) != 3 || !done[0] || !done[1] || done[2] {
		t.Errorf("moved %v, error %v, want true, true, false", done, err)
	}
}

// A repeated move to the state that the row has already changes nothing: otherwise a
// waiting run would never be due.
func TestMoveToWhatItIs(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	h := leader(t, s)
	key := jobs.Key{Job: "job", Tick: tick(0)}
	was := claim(t, s, h, 1, store.Claim{Key: key, State: jobs.Waiting, Delay: time.Minute})[0].Record
	again := store.Move{Key: key, From: jobs.Waiting, Owner: h.Owner, Token: h.Token, To: jobs.Waiting, Delay: time.Hour}
	if done, err := s.Move(soon(t), h, []store.Move{again}); err != nil || !done[0] {
		t.Errorf("moved %v, error %v, want true", done, err)
	}
	if runs, err := s.Runs(soon(t), "group", jobs.Filter{}); err != nil || len(runs) != 1 || runs[0] != was {
		t.Errorf("runs %+v, error %v, want %+v", runs, err, was)
	}
}

// The first request ever made in a group counts as a change.
func TestFirstChangeIsAPauseOfTheGroup(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	if err := s.Pause(soon(t), "group", ""); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Changes(soon(t), "group"); err != nil || n.Number == 0 {
		t.Errorf("changes %+v, error %v, want another number than before", n, err)
	}
}

// Manual runs, also newer ones, never move the cursor, and pruning leaves it.
func TestCursorBesideManualRuns(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	h := leader(t, s)
	if err := s.Declare(soon(t), h, []store.Declared{{Name: "job", Schedule: "daily"}}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		claim(t, s, h, 1, store.Claim{Key: jobs.Key{Job: "job", Tick: tick(i)}, State: jobs.Skipped})
	}
	var moves []store.Move
	for range 5 {
		key, err := s.Trigger(soon(t), "group", "job", jobs.Request{})
		if err != nil {
			t.Fatal(err)
		}
		moves = append(moves, store.Move{Key: key, From: jobs.Waiting, To: jobs.Cancelled})
	}
	if _, err := s.Move(soon(t), h, moves); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Prune(soon(t), "group", "job", jobs.History{Keep: 1}, 0); err != nil || n != 6 {
		t.Errorf("pruned %d, error %v, want 6", n, err)
	}
	snapshot, err := s.Load(soon(t), "group")
	if err != nil || !snapshot.Jobs["job"].Cursor.Equal(tick(2)) || snapshot.Jobs["job"].Finished.IsZero() {
		t.Errorf("loaded %+v, error %v, want the cursor %v", snapshot, err, tick(2))
	}
	runs, err := s.Runs(soon(t), "group", jobs.Filter{})
	if err != nil || len(runs) != 2 || runs[0].Key != moves[4].Key || !runs[1].Tick.Equal(tick(2)) {
		t.Errorf("runs %+v, error %v, want the last manual one and the cursor", runs, err)
	}
}

// The ledger is read beside a writer. Its writes wait, but one of them alone is
// in the way of heartbeats.
func TestLedgerBesideWriter(t *testing.T) {
	t.Parallel()
	path := migrated(t)
	s := open(t, path)
	h := leader(t, s)
	unlock := lock(t, open(t, path))
	if _, err := s.Load(soon(t), "group"); err != nil {
		t.Errorf("Load: %v", err)
	}
	if _, err := s.Changes(soon(t), "group"); err != nil {
		t.Errorf("Changes: %v", err)
	}
	if _, err := s.Runs(soon(t), "group", jobs.Filter{}); err != nil {
		t.Errorf("Runs: %v", err)
	}
	const n = 20
	waited := make(chan error, n)
	for i := range n {
		go func() {
			_, err := s.Claim(soon(t), h, store.ClaimID{1}, []store.Claim{{Key: jobs.Key{Job: "job", Tick: tick(i)}, State: jobs.Running}})
			waited <- err
		}()
	}
	for s.InUse() == 0 {
		<-time.After(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Pause(ctx, "group", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a write beside a writer, until its context ended: error %v, want the context's", err)
	}
	if got := s.InUse(); got != 1 {
		t.Errorf("%d writes are in the way of heartbeats, want 1", got)
	}
	if len(waited) > 0 {
		t.Errorf("a claim beside a writer did not wait: error %v", <-waited)
	}
	unlock()
	for range n {
		if err := <-waited; err != nil {
			t.Errorf("a claim after the writer: %v", err)
		}
	}
}

// Triggers of the tables count requests, too, for programs of earlier releases. Each is one change all the same.
func TestARequestIsOneChange(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	h := leader(t, s)
	if err := s.Declare(soon(t), h, []store.Declared{{Name: "job", Schedule: "daily"}}); err != nil {
		t.Fatal(err)
	}
	var key jobs.Key
	was := uint64(0)
	for i, ask := range []func() error{
		func() error { return s.Pause(soon(t), h.Group, "job") },
		func() error { return s.Resume(soon(t), h.Group, "job") },
		func() error { return s.Pause(soon(t), h.Group, "") },
		func() (err error) { key, err = s.Trigger(soon(t), h.Group, "job", jobs.Request{}); return err },
		func() error { return s.Cancel(soon(t), h.Group, key) },
	} {
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		is, err := s.Changes(soon(t), h.Group)
		if err != nil || is.Number != was+1 {
			t.Errorf("request %d: number %d after %d, error %v", i, is.Number, was, err)
		}
		was = is.Number
	}
}

// A trigger of the tables writes verdicts to the job: in the order of the moves, and not of the runs.
func TestVerdictsInTheOrderOfMoves(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	h := leader(t, s)
	if err := s.Declare(soon(t), h, []store.Declared{{Name: "job", Schedule: "daily"}}); err != nil {
		t.Fatal(err)
	}
	var moves []store.Move
	for i, verdict := range []store.Verdict{store.JobFails, store.JobWorks} {
		key := jobs.Key{Job: "job", Tick: tick(i)}
		claim(t, s, h, byte(i), store.Claim{Key: key, State: jobs.Running})
		moves = append(moves, store.Move{Key: key, From: jobs.Running, Attempt: 1, Owner: h.Owner, Token: h.Token, To: jobs.Failed, Verdict: verdict})
	}
	slices.Reverse(moves)
	if done, err := s.Move(soon(t), h, moves); err != nil || !done[0] || !done[1] {
		t.Fatalf("moved %v, error %v", done, err)
	}
	if snapshot, err := s.Load(soon(t), h.Group); err != nil || !snapshot.Jobs["job"].Failing {
		t.Errorf("loaded %+v, error %v, want a failing job", snapshot.Jobs, err)
	}
}
