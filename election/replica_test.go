package election_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/store"
)

// ttl is that of the default timing, and soon what a hand-over through the signal
// may take.
const (
	ttl  = 15 * time.Second
	soon = 50 * time.Millisecond
)

// replica is a campaign on a link of its own, whose terms are seen from outside.
type replica struct {
	*election.Election
	*link
	t     *testing.T
	terms chan term
	ends  chan ended
	done  chan error
	stop  context.CancelFunc
	lead  func(ctx context.Context) error // what a term does; until its context ends, by default
}

type term struct {
	election.Term
	began time.Time
}

type ended struct {
	token uint64
	cause error
	at    time.Time // when the leading function returned
}

// bubble runs a test in parallel with others, and in no time.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// prepare makes a replica that does not run yet. With the signal where the store
// has one.
func prepare(t *testing.T, leases store.Leases, options ...election.Option) *replica {
	t.Helper()
	r := &replica{t: t, link: newLink(leases), terms: make(chan term, 1000), ends: make(chan ended, 1000), done: make(chan error, 9)}
	var own store.Leases = r.link
	if ringer, ok := leases.(store.HandoverSignals); ok {
		own = ringing{r.link, faulty.Signals{To: ringer, Send: r.Line.Send}}
	}
	e, err := election.New(own, "g", options...)
	if err != nil {
		t.Fatal(err)
	}
	r.Election = e
	r.lead = func(ctx context.Context) error { <-ctx.Done(); return nil }
	return r
}

func (r *replica) start() *replica {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.stop = cancel
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		r.done <- r.run(ctx)
	}()
	r.t.Cleanup(func() { // time goes on until it has stopped
		cancel()
		<-returned
	})
	return r
}

func (r *replica) run(ctx context.Context) error {
	return r.Run(ctx, func(ctx context.Context, t election.Term) error {
		r.terms <- term{t, time.Now()}
		err := r.lead(ctx)
		r.ends <- ended{t.Token(), context.Cause(ctx), time.Now()}
		return err
	})
}

func start(t *testing.T, leases store.Leases, options ...election.Option) *replica {
	t.Helper()
	return prepare(t, leases, options...).start()
}

// pair starts a leader and a follower.
func pair(t *testing.T, leases store.Leases) (leader, follower *replica, first term) {
	t.Helper()
	leader = start(t, leases)
	first = <-leader.terms
	follower = start(t, leases)
	time.Sleep(time.Minute)
	return leader, follower, first
}

// noSignal hides the signal of a store.
type noSignal struct{ store.Leases }

// within checks that something came in time.
func within(t *testing.T, what string, since time.Time, most time.Duration) {
	t.Helper()
	if took := time.Since(since); took > most {
		t.Errorf("%s took %v, want %v at most", what, took, most)
	}
}

func causedBy(t *testing.T, e ended, want error) {
	t.Helper()
	if !errors.Is(e.cause, want) {
		t.Errorf("cause %v, want %v", e.cause, want)
	}
}

// rowOf reads the lease past all links.
func rowOf(t *testing.T, store *memdb.Store) store.Lease {
	t.Helper()
	readings, err := store.Read(context.WithoutCancel(t.Context()), "g")
	if err != nil || readings[0].Lease == nil {
		t.Fatalf("no row: %v", err)
	}
	return *readings[0].Lease
}

// link is a replica's way to its store.
type link = faulty.Store

// newLink is a link that also sends statements whose context has ended.
func newLink(leases store.Leases) *link {
	l := faulty.New(leases)
	l.Ended = true
	return l
}

// ringing is a link to a store that has signals.
type ringing struct {
	*link
	faulty.Signals
}
