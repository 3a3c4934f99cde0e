package election_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/memdb"
)

func TestResign(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		first := prepare(t, store)
		first.lead = func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Second); return nil }
		first.start()
		<-first.terms
		second := start(t, store)
		time.Sleep(time.Minute)
		if err := second.Resign(t.Context()); !errors.Is(err, election.ErrNotLeading) {
			t.Errorf("Resign of a follower: %v", err)
		}
		if err := first.Resign(t.Context()); err != nil {
			t.Errorf("Resign: %v", err)
		}
		e := <-first.ends
		causedBy(t, e, election.ErrResigned)
		<-second.terms
		within(t, "the hand-over", e.at, soon)
		second.stop()
		<-second.done
		stopped := time.Now()
		<-first.terms // it stood back for the second
		within(t, "the return", stopped, soon)
		time.Sleep(time.Hour)
		if len(first.ends) != 0 {
			t.Error("an old request ended a new term")
		}
	})
}

// A replica that stands back follows the leader that came after it, and takes over when that one dies.
func TestStandingBackFollows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		first := start(t, store)
		<-first.terms
		second := start(t, store)
		time.Sleep(time.Minute)
		if err := first.Resign(t.Context()); err != nil {
			t.Errorf("Resign: %v", err)
		}
		<-second.terms
		time.Sleep(time.Second)
		if s := first.State(); s.Role != election.Following || s.Owner != second.Owner() {
			t.Errorf("it follows nobody: %+v", s)
		}
		if err := first.Health().Leader; err != nil {
			t.Errorf("its health says %v", err)
		}
		killed := time.Now()
		second.Cut()
		<-first.terms
		within(t, "the takeover", killed, ttl+time.Second)
	})
}

// Alone, it stands back for a TTL all the same.
func TestResignStandsBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := start(t, memdb.New())
		<-r.terms
		if err := r.Resign(t.Context()); err != nil {
			t.Errorf("Resign: %v", err)
		}
		resigned := time.Now()
		if back := (<-r.terms).began.Sub(resigned); back < ttl || back > ttl+time.Second {
			t.Errorf("back after %v", back)
		}
	})
}

// A caller that waits no longer does not call the resignation off, and one of
// two requests does not outlive the term.
func TestResignGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := prepare(t, memdb.New())
		r.lead = func(ctx context.Context) error { <-ctx.Done(); time.Sleep(2 * time.Second); return nil }
		r.start()
		<-r.terms
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Resign(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Resign: %v", err)
		}
		if err := r.Resign(t.Context()); err != nil { // while it drains
			t.Errorf("Resign: %v", err)
		}
		causedBy(t, <-r.ends, election.ErrResigned)
		<-r.terms
		time.Sleep(time.Hour)
		if len(r.ends) != 0 {
			t.Error("the second request ended the next term")
		}
	})
}

func TestAskResign(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		if _, err := election.AskResign(t.Context(), store, "g"); !errors.Is(err, election.ErrNotLeading) {
			t.Errorf("AskResign without a leader: %v", err)
		}
		first, second, a := pair(t, store)
		asked := time.Now()
		l, err := election.AskResign(t.Context(), store, "g")
		if err != nil || l.Token != a.Token() || l.Owner != first.Owner() {
			t.Errorf("asked %+v, %v", l, err)
		}
		if l, _ := election.Leader(t.Context(), store, "g"); !l.ResignAsked || !l.Held() {
			t.Errorf("leader %+v", l)
		}
		causedBy(t, <-first.ends, election.ErrResigned)
		<-second.terms
		within(t, "the hand-over", asked, 5*time.Second+soon)
		time.Sleep(time.Hour)
		if len(second.ends) != 0 {
			t.Error("the request ended the next term too")
		}
		second.stop()
		first.stop()
		<-first.done
		<-second.done
		if _, err := election.AskResign(t.Context(), store, "g"); !errors.Is(err, election.ErrNotLeading) {
			t.Errorf("AskResign of a past leader: %v", err)
		}
		third := start(t, store)
		<-third.terms
		third.Cut() // it is as good as dead
		time.Sleep(time.Minute)
		if _, err := election.AskResign(t.Context(), store, "g"); !errors.Is(err, election.ErrNotLeading) {
			t.Errorf("AskResign of a leader whose lease has expired: %v", err)
		}
		if l, _ := election.Leader(t.Context(), store, "g"); l.ResignAsked {
			t.Errorf("a term that is over was asked: %+v", l)
		}
		third.stop()
		<-third.done
		cut := newLink(store)
		cut.Cut()
		if _, err := election.AskResign(t.Context(), cut, "g"); !errors.Is(err, faulty.ErrLost) {
			t.Errorf("AskResign without a database: %v", err)
		}
	})
}
