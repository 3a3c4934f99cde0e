package election_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/lease"
)

// Two elections that share a keeper are one owner, with one heartbeat.
func TestSharedKeeper(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLink(memdb.New())
		keeper, err := keeper.New(l, keeper.Config{})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = keeper.Run(t.Context()) }()
		var all []*replica
		for _, group := range []string{"a", "b", "c"} {
			r := prepare(t, l.Leases)
			r.Election, err = election.New(l, group, election.WithKeeper(keeper), election.WithTiming(lease.Timing{TTL: time.Hour}))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r.start())
			<-r.terms
			if r.Owner() != keeper.Owner() || r.Timing() != keeper.Timing() {
				t.Errorf("owner %q, timing %+v", r.Owner(), r.Timing())
			}
		}
		renewals := l.Count("Renew")
		time.Sleep(time.Hour)
		if n := l.Count("Renew") - renewals; n > 730 {
			t.Errorf("%d renewals an hour", n)
		}
		all[0].stop()
		<-all[0].done
		time.Sleep(time.Hour)
		for _, r := range all[1:] {
			if len(r.ends) != 0 {
				t.Error("the stop of one ended another")
			}
			if err := r.Check(); err != nil {
				t.Errorf("Check: %v", err)
			}
		}
	})
}

// Two campaigns for one group on one keeper: the second is refused, until the
// first one is over.
func TestTwoCampaignsOnOneKeeper(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		k, err := keeper.New(store, keeper.Config{})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = k.Run(t.Context()) }()
		campaign := func() *election.Election {
			e, err := election.New(store, "g", election.WithKeeper(k))
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		lead := func(ctx context.Context, _ election.Term) error {
			<-ctx.Done()
			return nil
		}
		first, second := campaign(), campaign()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- first.Run(ctx, lead) }()
		synctest.Wait()
		if err := second.Run(t.Context(), lead); !errors.Is(err, keeper.ErrContended) {
			t.Errorf("the second campaign: %v, want ErrContended", err)
		}
		if first.State().Role != election.Leading {
			t.Errorf("the first is %v", first.State().Role)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		ctx, stop = context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := second.Run(ctx, lead); err != nil {
			t.Errorf("the second campaign, after the first: %v", err)
		}
	})
}

// A store call that blocks and ignores its context, in the heartbeats: the term
// ends in time, others lead, and Check says so for as long as it lasts.
func TestWatchdogOfHeartbeats(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		first, second, _ := pair(t, store)
		stuck := make(chan struct{})
		defer close(stuck)
		began := time.Now()
		first.Once("Renew", faulty.Fault{Stuck: stuck})
		causedBy(t, <-first.ends, election.ErrLost)
		within(t, "the end", began, ttl)
		<-second.terms
		within(t, "the takeover", began, ttl+time.Second)
		for range 10 {
			time.Sleep(time.Minute)
			if err := first.Check(); err == nil || !strings.Contains(err.Error(), "heartbeats") {
				t.Errorf("Check: %v", err)
			}
		}
		second.stop()
		time.Sleep(time.Hour)
		if len(first.terms) > 0 {
			t.Error("took a lease that it cannot keep")
		}
	})
}

// ... and in the campaign.
func TestWatchdogOfTheCampaign(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		_, second, _ := pair(t, store)
		if err := second.Check(); err != nil {
			t.Errorf("Check: %v", err)
		}
		stuck := make(chan struct{})
		second.Once("Read", faulty.Fault{Stuck: stuck})
		time.Sleep(ttl + 2*ttl)
		if err := second.Check(); err == nil || !strings.Contains(err.Error(), "stuck") {
			t.Errorf("Check: %v", err)
		}
		close(stuck)
		time.Sleep(time.Second)
		if err := second.Check(); err != nil {
			t.Errorf("Check: %v", err)
		}
	})
}

// A keeper whose Run was never called.
func TestKeeperThatDoesNotRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		keeper, err := keeper.New(store, keeper.Config{})
		if err != nil {
			t.Fatal(err)
		}
		r := prepare(t, store)
		if r.Election, err = election.New(store, "g", election.WithKeeper(keeper)); err != nil {
			t.Fatal(err)
		}
		r.start()
		time.Sleep(time.Minute)
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), "heartbeats") {
			t.Errorf("Check: %v", err)
		}
		terms := len(r.terms)
		time.Sleep(time.Hour)
		if len(r.terms) != terms {
			t.Error("goes on to take leases that it cannot keep")
		}
	})
}

// Check is silent in all that is normal: long terms that end, slow stops, terms
// that end by themselves.
func TestWatchdogIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var r *replica
		check := func(s election.State) {
			if err := r.Check(); err != nil {
				t.Errorf("Check in %+v: %v", s, err)
			}
		}
		r = prepare(t, memdb.New(), election.WithObserver(check))
		r.Always(func(op string) faulty.Fault {
			if op == "Release" {
				return faulty.Fault{Reply: time.Second}
			}
			return faulty.Fault{}
		})
		r.start()
		<-r.terms
		time.Sleep(time.Hour)
		if err := r.Resign(t.Context()); err != nil {
			t.Error(err)
		}
		<-r.terms
		time.Sleep(time.Hour)
	})
}
