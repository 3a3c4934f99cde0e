package election_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/store"
)

// world is the database of a simulation. It sees each statement that takes
// effect, whether or not its answer arrived, and each term from its beginning
// to its end, and checks the guarantees at each of them.
type world struct {
	*memdb.Store
	t     *testing.T
	began time.Time

	// change keeps statements out while the rows are changed in several steps.
	change sync.RWMutex

	tracing sync.Mutex
	trace   []event // the last that happened

	mu       sync.Mutex
	taken    map[uint64]string // the owner of each token
	newest   uint64
	takenAt  time.Duration // when, since began
	stubborn atomic.Int64  // when work last began that outlasts its lease, likewise
	released map[uint64]bool
	terms    map[uint64]*simTerm
	lastEnd  time.Time // of a leading function
	wholeFor func() time.Duration
	counts   map[string]int
}

// simTerm is one call of a leading function.
type simTerm struct {
	election.Term
	grace    time.Duration
	over     time.Time // when its context ended
	returned bool
	gone     bool // its process was killed
	ctx      context.Context
}

func newWorld(t *testing.T) *world {
	return &world{
		Store: memdb.New(), t: t, began: time.Now(), taken: map[uint64]string{}, released: map[uint64]bool{},
		terms: map[uint64]*simTerm{}, counts: map[string]int{},
	}
}

// event is something that happened.
type event struct {
	at     time.Duration
	format string
	args   []any
}

// note remembers what happened.
func (w *world) note(format string, args ...any) {
	w.tracing.Lock()
	defer w.tracing.Unlock()
	if w.trace = append(w.trace, event{time.Since(w.began), format, args}); len(w.trace) > 200 {
		w.trace = slices.Delete(w.trace, 0, 100)
	}
}

