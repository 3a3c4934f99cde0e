package jobs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

var me = store.Holder{Group: "g", Owner: "me", Token: 7}

// ledger is one in whose group g the holder me has declared the jobs.
func ledger(t *testing.T, declared ...store.Declared) *memdb.Store {
	t.Helper()
	s := memdb.New()
	s.Update("g", func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) {
		return nil, &store.Fence{Owner: me.Owner, Token: me.Token}
	})
	if err := s.Declare(t.Context(), me, declared); err != nil {
		t.Fatal(err)
	}
	return s
}

// led is a group whose ledger knows the jobs.
func led(t *testing.T, names ...string) jobs.Group {
	t.Helper()
	var declared []store.Declared
	for _, name := range names {
		declared = append(declared, store.Declared{Name: name, Schedule: "manual"})
	}
	return jobs.NewGroup(ledger(t, declared...), "g")
}

// An unknown job is named in the error, with what there is instead.
func TestGroupErrors(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var many []string
	for i := range 12 {
		many = append(many, fmt.Sprintf("job-%02d", i))
	}
	tests := []struct {
		group jobs.Group
		job   string
		want  string
	}{
		{led(t), "a", `jobs: no such job: "a" in group "g": no job of the group has ever been led`},
		{led(t, "report", "mail"), "rapport", `jobs: no such job: "rapport" in group "g": did you mean report?`},
		{led(t, "report", "mail"), "backup-all", `jobs: no such job: "backup-all" in group "g": there are mail, report`},
		{led(t, many[:10]...), "backup", `jobs: no such job: "backup" in group "g": there are job-00, job-01, job-02, job-03, job-04, job-05, job-06, job-07, job-08, job-09`},
		{led(t, many...), "backup", `jobs: no such job: "backup" in group "g": there are job-00, job-01, job-02, job-03, job-04, job-05, job-06, job-07, job-08, job-09, ...`},
	}
	for _, test := range tests {
		_, triggerErr := test.group.Trigger(ctx, test.job)
		_, nextErr := test.group.Next(ctx, test.job, 1)
		for _, err := range []error{
			triggerErr, nextErr, test.group.Pause(ctx, test.job), test.group.Resume(ctx, test.job),
			test.group.Cancel(ctx, jobs.Key{Job: test.job, Tick: noon}),
		} {
			if !errors.Is(err, jobs.ErrNoJob) || err.Error() != test.want {
				t.Errorf("error %v, want %s", err, test.want)
			}
		}
	}
}

func TestGroup(t *testing.T) {
	t.Parallel()
	ctx, g := t.Context(), led(t, "a")
	if err := errors.Join(g.Pause(ctx, "a"), g.Pause(ctx, "")); err != nil {
		t.Fatal(err)
	}
	if s, err := g.Load(ctx); err != nil || !s.Paused || !s.Jobs["a"].Paused {
		t.Errorf("%+v, %v", s, err)
	}
	if err := errors.Join(g.Resume(ctx, "a"), g.ResumeSkipping(ctx, "")); err != nil {
		t.Fatal(err)
	}
	if s, err := g.Load(ctx); err != nil || s.Paused || s.Jobs["a"].Paused {
		t.Errorf("%+v, %v", s, err)
	}
	key, err := g.TriggerWith(ctx, "a", map[string]int{"days": 3})
	if err != nil {
		t.Fatal(err)
	}
	if args, err := g.Args(ctx, key); err != nil || string(args) != `{"days":3}` {
		t.Errorf("arguments %s, %v", args, err)
	}
	for _, bad := range []any{make(chan int), json.RawMessage("{")} {
		if _, err := g.TriggerWith(ctx, "a", bad); err == nil {
			t.Errorf("triggered with %v", bad)
		}
	}
	if err := g.Cancel(ctx, key); err != nil {
		t.Error(err)
	}
	if runs, err := g.Runs(ctx, jobs.Filter{Job: "a"}); err != nil || len(runs) != 1 || runs[0].Key != key || !runs[0].CancelAsked {
		t.Errorf("%+v, %v", runs, err)
	}
	key.Tick = key.Tick.Add(time.Hour)
	if err := g.Cancel(ctx, key); !errors.Is(err, jobs.ErrNoRun) || errors.Is(err, jobs.ErrNoJob) {
		t.Errorf("error %v", err)
	}
}
