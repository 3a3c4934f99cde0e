package election_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// simReplica is one process of a simulation, from its start to its end.
type simReplica struct {
	*election.Election
	w       *world
	link    *link
	read    atomic.Int64 // when the last reading that was answered was sent, in the world's time
	early   chan struct{}
	stopped atomic.Bool
	done    chan struct{}
	stop    context.CancelFunc

	killed chan struct{}
	kill   func()

	mu   sync.Mutex
	rng  *rand.Rand
	term *simTerm
}

// Read notes that it was answered.
func (r *simReplica) Read(ctx context.Context, groups ...string) ([]store.Reading, error) {
	sent := time.Since(r.w.began)
	readings, err := r.link.Read(ctx, groups...)
	if err == nil {
		r.read.Store(int64(sent))
	}
	return readings, err
}

// simStore is what a simulated replica sees of the database.
type simStore struct {
	*link
	replica *simReplica
}

func (s simStore) Read(ctx context.Context, groups ...string) ([]store.Reading, error) {
	return s.replica.Read(ctx, groups...)
}

type simRinger struct {
	simStore
	faulty.Signals
}

func startSim(w *world, ttl time.Duration, signal bool, rng *rand.Rand) *simReplica {
	r := &simReplica{
		w: w, link: newLink(w), rng: rng,
		early: make(chan struct{}, 1), done: make(chan struct{}), killed: make(chan struct{}),
	}
	var leases store.Leases = simStore{r.link, r}
	if signal {
		leases = simRinger{simStore{r.link, r}, faulty.Signals{To: w, Send: r.link.Line.Send}}
	}
	e, err := election.New(leases, "g", election.WithTiming(lease.Timing{TTL: ttl}))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Election = e
	ctx, cancel := context.WithCancel(w.t.Context())
	r.stop = cancel
	r.kill = sync.OnceFunc(func() {
		r.link.Cut()
		r.mu.Lock()
		if r.term != nil {
			w.mu.Lock()
			r.term.gone = true
			w.mu.Unlock()
		}
		r.mu.Unlock()
		close(r.killed)
		cancel()
	})
	go func() {
		defer close(r.done)
		if err := r.Run(ctx, r.lead); err != nil && !errors.Is(err, election.ErrStillLeading) {
			w.failf("Run: %v", err)
		}
	}()
	return r
}

func (r *simReplica) draw(n time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(r.rng.Int64N(int64(n)))
}

// lead is the work of a term: it mostly stops within the grace, sometimes later.
func (r *simReplica) lead(ctx context.Context, t election.Term) error {
	term := r.w.leads(ctx, t, r.Timing().Grace)
	r.mu.Lock()
	r.term = term
	r.mu.Unlock()
	defer r.w.returns(term)
	select { // a request to return that an earlier term did not hear
	case <-r.early:
	default:
	}
	select {
	case <-ctx.Done():
		r.w.overFor(term, context.Cause(ctx))
	case <-r.killed:
		return nil
	case <-r.early:
		r.w.mu.Lock()
		term.over = time.Now()
		r.w.mu.Unlock()
		r.w.count("returned early")
		return errors.New("enough")
	}
	stop := r.draw(r.Timing().Grace)
	switch r.draw(100) {
	case 0: // longer than the lease is kept
		stop = r.Timing().TTL + r.draw(30*time.Second)
		r.w.count("stubborn")
		r.w.stubborn.Store(int64(time.Since(r.w.began)))
	case 1, 2, 3:
		stop = r.draw(r.Timing().TTL)
		r.w.count("slow to stop")
	}
	select {
	case <-time.After(stop):
	case <-r.killed:
	}
	return nil
}

// isRunning reports whether Run has not returned.
func (r *simReplica) isRunning() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}
