package keeper_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cronlease/cronlease/store"
)

var errLink = errors.New("connection lost")

// link is one replica's way to a store: it counts statements, and can fail them
// in every way a network and a server can.
type link struct {
	store.Leases

	mu    sync.Mutex
	plan  func(op string) fault
	next  map[string][]fault
	calls map[string]int
	sizes []int // of the renewals
}

// fault is what happens to one statement. The zero value is none.
type fault struct {
	err     error         // the caller hears this at once; the statement runs if late or applied says so
	applied bool          // with err: it ran, and the answer was lost
	late    time.Duration // it runs that long after it was sent, whether or not the caller still waits
	reply   time.Duration // the answer takes that long
	silence bool          // it does not run, and nothing is heard until the caller gives up
	stuck   chan struct{} // nothing is heard until this is closed, whatever the caller wants
}

func newLink(leases store.Leases) *link {
	return &link{Leases: leases, next: map[string][]fault{}, calls: map[string]int{}}
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
func (l *link) heal() { l.always(nil) }

// count is how many statements of a kind were sent.
func (l *link) count(op string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[op]
}

func (l *link) take(op string) fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[op]++
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
	f := l.take(op)
	detached := context.WithoutCancel(ctx)
	switch {
	case f.stuck != nil:
		<-f.stuck
		return none, errLink
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
	return send(ctx, l, "read", func(ctx context.Context) ([]store.Reading, error) { return l.Leases.Read(ctx, groups...) })
}

func (l *link) Prepare(ctx context.Context, group string, ttl time.Duration) error {
	_, err := send(ctx, l, "prepare", func(ctx context.Context) (nothing, error) {
		return nothing{}, l.Leases.Prepare(ctx, group, ttl)
	})
	return err
}

func (l *link) Acquire(ctx context.Context, a store.Acquire) (uint64, error) {
	return send(ctx, l, "acquire", func(ctx context.Context) (uint64, error) { return l.Leases.Acquire(ctx, a) })
}

func (l *link) Renew(ctx context.Context, r store.Renew) (int, error) {
	l.mu.Lock()
	l.sizes = append(l.sizes, len(r.Leases))
	l.mu.Unlock()
	return send(ctx, l, "renew", func(ctx context.Context) (int, error) { return l.Leases.Renew(ctx, r) })
}

func (l *link) Release(ctx context.Context, group, owner string, token uint64) error {
	_, err := send(ctx, l, "release", func(ctx context.Context) (nothing, error) {
		return nothing{}, l.Leases.Release(ctx, group, owner, token)
	})
	return err
}
