// Package faulty puts the network between a replica and its store: it counts the statements that are sent, and fails
// them in every way a network and a server can. It is for tests, most of them in testing/synctest bubbles.
//
// [Line] decides what happens to a statement; [Leases], [Ledger] and [Locks] send the statements of a store over it.
package faulty

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/cronlease/cronlease/internal/retry"
)

// ErrLost is what a statement fails with while the line is cut.
var ErrLost = errors.New("connection lost")

// Send sends a statement of the operation op, which run runs, and returns its error or that of the line. It may run the
// statement after it has returned an error.
type Send func(ctx context.Context, op string, run func(context.Context) error) error

// Fault is what happens to one statement. The zero value is none.
type Fault struct {
	Before  func()        // is called first
	Hold    time.Duration // it is that long under way, and lost where its caller gives up meanwhile
	Err     error         // the caller gets this at once; the statement runs if Late or Applied says so
	Applied bool          // with Err: it ran, and the answer was lost
	Late    time.Duration // it runs that long after it was sent, whether or not the caller still waits
	Reply   time.Duration // the answer takes that long
	Silence bool          // it does not run, and nothing is heard until the caller gives up
	Stuck   chan struct{} // nothing is heard until this is closed, whatever the caller wants
}

// Line is one replica's way to its store. The zero value sends everything without faults.
type Line struct {
	// Ended says that statements whose context has ended are sent too. Otherwise the line returns its error.
	Ended bool

	planning sync.Mutex // held while plan runs

	mu    sync.Mutex
	plan  func(op string) Fault
	next  map[string][]Fault
	calls map[string]int
}

// Once queues faults for the next statements of an operation.
func (l *Line) Once(op string, faults ...Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = map[string][]Fault{}
	}
	l.next[op] = append(l.next[op], faults...)
}

// Always sets the fault of every statement that has none by Once; nil ends it. plan is called for one statement at a
// time.
func (l *Line) Always(plan func(op string) Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plan = plan
}

// Only sets the fault of every statement of one operation, and ends that of all others.
func (l *Line) Only(op string, f Fault) {
	l.Always(func(o string) Fault {
		if o == op {
			return f
		}
		return Fault{}
	})
}

// Cut makes every statement fail at once.
func (l *Line) Cut() { l.Always(func(string) Fault { return Fault{Err: ErrLost} }) }

// Hang makes the network swallow everything.
func (l *Line) Hang() { l.Always(func(string) Fault { return Fault{Silence: true} }) }

// Heal ends what Always, Only, Cut or Hang began.
func (l *Line) Heal() { l.Always(nil) }

// Count returns how many statements of an operation were sent.
func (l *Line) Count(op string) int { return l.Counts()[op] }

// Counts returns how many statements were sent, by operation.
func (l *Line) Counts() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.calls)
}

// All returns how many statements were sent.
func (l *Line) All() int {
	n := 0
	for _, calls := range l.Counts() {
		n += calls
	}
	return n
}

// take counts a statement and returns its fault.
func (l *Line) take(op string) Fault {
	l.planning.Lock()
	defer l.planning.Unlock()
	l.mu.Lock()
	if l.calls == nil {
		l.calls = map[string]int{}
	}
	l.calls[op]++
	plan := l.plan
	if queued := l.next[op]; len(queued) > 0 {
		l.next[op] = queued[1:]
		plan = func(string) Fault { return queued[0] }
	}
	l.mu.Unlock()
	if plan == nil {
		return Fault{}
	}
	return plan(op)
}

// Send is a [Send], with the faults of the line.
func (l *Line) Send(ctx context.Context, op string, run func(context.Context) error) error {
	if err := ctx.Err(); err != nil && !l.Ended {
		return err
	}
	return l.take(op).Send(ctx, run)
}

// Send sends one statement with its fault.
func (f Fault) Send(ctx context.Context, run func(context.Context) error) error {
	if f.Before != nil {
		f.Before()
	}
	if err := wait(ctx, f.Hold); err != nil {
		return err
	}
	detached := context.WithoutCancel(ctx)
	switch {
	case f.Stuck != nil:
		<-f.Stuck
		return ErrLost
	case f.Silence:
		<-ctx.Done()
		return ctx.Err()
	case f.Err != nil && f.Applied:
		_ = run(detached) // the answer is lost
		return f.Err
	case f.Err != nil && f.Late == 0:
		return f.Err
	}
	answered := make(chan error, 1)
	apply := func() { answered <- run(detached) }
	if f.Late > 0 {
		time.AfterFunc(f.Late, apply)
	} else {
		apply()
	}
	if f.Err != nil {
		return f.Err
	}
	select {
	case err := <-answered:
		if late := wait(ctx, f.Reply); late != nil {
			return late
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	return retry.Sleep(ctx, d)
}