// failf fails the simulation, the first time with what happened before.
func (w *world) failf(format string, args ...any) {
	w.t.Helper()
	w.tracing.Lock()
	defer w.tracing.Unlock()
	var before strings.Builder
	for _, e := range w.trace {
		fmt.Fprintf(&before, "%12.3f ", e.at.Seconds())
		fmt.Fprintf(&before, e.format+"\n", e.args...)
	}
	w.trace = nil
	w.t.Errorf("%s%12.3f %s", before.String(), time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
}

// by is the end of an owner's name, which is the part that differs.
func by(owner string) string { return owner[max(0, len(owner)-4):] }

// count counts what happened.
func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// Acquire checks the token, and that the previous holder has stopped: its work,
// if it released the lease, and otherwise its context, a grace ago.
func (w *world) Acquire(ctx context.Context, a store.Acquire) (uint64, error) {
	return w.acquire(ctx, a, w.Store.Acquire)
}

func (w *world) acquire(ctx context.Context, a store.Acquire, acquire func(context.Context, store.Acquire) (uint64, error)) (uint64, error) {
	w.change.RLock()
	defer w.change.RUnlock()
	token, err := acquire(ctx, a)
	if err != nil {
		return token, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts["acquired"]++
	w.note("%s takes %d, heartbeat %d, from %s %d", by(a.Owner), token, a.Heartbeat, by(a.Read.Lease.Owner), a.Read.Lease.Token)
	if owner, ok := w.taken[token]; ok || token <= w.newest {
		w.failf("token %d of %s after %d, had by %q", token, a.Owner, w.newest, owner)
	}
	w.taken[token], w.newest, w.takenAt = a.Owner, max(w.newest, token), time.Since(w.began)
	for _, term := range w.terms {
		switch {
		case term.gone || w.released[term.Token()]:
		case term.Trusted() || term.over.IsZero() && term.ctx.Err() == nil:
			w.failf("token %d is taken by %s while term %d of %s is trusted", token, a.Owner, term.Token(), term.Owner())
		case !term.over.IsZero() && time.Since(term.over) < term.grace:
			w.failf("token %d is taken by %s, %v after the context of term %d ended", token, a.Owner, time.Since(term.over), term.Token())
		}
	}
	return token, nil
}

// HandoverSignal implements [store.HandoverSignals].
func (w *world) HandoverSignal(group string) store.HandoverSignal {
	return signal{w.Store.HandoverSignal(group).(handovers), w, group}
}

// handovers is what signals of the store can do.
type handovers interface {
	store.DirectHandover
	store.PresenceSignal
}

// signal is a signal of the world.
type signal struct {
	handovers
	w     *world
	group string
}

// Release implements [store.DirectHandover]. Now and then a waiter is woken a moment
// before the lease is released.
func (s signal) Release(ctx context.Context, owner string, token uint64) error {
	if token%4 == 0 {
		s.w.count("woken before the release")
		_ = s.Pass(ctx)
		time.Sleep(10 * time.Millisecond)
	}
	if err := s.w.Release(ctx, s.group, owner, token); err != nil {
		return err
	}
	return s.Pass(ctx)
}

// Take implements [store.DirectHandover].
func (s signal) Take(ctx context.Context, a store.Acquire) (uint64, error) {
	token, err := s.w.acquire(ctx, a, s.handovers.Take)
	if err == nil {
		s.w.count("taken without a look")
	}
	return token, err
}

// Release checks that the work has stopped.
func (w *world) Release(ctx context.Context, group, owner string, token uint64) error {
	w.change.RLock()
	defer w.change.RUnlock()
	err := w.Store.Release(ctx, group, owner, token)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.released[token] = true
	}
	w.note("%s releases %d: %v", by(owner), token, err)
	if term := w.terms[token]; err == nil && term != nil && !term.returned && !term.gone {
		w.failf("term %d is released while its work runs", token)
	}
	return err
}

func (w *world) Read(ctx context.Context, groups ...string) ([]store.Reading, error) {
	w.change.RLock()
	defer w.change.RUnlock()
	readings, err := w.Store.Read(ctx, groups...)
	if l := readings[0].Lease; l != nil {
		w.note("%s %d is read, heartbeat %d, released %v, on %s", by(l.Owner), l.Token, l.Heartbeat, l.Released, readings[0].Server)
	} else {
		w.note("nothing is read")
	}
	return readings, err
}

func (w *world) Prepare(ctx context.Context, group string, ttl time.Duration) error {
	w.change.RLock()
	defer w.change.RUnlock()
	return w.Store.Prepare(ctx, group, ttl)
}

func (w *world) Renew(ctx context.Context, r store.Renew) (int, error) {
	w.change.RLock()
	defer w.change.RUnlock()
	renewed, err := w.Store.Renew(ctx, r)
	w.note("%s renews %d with heartbeat %d: %d", by(r.Owner), r.Leases[0].Token, r.Heartbeat, renewed)
	return renewed, err
}

// leads notes the beginning of a term.
func (w *world) leads(ctx context.Context, t election.Term, grace time.Duration) *simTerm {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts["terms"]++
	w.note("%s leads %d", by(t.Owner()), t.Token())
	term := &simTerm{Term: t, grace: grace, ctx: ctx}
	if w.taken[t.Token()] != t.Owner() {
		w.failf("%s leads under token %d, which is %q's", t.Owner(), t.Token(), w.taken[t.Token()])
	}
	if w.terms[t.Token()] != nil {
		w.failf("term %d began twice", t.Token())
	}
	w.terms[t.Token()] = term
	for token, old := range w.terms { // forget what is long over
		if old.returned && time.Since(old.over) > time.Hour {
			delete(w.terms, token)
		}
	}
	return term
}

// overFor notes that a term's context ended.
func (w *world) overFor(term *simTerm, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	term.over = time.Now()
	w.note("%s is over: %v", by(term.Owner()), cause)
	if whole := w.wholeFor(); whole > time.Minute {
		w.counts["ended in peace"]++
		w.failf("term %d ended while all was well for %v: %v", term.Token(), whole, cause)
	}
}

func (w *world) returns(term *simTerm) {
	w.mu.Lock()
	defer w.mu.Unlock()
	term.returned = true
	w.lastEnd = time.Now()
}

// leaders is how many terms are trusted.
func (w *world) leaders() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, term := range w.terms {
		if !term.gone && !term.returned && term.Trusted() {
			n++
		}
	}
	return n
}
