package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
)

// spread runs a job of a spread group once for each trigger, until the test ends.
func (s *scene) spread(do func(context.Context, jobs.Run) error) (trigger func() jobs.Key, state func(jobs.Key) jobs.State) {
	s.t.Helper()
	db := s.store.(store.Jobs)
	one, err := scheduler.New(db, "spread", scheduler.WithSpread())
	if err != nil {
		s.t.Fatal(err)
	}
	if err := one.Add(jobs.Job{Name: "charge", Schedule: jobs.Manual(), Do: do}); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- one.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		<-done
	})
	all := jobs.NewGroup(s.store.(jobs.Control), "spread")
	trigger = func() jobs.Key {
		s.t.Helper()
		for soon := soon(s.t); ; {
			key, err := all.Trigger(soon, "charge")
			if err == nil {
				return key
			}
			if !errors.Is(err, jobs.ErrNoJob) {
				s.t.Fatal(err)
			}
			<-time.After(10 * time.Millisecond) // the first leader has not declared it yet
		}
	}
	state = func(key jobs.Key) jobs.State {
		s.t.Helper()
		snapshot, err := db.Load(soon(s.t), "spread")
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range snapshot.Open {
			if r.Key == key {
				return r.State
			}
		}
		return jobs.Succeeded
	}
	return trigger, state
}

// The fence of a session outlasts an attempt: what an attempt that is over still sends is refused all the same.
func TestAttemptIsOver(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, s *scene, w way) {
		works, n := make(chan context.Context), 0
		trigger, _ := s.spread(func(ctx context.Context, run jobs.Run) error {
			n++
			err := w.run(ctx, s, func(tx *sql.Tx) error { return s.insert(tx, n) })
			if err != nil {
				t.Errorf("run %d: %v", n, err)
			}
			works <- context.WithoutCancel(ctx)
			return err
		})
		trigger()
		first := <-works
		s.wantStored(1)
		trigger()
		<-works // the first has ended
		err := w.run(first, s, func(tx *sql.Tx) error { return s.insert(tx, 99) })
		if !errors.Is(err, fence.ErrFenced) || !strings.Contains(err.Error(), `job "charge" of group "spread"`) || !strings.Contains(err.Error(), "the attempt is over") {
			t.Errorf("a transaction of an attempt that is over: %v", err)
		}
		s.wantStored(2)
	})
}

// An attempt ends in the ledger after its last fenced transaction.
func TestEndWaitsForTransaction(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		works, goOn := make(chan context.Context), make(chan bool)
		trigger, state := s.spread(func(ctx context.Context, run jobs.Run) error {
			works <- context.WithoutCancel(ctx)
			<-goOn
			return nil
		})
		key := trigger()
		ctx := <-works
		tx, err := s.db.BeginTx(soon(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if err := s.insert(tx, 1); err != nil {
			t.Fatal(err)
		}
		for _, h := range lease.Holds(ctx) {
			if held, err := s.store.CheckHold(soon(t), tx, h); !held || err != nil {
				t.Fatalf("%v: %t, %v", h, held, err)
			}
		}
		close(goOn)
		<-time.After(300 * time.Millisecond)
		if is := state(key); is != jobs.Running {
			t.Errorf("the run is %v while its transaction is open", is)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		for soon := soon(t); state(key) == jobs.Running; <-time.After(10 * time.Millisecond) {
			if soon.Err() != nil {
				t.Fatal("the run does not end")
			}
		}
	})
}
