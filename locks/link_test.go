package locks_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/store"
)

var errLink = errors.New("connection lost")

// link is one process's way to a database: it counts statements, and can fail
// them in every way a network and a server can.
type link struct {
	store.Locks
	ringer store.Notifiers
	t      *testing.T

	mu       sync.Mutex
	plan     func(op string) fault
	next     map[string][]fault
	calls    map[string]int
	rows     []int // of each write
	waits    int   // that are under way
	mostEver int   // of waits
	// at is the bubble's time, and spun how many statements of a kind there were
	// since then: a client that never rests would keep time from passing.
	at   time.Time
	spun map[string]int
	told bool
}

// tooMany is more statements of a kind than any client sends at one instant.
const tooMany = 5000

// spins counts a statement, and reports whether there are too many. It is called
// with mu held.
func (l *link) spins(op string) bool {
	if now := time.Now(); !now.Equal(l.at) {
		l.at, l.spun = now, map[string]int{}
	}
	l.spun[op]++
	if l.spun[op] == tooMany && !l.told {
		l.told = true
		l.t.Errorf("%v: %d statements of the kind %q at one instant", l.at, tooMany, op)
	}
	return l.spun[op] >= tooMany
}

// fault is what happens to one statement. The zero value is none.
type fault struct {
	before  func()        // is called first
	err     error         // the caller hears this at once; the statement runs if late or applied says so
	applied bool          // with err: it ran, and the answer was lost
	late    time.Duration // it runs that long after it was sent, even if its caller has given up
	reply   time.Duration // the answer takes that long
	silence bool          // it does not run, and nothing is heard until the caller gives up
}

func newLink(d *database) *link {
	return &link{Locks: d, ringer: d, t: d.t, next: map[string][]fault{}, calls: map[string]int{}}
}

// once queues faults for the next statements of a kind.
func (l *link) once(op string, faults ...fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next[op] = append(l.next[op], faults...)
}

// always sets the fault of every statement; nil ends it.
func (l *link) always(plan func(op string) fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plan = plan
}

func (l *link) cut()  { l.always(func(string) fault { return fault{err: errLink} }) }
func (l *link) hang() { l.always(func(string) fault { return fault{silence: true} }) }
func (l *link) heal() { l.always(nil) }

// only makes the faults those of one kind of statement.
func (l *link) only(op string, f fault) {
	l.always(func(o string) fault {
		if o == op {
			return f
		}
		return fault{}
	})
}

// count is how many statements of a kind were sent.
func (l *link) count(op string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[op]
}

// all is how many statements were sent, and calls of the bell.
func (l *link) all() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, calls := range l.calls {
		n += calls
	}
	return n
}

func (l *link) take(op string) fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[op]++
	if l.spins(op) {
		return fault{late: 100 * time.Millisecond}
	}
	if queued := l.next[op]; len(queued) > 0 {
		l.next[op] = queued[1:]
		return queued[0]
	}
	if l.plan != nil {
		return l.plan(op)
	}
	return fault{}
}

