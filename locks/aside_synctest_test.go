package locks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/locks"
)

// A row that another transaction keeps locked delays only the waiters of that lock,
// and they get it as soon as the row is free.
func TestLockedRow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		names := []string{"kept/0", "kept/1", "kept/2"}
		var held []*stay
		var ends []func()
		for _, name := range names {
			held = append(held, a.lock(name))
			ends = append(ends, w.keep(name))
		}
		var waiters []*waiter
		for _, name := range names {
			waiters = append(waiters, b.waits(name))
		}
		begin := time.Now()
		unlocks := make([]*time.Duration, len(held))
		for i, s := range held {
			unlocks[i] = new(time.Duration)
			go func() {
				s.unlock(t)
				*unlocks[i] = time.Since(begin)
			}()
		}
		for i := range 100 {
			for _, r := range []*rig{a, b} {
				before := time.Now()
				r.lock(fmt.Sprint("other/", i)).unlock(t)
				if took := time.Since(before); took > 0 {
					t.Fatalf("another lock took %v", took)
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
		for i, x := range waiters {
			if x.is() {
				t.Errorf("%d has it although its row is locked", i)
			}
		}
		for _, end := range ends {
			end()
		}
		for _, x := range waiters {
			x.within(4 * time.Second).unlock(t)
		}
		synctest.Wait()
	})
}

// A row is locked, and then the database is away: a read may find out, before the
// writers try again, that the row has to be set aside.
func TestLockedRowAfterAnOutage(t *testing.T) {
	for phase := range 50 {
		t.Run(fmt.Sprint(phase), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				a := w.rig()
				held := a.lock("kept")
				end := w.keep("kept")
				waiter := a.waits("kept")
				a.link.Always(func(op string) faulty.Fault {
					if a.link.Count("WriteLocks") < 2 {
						return faulty.Fault{}
					}
					return faulty.Fault{Err: faulty.ErrLost}
				})
				time.Sleep(4*time.Second + time.Duration(phase)*50*time.Millisecond)
				a.link.Heal()
				time.Sleep(2 * time.Second)
				end()
				time.Sleep(2 * time.Second)
				held.unlock(t)
				waiter.within(4 * time.Second).unlock(t)
			})
		})
	}
}

// The error of a caller that gives up says what it was waiting for.
func TestLockedRowIsNamed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		a.lock("kept").unlock(t)
		end := w.keep("kept")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := a.Mutex("kept").Lock(ctx)
		is(t, err, context.DeadlineExceeded)
		if !strings.Contains(fmt.Sprint(err), "another transaction keeps its row locked") {
			t.Error(err)
		}
		end()
		a.waits("kept").within(3 * time.Second).unlock(t)
	})
}

// A row that cannot be written is retried alone, and the others are written.
func TestBrokenRow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		kept := a.lock("kept")
		w.breakWrites("broken", true)
		broken := a.waits("broken")
		var all []*waiter
		for i := range 300 {
			all = append(all, a.waits(fmt.Sprint("other/", i)))
		}
		for _, x := range all {
			x.within(2 * time.Second).unlock(t)
		}
		// Once that is known, it delays no other lock.
		time.Sleep(10 * time.Second)
		for i := range 100 {
			before := time.Now()
			a.lock(fmt.Sprint("third/", i)).unlock(t)
			if took := time.Since(before); took > 0 {
				t.Fatalf("another lock took %v", took)
			}
			time.Sleep(50 * time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := a.Mutex("broken").Lock(ctx); err == nil || !strings.Contains(err.Error(), "cannot be written") {
			t.Errorf("the error of the caller that gave up is %v", err)
		}
		if !kept.Trusted() || broken.is() {
			t.Error("the broken row was written, or another lock was lost")
		}
		w.breakWrites("broken", false)
		broken.within(3 * time.Second).unlock(t)
		kept.unlock(t)
	})
}

// After an outage all are written together again.
func TestOutageSetsNobodyAside(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		a.lock("kept")
		var all []*waiter
		a.link.Only("WriteLocks", faulty.Fault{Err: faulty.ErrLost})
		for i := range 1000 {
			all = append(all, a.begin(false, a.Mutex(fmt.Sprint("stock/", i)).Lock))
		}
		time.Sleep(5 * time.Second)
		before := a.link.Count("WriteLocks")
		a.link.Heal()
		for _, x := range all {
			x.within(2 * time.Second)
		}
		if n := a.link.Count("WriteLocks") - before; n > 400 {
			t.Errorf("%d statements for 1000 locks", n)
		}
		w.unlockAll(t)
	})
}

// Labels, which are stored in the row, are bounded, and so is the queue.
func TestBoundsOfRows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		a.lock("stock", locks.Label(strings.Repeat("x", 128))).unlock(t)
		if _, err := a.Mutex("stock", locks.Label(strings.Repeat("x", 129))).Lock(t.Context()); err == nil || !strings.Contains(err.Error(), "129 bytes: at most 128") {
			t.Errorf("a label that is too long: %v", err)
		}
		const most = 4096
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, most+10)
		for range most + 10 {
			go func() {
				l, err := a.Mutex("crowd").Lock(ctx)
				if err == nil {
					<-ctx.Done()
					if err := l.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
				errs <- err
			}()
		}
		synctest.Wait()
		time.Sleep(time.Second)
		cancel()
		full, given := 0, 0
		for range most + 10 {
			switch err := <-errs; {
			case errors.Is(err, locks.ErrFull):
				full++
			case err == nil:
				given++
			}
		}
		if full != 10 || given != 1 {
			t.Errorf("%d were refused, and %d have it", full, given)
		}
	})
}
