package locks_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store"
)

// deaf is a store that ends its statements at their deadlines, but does not notice that
// their contexts are cancelled.
type deaf struct{ *link }

func (d deaf) WriteLocks(ctx context.Context, server string, writes []store.LockWrite) ([]bool, error) {
	end, _ := ctx.Deadline()
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
	defer cancel()
	return d.link.WriteLocks(ctx, server, writes)
}

// A caller that carries out its own round gives up with its context, or a moment later
// where the store does not notice that. The row is left to others.
func TestGivenUpInTheOwnRound(t *testing.T) {
	for name, hears := range map[string]bool{"store that notices": true, "store that does not": false} {
		for how, f := range map[string]faulty.Fault{"silence": {Silence: true}, "late": {Late: time.Minute}, "lost answer": {Reply: time.Minute}} {
			t.Run(name+", "+how, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w := newWorld(t)
					l := newLink(w.database)
					var s store.Locks = l
					most := time.Duration(0)
					if !hears {
						s, most = deaf{l}, 50*time.Millisecond
					}
					a, b := w.rigOn(l, s), w.rig()
					a.lock("stock").unlock(t)
					a.link.Once("WriteLocks", f)
					waiter := a.begin(false, a.Mutex("stock").Lock)
					time.Sleep(time.Millisecond)
					begin := time.Now()
					why := errors.New("enough")
					waiter.stop(why)
					<-waiter.done
					is(t, waiter.err, why)
					if took := time.Since(begin); took > most {
						t.Errorf("the caller returned after %v", took)
					}
					b.waits("stock").within(time.Second).unlock(t)

					a.lock("stock").unlock(t) // known to be quick again
					held := a.lock("stock")
					a.link.Once("WriteLocks", f)
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
					defer cancel()
					begin = time.Now()
					if err := held.Unlock(ctx); err != nil { // nil: the writers were as quick as that
						is(t, err, context.DeadlineExceeded)
					}
					if took := time.Since(begin); took > 5*time.Millisecond {
						t.Errorf("Unlock returned after %v", took)
					}
					b.waits("stock").within(time.Second).unlock(t)
				})
			})
		}
	}
}

// The writers go on with a round that its caller could not carry out in time. That is no
// outage yet, and fails no TryLock.
func TestOwnRoundIsHandedOver(t *testing.T) {
	for name, f := range map[string]faulty.Fault{
		"silence": {Silence: true}, "late": {Late: 100 * time.Millisecond}, "lost": {Err: faulty.ErrLost}, "lost answer": {Err: faulty.ErrLost, Applied: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				core, logs := observer.New(zapcore.InfoLevel)
				a := w.rig(locks.WithLogger(zap.New(core)))
				for range 3 {
					a.lock("stock").unlock(t)
					a.link.Once("WriteLocks", f)
					l, err := a.Mutex("stock").TryLock(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					held := w.enter(l, false, timing.Grace)
					time.Sleep(time.Second)
					a.link.Once("WriteLocks", f)
					held.unlock(t)
					time.Sleep(time.Second)
				}
				if n := logs.Len(); n > 0 {
					t.Errorf("logged: %v", logs.All())
				}
			})
		})
	}
}

// Close waits for a round that a caller carries out, and leaves nothing under way.
func TestCloseInAnOwnRound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, f := range []faulty.Fault{{Hold: 20 * time.Millisecond}, {Silence: true}, {Reply: time.Second}} {
			w := newWorld(t)
			a, b := w.rig(), w.rig()
			a.lock("stock").unlock(t)
			a.link.Once("WriteLocks", f)
			waiter := a.begin(false, a.Mutex("stock").Lock)
			time.Sleep(time.Millisecond)
			if err := a.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if !waiter.is() {
				t.Fatal("it still waits")
			}
			is(t, waiter.err, locks.ErrClosed)
			b.waits("stock").within(time.Second).unlock(t)
		}
	})
}

// Callers and writers together have three statements in flight at most, beside that of a
// row that is set aside.
func TestStatementsInFlight(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		l := newLink(w.database)
		c := &counted{link: l}
		a := w.rigOn(l, c)
		a.lock("stock").unlock(t)
		a.link.Only("WriteLocks", faulty.Fault{Hold: 40 * time.Millisecond})
		var all []*waiter
		for i := range 8 {
			all = append(all, a.begin(false, a.Mutex("stock/"+string(rune('a'+i))).Lock))
			time.Sleep(5 * time.Millisecond)
		}
		for _, x := range all {
			x.within(time.Second).unlock(t)
		}
		synctest.Wait()
		if c.most != 3 {
			t.Errorf("%d statements in flight at once", c.most)
		}
	})
}

// counted counts the writes that are in flight.
type counted struct {
	*link
	mu        sync.Mutex
	now, most int
}

func (c *counted) WriteLocks(ctx context.Context, server string, writes []store.LockWrite) ([]bool, error) {
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.now--
		c.mu.Unlock()
	}()
	return c.link.WriteLocks(ctx, server, writes)
}

// If a store panics in a caller's round, and the caller survives that, the writers go on.
func TestPanicInAnOwnRound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		a.lock("stock").unlock(t)
		held := a.lock("stock")
		a.link.Once("WriteLocks", faulty.Fault{Before: func() { panic("in the store") }})
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			_ = held.Unlock(t.Context())
		}()
		a.lock("stock").unlock(t)
	})
}