// send runs a statement with its fault.
func send[T any](ctx context.Context, l *link, op string, run func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	f := l.take(op)
	if f.before != nil {
		f.before()
	}
	detached := context.WithoutCancel(ctx)
	switch {
	case f.silence:
		<-ctx.Done()
		return none, ctx.Err()
	case f.err != nil && f.applied:
		_, _ = run(detached)
		return none, f.err
	case f.err != nil && f.late == 0:
		return none, f.err
	}
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	apply := func() {
		value, err := run(detached)
		answered <- answer{value, err}
	}
	if f.late > 0 {
		time.AfterFunc(f.late, apply)
	} else {
		apply()
	}
	if f.err != nil {
		return none, f.err
	}
	var a answer
	select {
	case a = <-answered:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	if f.reply == 0 {
		return a.value, a.err
	}
	timer := time.NewTimer(f.reply)
	defer timer.Stop()
	select {
	case <-timer.C:
		return a.value, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

type nothing struct{}

func (l *link) Read(ctx context.Context, groups ...string) ([]store.Reading, error) {
	return send(ctx, l, "read", func(ctx context.Context) ([]store.Reading, error) { return l.Locks.Read(ctx, groups...) })
}

func (l *link) Prepare(ctx context.Context, group string, ttl time.Duration) error {
	_, err := send(ctx, l, "prepare", func(ctx context.Context) (nothing, error) {
		return nothing{}, l.Locks.Prepare(ctx, group, ttl)
	})
	return err
}

func (l *link) Acquire(ctx context.Context, a store.Acquire) (uint64, error) {
	return send(ctx, l, "acquire", func(ctx context.Context) (uint64, error) { return l.Locks.Acquire(ctx, a) })
}

func (l *link) Renew(ctx context.Context, r store.Renew) (int, error) {
	return send(ctx, l, "renew", func(ctx context.Context) (int, error) { return l.Locks.Renew(ctx, r) })
}

func (l *link) Release(ctx context.Context, group, owner string, token uint64) error {
	_, err := send(ctx, l, "release", func(ctx context.Context) (nothing, error) {
		return nothing{}, l.Locks.Release(ctx, group, owner, token)
	})
	return err
}

func (l *link) ReadLocks(ctx context.Context, names ...string) (store.LockReading, error) {
	return send(ctx, l, "readlocks", func(ctx context.Context) (store.LockReading, error) { return l.Locks.ReadLocks(ctx, names...) })
}

func (l *link) WriteLocks(ctx context.Context, server string, writes []store.LockWrite) ([]bool, error) {
	l.mu.Lock()
	l.rows = append(l.rows, len(writes))
	l.mu.Unlock()
	return send(ctx, l, "writelocks", func(ctx context.Context) ([]bool, error) { return l.Locks.WriteLocks(ctx, server, writes) })
}

func (l *link) HeldLocks(ctx context.Context, idle time.Duration, after string, limit int) ([]string, error) {
	return send(ctx, l, "heldlocks", func(ctx context.Context) ([]string, error) {
		return l.Locks.HeldLocks(ctx, idle, after, limit)
	})
}

func (l *link) PruneLocks(ctx context.Context, idle time.Duration, limit int) (int, error) {
	return send(ctx, l, "prune", func(ctx context.Context) (int, error) { return l.Locks.PruneLocks(ctx, idle, limit) })
}

func (l *link) PruneSessions(ctx context.Context, prefix string, released, expired time.Duration, limit int) (int, error) {
	return send(ctx, l, "prune sessions", func(ctx context.Context) (int, error) {
		return l.Locks.PruneSessions(ctx, prefix, released, expired, limit)
	})
}

// Doorbell is the database's, behind this link.
func (l *link) Notifier() store.Notifier { return linkBell{l, l.ringer.Notifier()} }

type linkBell struct {
	link *link
	store.Notifier
}

func (b linkBell) Wait(ctx context.Context, rows []store.LockWatch, limit time.Duration) error {
	b.link.mu.Lock()
	b.link.waits++
	b.link.mostEver = max(b.link.mostEver, b.link.waits)
	b.link.mu.Unlock()
	defer func() {
		b.link.mu.Lock()
		b.link.waits--
		b.link.mu.Unlock()
	}()
	_, err := send(ctx, b.link, "wait", func(context.Context) (nothing, error) {
		return nothing{}, b.Notifier.Wait(ctx, rows, limit)
	})
	return err
}

func (b linkBell) Address(ctx context.Context) (string, error) {
	return send(ctx, b.link, "address", b.Notifier.Address)
}

func (b linkBell) Notify(ctx context.Context, addresses ...string) error {
	_, err := send(ctx, b.link, "ring", func(ctx context.Context) (nothing, error) {
		return nothing{}, b.Notifier.Notify(ctx, addresses...)
	})
	return err
}
