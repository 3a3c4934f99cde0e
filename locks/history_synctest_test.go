package locks_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store"
)

// history records which client held which lock from when to when, by the bubble's
// clock. It fails the test on overlapping holds that exclude each other.
type history struct {
	t  *testing.T
	d  *database
	mu sync.Mutex
	// stays by lock, one for each grant, in the order in which the holders were
	// told.
	stays  map[string][]*stay
	counts map[string]int
	// resurrected are locks whose row was rewound: it can contain an old mark.
	resurrected map[string]bool
}

// stay is one holder, from the call that got the lock until its context ended.
type stay struct {
	*locks.Lock
	name  string
	read  bool
	grace time.Duration
	mark  []byte
	from  time.Time
	ended chan struct{}
	until time.Time // once ended is closed

	unlocked atomic.Bool // its work has stopped, as far as the lock knows
}

// Unlock is the lock's.
func (s *stay) Unlock(ctx context.Context) error {
	s.unlocked.Store(true)
	return s.Lock.Unlock(ctx)
}

func newHistory(t *testing.T, d *database) *history {
	return &history{t: t, d: d, stays: map[string][]*stay{}, counts: map[string]int{}, resurrected: map[string]bool{}}
}

func (h *history) count(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[what]++
}

// enter records that a lock is held.
func (h *history) enter(l *locks.Lock, read bool, grace time.Duration) *stay {
	holds := lease.Holds(l.Context())
	s := &stay{Lock: l, name: l.Name(), read: read, grace: grace, mark: holds[len(holds)-1].Mark, from: time.Now(), ended: make(chan struct{})}
	context.AfterFunc(l.Context(), func() {
		s.until = time.Now()
		close(s.ended)
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for _, o := range h.stays[s.name] {
		if read && o.read { // they may share a token, and hear of it in any order
			continue
		}
		if s.Token() <= o.Token() {
			if s.Context().Err() == nil {
				h.t.Errorf("%v: lock %q is granted under token %d after %d", now, s.name, s.Token(), o.Token())
			}
			continue
		}
		cause := context.Cause(o.Context())
		if cause == nil {
			h.t.Errorf("%v: lock %q is granted under token %d while the holder with %d, since %v, still runs", now, s.name, s.Token(), o.Token(), o.from)
			continue
		}
		<-o.ended
		if since := now.Sub(o.until); since < o.grace && !o.unlocked.Load() {
			h.t.Errorf("%v: lock %q is granted under token %d only %v after %d, which ended because %v", now, s.name, s.Token(), since, o.Token(), cause)
		}
		if !h.resurrected[s.name] && h.d.has(s.name, o.mark) {
			h.t.Errorf("%v: the row of %q has the mark of token %d, and %d has the lock", now, s.name, o.Token(), s.Token())
		}
	}
	h.stays[s.name] = append(h.stays[s.name], s)
	if n := len(h.stays[s.name]); n > 60 {
		h.stays[s.name] = h.stays[s.name][n-40:]
	}
	h.counts["given"]++
	return s
}

// bubble runs a test in parallel with others and in no time.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// rig is one process inside a bubble: a client on a link of its own.
type rig struct {
	*locks.Client
	t    *testing.T
	link *link
	h    *history
	// grace is that of the client's timing.
	grace time.Duration
	// leaves: its Close at the end of the test may fail.
	leaves bool
}

// world is a database and what happened in it.
type world struct {
	*database
	*history
}

func newWorld(t *testing.T) *world {
	d := newDatabase(t)
	return &world{d, newHistory(t, d)}
}

// timing is the default one, in numbers.
var timing = withTTL(0)

func withTTL(ttl time.Duration) lease.Timing {
	complete, err := lease.Timing{TTL: ttl}.Complete()
	if err != nil {
		panic(err)
	}
	return complete
}

func (w *world) rig(options ...locks.Option) *rig {
	w.history.t.Helper()
	l := newLink(w.database)
	return w.rigOn(l, l, options...)
}

// rigOn is a rig whose client sees less than its link.
func (w *world) rigOn(l *link, s store.Locks, options ...locks.Option) *rig {
	t := w.history.t
	t.Helper()
	c, err := locks.New(s, options...)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Client: c, t: t, link: l, h: w.history, grace: timing.Grace}
	t.Cleanup(func() {
		if !r.leaves {
			r.link.Heal()
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if r.leaves {
			cancel()
		}
		if err := r.Close(ctx); err != nil && !r.leaves {
			t.Error(err)
		}
	})
	return r
}

// crash makes the process vanish for all others: nothing that it sends arrives, and
// no answer reaches it.
func (r *rig) crash() {
	r.leaves = true
	r.link.Hang()
}

// lock gets a lock that is free, or soon.
func (r *rig) lock(name string, options ...locks.LockOption) *stay {
	r.t.Helper()
	l, err := r.Mutex(name, options...).Lock(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return r.h.enter(l, false, r.grace)
}

func (r *rig) rlock(name string) *stay {
	r.t.Helper()
	l, err := r.RWMutex(name).RLock(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return r.h.enter(l, true, r.grace)
}

func (s *stay) unlock(t *testing.T) {
	t.Helper()
	if err := s.Unlock(t.Context()); err != nil {
		t.Errorf("unlock: %v", err)
	}
}

// waiter is a call that waits for a lock.
type waiter struct {
	t    *testing.T
	done chan struct{}
	at   time.Time
	stay *stay
	err  error
	stop context.CancelCauseFunc
}

// wait starts a goroutine that waits for a lock, by any of the methods that do, and
// returns when all goroutines are blocked.
func (r *rig) wait(read bool, get func(ctx context.Context) (*locks.Lock, error)) *waiter {
	r.t.Helper()
	w := r.begin(read, get)
	synctest.Wait()
	return w
}

func (r *rig) begin(read bool, get func(ctx context.Context) (*locks.Lock, error)) *waiter {
	ctx, stop := context.WithCancelCause(r.t.Context())
	w := &waiter{t: r.t, done: make(chan struct{}), stop: stop}
	go func() {
		defer close(w.done)
		l, err := get(ctx)
		w.at, w.err = time.Now(), err
		if err == nil {
			w.stay = r.h.enter(l, read, r.grace)
		}
	}()
	return w
}

func (r *rig) waits(name string) *waiter {
	r.t.Helper()
	return r.wait(false, r.Mutex(name).Lock)
}

func (r *rig) rwaits(name string) *waiter {
	r.t.Helper()
	return r.wait(true, r.RWMutex(name).RLock)
}

// is reports whether the waiter has its answer.
func (w *waiter) is() bool {
	synctest.Wait()
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// has checks that the waiter has the lock by now.
func (w *waiter) has() *stay {
	w.t.Helper()
	if !w.is() || w.err != nil {
		w.t.Fatalf("the lock was not granted: answered %v, %v", w.is(), w.err)
	}
	return w.stay
}

// hasNot checks that the waiter still waits.
func (w *waiter) hasNot() {
	w.t.Helper()
	if w.is() {
		w.t.Fatalf("the waiter does not wait any more: %v", w.err)
	}
}

// within waits for the lock, for that long at most.
func (w *waiter) within(limit time.Duration) *stay {
	w.t.Helper()
	begin := time.Now()
	select {
	case <-w.done:
	case <-time.After(limit):
		w.t.Fatalf("the lock was not granted within %v", limit)
	}
	if w.err != nil {
		w.t.Fatalf("after %v: %v", time.Since(begin), w.err)
	}
	return w.stay
}

// sleep until the time since begin.
func sleepUntil(begin time.Time, since time.Duration) { time.Sleep(time.Until(begin.Add(since))) }

// is checks that an error matches.
func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

// serve waits until all have had the lock, in any order, each for that long at
// most, and unlocks it.
func serve(t *testing.T, limit time.Duration, waiters ...*waiter) {
	t.Helper()
	served := make(chan *waiter, len(waiters))
	for _, w := range waiters {
		go func() {
			<-w.done
			served <- w
		}()
	}
	for i := range waiters {
		select {
		case w := <-served:
			if w.err != nil {
				t.Fatal(w.err)
			}
			w.stay.unlock(t)
		case <-time.After(limit):
			t.Fatalf("%d of %d had the lock within %v", i, len(waiters), limit)
		}
	}
}
