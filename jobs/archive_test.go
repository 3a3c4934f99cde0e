package jobs_test

import (
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// A group reads what its ledger keeps for people.
func TestArchive(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := ledger(t, store.Declared{Name: "a", Schedule: "manual"}, store.Declared{Name: "b", Schedule: "manual"})
	g := jobs.NewGroup(s, "g")
	if err := s.NoteTerm(ctx, store.TermNote{Holder: me}); err != nil {
		t.Fatal(err)
	}
	var keys []jobs.Key
	for number := range uint64(2) {
		key, err := s.Trigger(ctx, "g", "a", jobs.Request{Tick: noon, Trigger: number + 1})
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	if names, err := g.Names(ctx); err != nil || !slices.Equal(names.All, []string{"a", "b"}) {
		t.Errorf("names %v, %v", names, err)
	}
	if of, err := g.LoadOf(ctx, []string{"b"}); err != nil || len(of.Jobs) != 1 {
		t.Errorf("load of b: %v, %v", of.Jobs, err)
	}
	if newest, err := g.Newest(ctx, jobs.Newest{Jobs: []string{"a", "b"}}); err != nil || len(newest) != 1 || newest["a"][0].Key != keys[1] {
		t.Errorf("newest %v, %v", newest, err)
	}
	counts, err := g.Counts(ctx, jobs.CountFilter{Since: noon, Until: noon.Add(time.Minute), Every: time.Minute})
	if err != nil || len(counts.List) != 1 || counts.List[0].Runs != 2 {
		t.Errorf("counts %v, %v", counts, err)
	}
	if terms, err := g.Terms(ctx, jobs.TermFilter{}); err != nil || len(terms) != 1 || terms[0].Token != me.Token {
		t.Errorf("terms %v, %v", terms, err)
	}
	if audit, err := g.Audit(ctx, jobs.AuditFilter{}); err != nil || len(audit) != 2 || audit[0].Key != keys[1] {
		t.Errorf("audit %v, %v", audit, err)
	}
	for _, key := range keys {
		if r, err := g.Run(ctx, key); err != nil || r.Key != key {
			t.Errorf("run %v: %v, %v", key, r, err)
		}
	}
	_, err = g.Run(ctx, jobs.Key{Job: "a", Tick: noon, Trigger: 3})
	wantError(t, err, `no such run: tick 2026-03-28T12:00:00Z of job "a" in group "g"`)
}

// Of what the attempts at a run have printed, people see that of the last one that has
// ended, also while the next one goes on.
func TestOutputOfAttempts(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), ledger(t, store.Declared{Name: "a", Schedule: "every 1h0m0s"})
	key := jobs.Key{Job: "a", Tick: noon}
	want := func(want string) {
		t.Helper()
		if got, err := jobs.NewGroup(s, "g").Output(ctx, key); err != nil || string(got) != want {
			t.Errorf("output %q, %v, want %q", got, err, want)
		}
	}
	move := func(from, to jobs.State, attempt int, printed string) {
		t.Helper()
		m := store.Move{Key: key, From: from, Attempt: attempt, Owner: me.Owner, Token: me.Token, To: to, Output: []byte(printed)}
		if done, err := s.Move(ctx, me, []store.Move{m}); err != nil || !done[0] {
			t.Fatal(done, err)
		}
	}
	if _, err := s.Claim(ctx, me, store.ClaimID{1}, []store.Claim{{Key: key, State: jobs.Running}}); err != nil {
		t.Fatal(err)
	}
	want("")
	move(jobs.Running, jobs.Waiting, 1, "first")
	want("first")
	move(jobs.Waiting, jobs.Running, 1, "")
	want("first")
	move(jobs.Running, jobs.Succeeded, 2, "second")
	want("second")
}

// What a ledger reads at once is bounded, and the bounds themselves are allowed.
func TestArchiveIsBounded(t *testing.T) {
	t.Parallel()
	most, more := make([]string, jobs.MaxOf), make([]string, jobs.MaxOf+1)
	day := func(every time.Duration) jobs.CountFilter {
		return jobs.CountFilter{Since: noon, Until: noon.Add(24 * time.Hour), Every: every}
	}
	of := func(names []string) jobs.CountFilter {
		f := day(time.Hour)
		f.Jobs = names
		return f
	}
	for _, test := range []struct {
		err  error
		want string
	}{
		{jobs.CheckNames(most), ""},
		{jobs.CheckNames(more), "501 jobs: at most 500"},
		{jobs.Newest{Jobs: most}.Check(), ""},
		{jobs.Newest{Jobs: more}.Check(), "501 jobs: at most 500"},
		{of(most).Check(), ""},
		{of(more).Check(), "501 jobs: at most 500"},
		{jobs.CountFilter{Since: noon, Until: noon.Add(1), Every: time.Millisecond}.Check(), ""},
		{jobs.CountFilter{Since: noon, Until: noon.Add(1), Every: time.Millisecond - 1000}.Check(), "every 999µs: must be at least 1ms"},
		{day(time.Hour + 1).Check(), "whole microseconds"},
		{day(0).Check(), "every 0s: must be at least 1ms"},
		{jobs.CountFilter{Since: noon, Until: noon, Every: time.Hour}.Check(), "the end must be later"},
		{jobs.CountFilter{Until: noon, Every: time.Hour}.Check(), "at most 10000"},
		{jobs.CountFilter{Since: noon, Until: noon.Add(10_000 * time.Second), Every: time.Second}.Check(), ""},
		{jobs.CountFilter{Since: noon, Until: noon.Add(10_000*time.Second + 1), Every: time.Second}.Check(), "at most 10000"},
	} {
		wantError(t, test.err, test.want)
	}
}
