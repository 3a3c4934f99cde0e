package storetest

import (
	"context"
	"io"
	"maps"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

var presenceCases = []leaseCase{
	{"presence/a term announced with the signal", func(e *leaseEnv) {
		s, next := e.signals()
		holder, other := e.presence(s), e.presence(next)
		defer e.close(holder, other)
		r := e.takeWithSignal(s, holder)
		e.present(other, r, false, "Present before Announce")
		e.announce(holder, r)
		e.present(other, r, true, "Present, asked by another replica")
		e.present(holder, r, true, "Present, asked by the leader")
		e.announce(holder, r)
		e.present(other, r, true, "Present after a second Announce")
		e.ok(other.Pass(e.ctx()), "Pass by another")
		e.present(other, r, true, "Present after another's Pass")
	}},

	{"presence/announced before Wait", func(e *leaseEnv) {
		s, next := e.signals()
		holder, other := e.presence(s), e.presence(next)
		defer e.close(other)
		r := e.take(s, group, alice)
		e.announce(holder, r)
		waiting := e.waitFor(holder)
		e.becomes(other, r, true, "Present once the signal is waited for")
		e.close(holder)
		<-waiting
	}},

	{"presence/announced, passed and waited for", func(e *leaseEnv) {
		s, next := e.exclusiveSignals()
		holder, other := e.presence(s), e.presence(next)
		defer e.close(holder, other)
		r := e.take(s, group, alice)
		e.announce(holder, r)
		e.ok(holder.Pass(e.ctx()), "Pass before Wait")
		e.given(e.waitFor(holder), "Wait")
		e.present(other, r, false, "Present after Announce, Pass and Wait")
	}},

	{"presence/announced while Wait waits", func(e *leaseEnv) {
		s, next := e.exclusiveSignals()
		holder, other := e.presence(s), e.presence(next)
		defer e.close(holder, other)
		e.takeWithSignal(next, other)
		found := e.waitFor(holder)
		e.stillWaits(found)
		r := e.row(s, group)
		e.announce(holder, r)
		e.ok(other.Pass(e.ctx()), "Pass")
		e.given(found, "Wait for a signal that was passed")
		e.present(other, r, true, "Present once the signal is had")
	}},

	{"presence/absent after Pass", func(e *leaseEnv) {
		s, next := e.signals()
		holder, other := e.presence(s), e.presence(next)
		defer e.close(holder, other)
		r := e.takeWithSignal(s, holder)
		for range 2 {
			e.announce(holder, r)
			e.present(other, r, true, "Present after Announce")
			e.ok(holder.Pass(e.ctx()), "Pass")
			e.present(other, r, false, "Present after Pass")
			r = e.takeWithSignal(s, holder)
		}
		e.present(other, r, false, "Present in the next term, which was not announced")
	}},

	{"presence/absent after Close", func(e *leaseEnv) {
		s, next := e.signals()
		holder, other := e.presence(s), e.presence(next)
		defer e.close(other)
		r := e.takeWithSignal(s, holder)
		e.announce(holder, r)
		e.ok(holder.Close(), "Close")
		e.becomes(other, r, false, "Present after Close")
	}},

	{"presence/absent after its store is closed", func(e *leaseEnv) {
		s, next := e.signals()
		store, ok := s.(io.Closer)
		if !ok {
			e.Skip("left out: the store has no Close")
		}
		holder, other := e.presence(s), e.presence(next)
		defer e.close(other)
		r := e.takeWithSignal(s, holder)
		e.announce(holder, r)
		e.ok(store.Close(), "Close of the store")
		e.becomes(other, r, false, "Present after the store was closed")
	}},

	{"presence/absent after a lost connection, which wakes the next", func(e *leaseEnv) {
		if e.h.LoseSignal == nil {
			e.Skip("left out: Harness.LoseSignal is nil")
		}
		s, next := e.signals()
		holder, other := e.presence(s), e.presence(next)
		defer e.close(holder, other)
		r := e.takeWithSignal(s, holder)
		e.announce(holder, r)
		e.present(other, r, true, "Present after Announce")
		found := e.waitFor(other)
		e.stillWaits(found)
		e.h.LoseSignal(e.TB, group)
		e.given(found, "Wait for the signal of a leader whose connection is lost")
		e.becomes(other, r, false, "Present after the connection was lost")
	}},

	{"presence/announced again after a lost connection", func(e *leaseEnv) {
		if e.h.LoseSignal == nil {
			e.Skip("left out: Harness.LoseSignal is nil")
		}
		s, next := e.signals()
		holder, other := e.presence(s), e.presence(next)
		defer e.close(other)
		r := e.takeWithSignal(s, holder)
		e.announce(holder, r)
		e.h.LoseSignal(e.TB, group)
		e.becomes(other, r, false, "Present after the connection was lost")
		_ = holder.Announce(e.ctx(), r.Lease.Token, r.Server) // it may find out with this
		waiting := e.waitFor(holder)
		e.becomes(other, r, true, "Present once the signal is waited for again")
		e.close(holder)
		<-waiting
	}},

	{"presence/each term and group has its own", func(e *leaseEnv) {
		s, next := e.signals()
		holder, other, elsewhere := e.presence(s), e.presence(next), next.HandoverSignal(otherOne).(store.PresenceSignal)
		defer e.close(holder, other, elsewhere)
		r := e.takeWithSignal(s, holder)
		e.announce(holder, r)
		for _, token := range []uint64{r.Lease.Token - 1, r.Lease.Token + 1, r.Lease.Token + 1<<32, r.Lease.Token + 1<<63, 0} {
			another := r
			another.Lease = &store.Lease{Token: token}
			e.present(other, another, false, "Present of another term")
		}
		e.present(elsewhere, r, false, "Present of a term with that token in another group")
	}},

	{"presence/a term above 1<<63", func(e *leaseEnv) {
		s, next := e.signals()
		holder, other := e.presence(s), e.presence(next)
		defer e.close(holder, other)
		r := e.takeWithSignal(s, holder)
		high := r
		high.Lease = &store.Lease{Token: r.Lease.Token + 1<<63}
		e.announce(holder, high)
		e.present(other, high, true, "Present of a term above 1<<63")
		e.present(other, r, false, "Present of the term that is 1<<63 less")
	}},

	{"presence/only on the server of the lease", func(e *leaseEnv) {
		s, next := e.signals()
		holder, other := e.presence(s), e.presence(next)
		defer e.close(holder, other)
		r := e.takeWithSignal(s, holder)
		for _, server := range []string{"", r.Server + "x"} {
			_ = holder.Announce(e.ctx(), r.Lease.Token, server)
			e.present(other, r, false, "Present of a term that was acquired on another server")
		}
	}},

	{"presence/Present while Wait waits", func(e *leaseEnv) {
		s, next := e.signals()
		holder, other := e.presence(s), e.presence(next)
		defer e.close(holder)
		r := e.takeWithSignal(s, holder)
		e.announce(holder, r)
		found := e.waitFor(other)
		e.stillWaits(found)
		e.present(other, r, true, "Present while Wait waits")
		e.stillWaits(found)
		e.ok(holder.Pass(e.ctx()), "Pass")
		e.present(other, r, false, "Present after Pass")
		e.close(other)
		<-found
	}},

	{"presence/a second term replaces the first", func(e *leaseEnv) {
		s, next := e.signals()
		holder, other := e.presence(s), e.presence(next)
		defer e.close(holder, other)
		first := e.takeWithSignal(s, holder)
		e.announce(holder, first)
		e.ok(s.Release(e.ctx(), group, alice, first.Lease.Token), "Release")
		second := e.take(s, group, alice)
		e.announce(holder, second)
		e.present(other, second, true, "Present of the second term")
		e.present(other, first, false, "Present of the first term, after the second was announced")
		e.ok(holder.Pass(e.ctx()), "Pass")
		e.present(other, second, false, "Present of the second term, after Pass")
		e.present(other, first, false, "Present of the first term, after Pass")
	}},

	{"presence/a replica that could lead", func(e *leaseEnv) {
		s, next := e.signals()
		leader, follower := e.presence(s), e.presence(next)
		defer e.close(leader)
		seen, ok := s.(roster)
		if !ok {
			e.Skip("left out: the store is no store.Replicas")
		}
		for _, owner := range []string{alice, bob, carol} {
			e.ok(seen.Enlist(e.ctx(), group, jobs.Replica{Owner: owner, List: jobs.FirstList}), "Enlist")
		}
		// Of a replica that does not show itself, nothing is ever known.
		e.ok(seen.Enlist(e.ctx(), group, jobs.Replica{Owner: "dave", List: jobs.FirstList - 1}), "Enlist")
		e.seen(seen, map[string]jobs.Presence{alice: jobs.Absent, bob: jobs.Absent, carol: jobs.Absent}, "before anything is announced")
		r := e.takeWithSignal(s, leader)
		e.announce(leader, r)
		e.seen(seen, map[string]jobs.Presence{bob: jobs.Absent, carol: jobs.Absent}, "of a leader")
		e.ok(follower.Announce(e.ctx(), store.ReplicaToken(bob), ""), "Announce of a replica")
		ended := e.waitForError(e.ctx(), follower)
		e.seen(seen, map[string]jobs.Presence{bob: jobs.Present, carol: jobs.Absent}, "while a replica waits")
		e.ok(follower.Announce(e.ctx(), store.ReplicaToken(bob), ""), "a second Announce of a replica")
		e.seen(seen, map[string]jobs.Presence{bob: jobs.Present, carol: jobs.Absent}, "after a second Announce")
		e.present(leader, r, true, "Present of the term beside a replica")
		e.ok(follower.Close(), "Close")
		<-ended
		e.seen(seen, map[string]jobs.Presence{bob: jobs.Absent, carol: jobs.Absent}, "after Close")

		e.ok(s.Release(e.ctx(), group, alice, r.Lease.Token), "Release")
		e.ok(leader.Pass(e.ctx()), "Pass")
		e.seen(seen, map[string]jobs.Presence{alice: jobs.Absent, bob: jobs.Absent, carol: jobs.Absent}, "after the term")
		e.ok(leader.Announce(e.ctx(), store.ReplicaToken(alice), ""), "Announce after Pass")
		e.seen(seen, map[string]jobs.Presence{alice: jobs.Present, bob: jobs.Absent, carol: jobs.Absent}, "of a replica that has led")
	}},

	{"presence/a direct release ends it", func(e *leaseEnv) {
		s, next := e.exclusiveSignals()
		holder, other := e.presence(s), e.presence(next)
		defer e.close(holder, other)
		direct, ok := holder.(store.DirectHandover)
		if !ok {
			e.Skip("left out: the store has no direct hand-over")
		}
		e.direct(s)
		r := e.takeWithSignal(s, holder)
		e.announce(holder, r)
		e.ok(direct.Release(e.ctx(), alice, r.Lease.Token), "Release with the signal")
		e.present(other, r, false, "Present after Release with the signal")
	}},
}

// presence is the signal of the group, of a store that shows terms with it.
func (e *leaseEnv) presence(s signaller) store.PresenceSignal {
	e.Helper()
	p, ok := s.HandoverSignal(group).(store.PresenceSignal)
	if !ok {
		e.Skip("left out: the store's signals show no terms")
	}
	return p
}

// roster is what a store.Replicas has for this.
type roster interface {
	Enlist(ctx context.Context, group string, r jobs.Replica) error
	Roster(ctx context.Context, group string, known jobs.Roster) (jobs.Roster, error)
}

// seen waits until the replicas of the group have the presence, of a store that sees
// them. Those that are not named are not known to be there or not.
func (e *leaseEnv) seen(s roster, want map[string]jobs.Presence, what string) {
	e.Helper()
	for {
		got := map[string]jobs.Presence{}
		list, err := s.Roster(e.ctx(), group, jobs.Roster{})
		for _, r := range list.Replicas {
			if r.Presence != jobs.PresenceUnknown {
				got[r.Owner] = r.Presence
			}
		}
		if len(got) == 0 && err == nil {
			e.Skip("left out: the store does not see replicas")
		}
		if err == nil && maps.Equal(got, want) {
			return
		}
		if e.ctx().Err() != nil {
			e.Fatalf("%s: the replicas are %v (%v) for %v, want %v", what, got, err, e.h.Patience, want)
		}
		<-time.After(time.Millisecond)
	}
}

func (e *leaseEnv) announce(p store.PresenceSignal, r store.Reading) {
	e.Helper()
	e.ok(p.Announce(e.ctx(), r.Lease.Token, r.Server), "Announce")
}

// present says whether the term of a reading is present, on the server of the reading.
func (e *leaseEnv) present(p store.PresenceSignal, r store.Reading, want bool, what string) {
	e.Helper()
	there, server, err := p.Present(e.ctx(), r.Lease.Token)
	e.ok(err, what)
	e.equal(there, want, what)
	e.equal(server, r.Server, what+": the server")
}

// becomes is present, in a while.
func (e *leaseEnv) becomes(p store.PresenceSignal, r store.Reading, want bool, what string) {
	e.Helper()
	for {
		there, _, err := p.Present(e.ctx(), r.Lease.Token)
		if err == nil && there == want {
			break
		}
		if e.ctx().Err() != nil {
			e.Fatalf("%s: %v (%v) for %v, want %v", what, there, err, e.h.Patience, want)
		}
		<-time.After(time.Millisecond)
	}
	e.present(p, r, want, what)
}
