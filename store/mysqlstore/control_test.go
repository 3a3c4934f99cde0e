package mysqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

func TestControl(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		h := holder(t, s, "billing", "me")
		openJobs(t, s, h, "a", "b")
		openJobs(t, s, holder(t, s, "other", "me"), "a", "only-there")
		elsewhere, last := changes(t, s, "other"), changes(t, s, "billing")
		seen := map[uint64]bool{last: true}
		changed := func(what string, err error) {
			t.Helper()
			now := changes(t, s, "billing")
			if err != nil || seen[now] || load(t, s, "billing").Changes != now {
				t.Errorf("%s: changes %d after %d: %v", what, now, last, err)
			}
			seen[now], last = true, now
		}
		same := func(what string) {
			t.Helper()
			if now := changes(t, s, "billing"); now != last {
				t.Errorf("%s: changes %d after %d", what, now, last)
			}
		}
		paused := func() string {
			now := load(t, s, "billing")
			return fmt.Sprint(now.Paused, now.Jobs["a"].Paused, now.Jobs["b"].Paused, load(t, s, "other").Jobs["a"].Paused)
		}
		for _, step := range []struct {
			do    func(context.Context, string, string) error
			job   string
			again bool // it was so before, which is no change
			want  string
		}{
			{s.Pause, "a", false, "false true false false"}, {s.Pause, "a", true, "false true false false"}, {s.Pause, "", false, "true true false false"},
			{s.Resume, "a", false, "true false false false"}, {s.Resume, "", false, "false false false false"}, {s.Resume, "b", true, "false false false false"},
		} {
			err := step.do(soon(t), "billing", step.job)
			if !step.again {
				changed("pause or resume "+step.job, err)
			} else if same("pause or resume " + step.job); err != nil {
				t.Error(err)
			}
			if got := paused(); got != step.want {
				t.Errorf("paused: %s, want %s", got, step.want)
			}
		}
		for name, do := range map[string]func(job string) error{
			"pause":   func(job string) error { return s.Pause(soon(t), "billing", job) },
			"resume":  func(job string) error { return s.Resume(soon(t), "billing", job) },
			"trigger": func(job string) error { _, err := s.Trigger(soon(t), "billing", job, jobs.Request{}); return err },
		} {
			for _, job := range []string{"c", "A", "only-there", "a ", "it's"} {
				if err := do(job); !errors.Is(err, jobs.ErrNoJob) || !strings.Contains(err.Error(), job) {
					t.Errorf("%s %q: %v", name, job, err)
				}
			}
		}
		if _, err := s.Trigger(soon(t), "billing", "", jobs.Request{}); !errors.Is(err, jobs.ErrNoJob) {
			t.Errorf("trigger of the group: %v", err)
		}
		if err := s.Pause(soon(t), "new group", ""); err == nil {
			t.Error("a group of an impossible name was paused")
		}
		if err := s.Pause(soon(t), "new-group", ""); err != nil || !load(t, s, "new-group").Paused {
			t.Errorf("pause of a new group: %v", err)
		}
		last = changes(t, s, "billing")

		// Manual runs.
		var keys []jobs.Key
		for range 3 {
			k, err := s.Trigger(soon(t), "billing", "a", jobs.Request{})
			changed("trigger", err)
			keys = append(keys, k)
			r := run(t, s, "billing", k)
			if k.Job != "a" || k.Trigger == 0 || r.State != jobs.Waiting || r.Owner != "" || r.Token != 0 || r.Attempt != 0 ||
				r.Due != k.Tick || time.Since(k.Tick).Abs() > time.Minute || r.Claimed != k.Tick {
				t.Errorf("manual run %+v", r)
			}
		}
		if now := load(t, s, "billing"); !now.Jobs["a"].Cursor.IsZero() || len(now.Open) != 3 {
			t.Errorf("after manual runs: %+v", now)
		}
		move(t, s, h, store.Move{Key: keys[0], From: jobs.Waiting, To: jobs.Running})
		if r := run(t, s, "billing", keys[0]); r.Owner != "me" || r.Attempt != 1 || r.Started.IsZero() {
			t.Errorf("manual run started: %+v", r)
		}
		last = changes(t, s, "billing")

		// Cancel.
		rs := claim(t, s, h, running("a", 1, 2)...)
		claim(t, s, h, store.Claim{Key: key("b", 1), State: jobs.Waiting})
		same("claim")
		move(t, s, h, store.Move{Key: keys[0], From: jobs.Running, Attempt: 1, Owner: h.Owner, Token: h.Token, To: jobs.Succeeded})
		same("the end of a manual run")
		if n, err := s.Prune(soon(t), "billing", "a", jobs.History{Keep: 1}, 0); err != nil || n != 1 {
			t.Errorf("%d pruned: %v", n, err)
		}
		same("prune")
		changed("cancel", s.Cancel(soon(t), "billing", rs[0].Key))
		if err := s.Cancel(soon(t), "billing", rs[0].Key); err != nil {
			t.Errorf("cancel again: %v", err)
		}
		same("cancel again")
		changed("cancel a manual run", s.Cancel(soon(t), "billing", keys[1]))
		if a, b, c := run(t, s, "billing", rs[0].Key), run(t, s, "billing", rs[1].Key), run(t, s, "billing", keys[1]); !a.CancelAsked || b.CancelAsked || !c.CancelAsked {
			t.Errorf("asked: %v, %v, %v", a, b, c)
		}
		rs[0].CancelAsked = true
		move(t, s, h, to(rs[0], jobs.Cancelled))
		same("move")
		for name, k := range map[string]jobs.Key{
			"over": rs[0].Key, "no tick": key("a", 9), "no job": key("c", 2), "no manual run": {Job: "a", Tick: tick(2), Trigger: 1}, "impossible": {Job: "a b", Tick: tick(2)},
		} {
			if err := s.Cancel(soon(t), "billing", k); !errors.Is(err, jobs.ErrNoRun) {
				t.Errorf("cancel %s: %v", name, err)
			}
		}
		if err := s.Cancel(soon(t), "other", rs[1].Key); !errors.Is(err, jobs.ErrNoRun) {
			t.Errorf("cancel in another group: %v", err)
		}
		same("what is refused")
		if err := s.Declare(soon(t), h, []store.Declared{{Name: "c", Schedule: "x"}}); err != nil {
			t.Error(err)
		}
		same("declare")
		if n := count(t, db.Open(t), "SELECT COUNT(*) FROM cronlease_job WHERE name <> '' AND changes > 0"); n > 0 {
			t.Errorf("%d jobs count the changes of their group", n)
		}
		if now := changes(t, s, "other"); now != elsewhere {
			t.Errorf("the other group's changes: %d after %d", now, elsewhere)
		}
	})
}

// Of several who pause a group at once that has no row yet, one does so, and the others find it paused.
func TestFirstPauseOfAGroup(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		for range 10 {
			group := uniqueName("group")
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if err := s.Pause(soon(t), group, ""); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			entries, err := s.Audit(soon(t), group, jobs.AuditFilter{})
			results := map[jobs.Result]int{}
			for _, e := range entries {
				results[e.Result]++
			}
			if now := load(t, s, group); err != nil || results[jobs.Done] != 1 || results[jobs.Unchanged] != 3 || now.Changes != 1 || len(now.Pauses[""]) != 1 {
				t.Errorf("%v, and %d changes: %v", results, now.Changes, err)
			}
		}
	})
}
