package locks_test

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/locks"
)

// bell is the address in the row of a lock under which a process is notified.
func (w *world) bell(name string, r *rig) string {
	for _, p := range w.look(name).Processes {
		if p.Owner == r.Owner() {
			return p.Bell
		}
	}
	return ""
}

// Only a process that waits has an address, and it comes with the write of its place.
func TestAddressOfAWaiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		b.lock("other").unlock(t)
		held := a.lock("stock")
		if n := a.link.Count("Address") + b.link.Count("Address"); n > 0 {
			t.Errorf("%d addresses, and none waits", n)
		}
		before := b.link.Count("WriteLocks")
		next := b.waits("stock")
		if w.bell("stock", b) == "" || b.link.Count("WriteLocks") != before+1 {
			t.Errorf("address %q after %d writes", w.bell("stock", b), b.link.Count("WriteLocks")-before)
		}
		held.unlock(t)
		if n := a.link.Count("Address"); n > 0 {
			t.Errorf("%d addresses of one that never waited", n)
		}
		next.has().unlock(t)
	})
}

// An address that was not to be had when the place was taken is written once it is.
func TestAddressThatComesLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		held := a.lock("stock")
		b.link.Only("Address", faulty.Fault{Err: faulty.ErrLost})
		next := b.waits("stock")
		time.Sleep(10 * time.Second)
		if bell := w.bell("stock", b); bell != "" {
			t.Errorf("the address is %q", bell)
		}
		b.link.Heal()
		begin := time.Now()
		for w.bell("stock", b) == "" && time.Since(begin) < time.Minute {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(begin); took > 110*time.Millisecond {
			t.Errorf("written after %v", took)
		}
		held.unlock(t)
		next.has().unlock(t)
	})
}

// A waiter is woken although the Wait of its process was sent before it had its place, and
// begins only after the notification for it, which no store keeps: here it is lost.
func TestWaitThatBeginsLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		kept, held := a.lock("kept"), a.lock("stock")
		first := b.waits("kept")
		time.Sleep(10 * time.Second)
		sent := make(chan struct{})
		const late = 300 * time.Millisecond
		a.link.Only("Notify", faulty.Fault{Err: faulty.ErrLost})
		b.link.Once("Wait", faulty.Fault{Before: func() { close(sent) }, Hold: late})
		<-sent
		next := b.waits("stock")
		held.unlock(t)
		next.within(late + 25*time.Millisecond).unlock(t)
		a.link.Heal()
		kept.unlock(t)
		first.has().unlock(t)
	})
}

// Each notification that fails is a line for those who look for it; one that arrives is none.
func TestNotificationsInTheLog(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprint(fails), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				core, logs := observer.New(zapcore.DebugLevel)
				a, b := w.rig(locks.WithLogger(zap.New(core))), w.rig()
				want := 0
				if fails {
					want = 3
					a.link.Only("Notify", faulty.Fault{Err: faulty.ErrLost})
				}
				for range 3 {
					held := a.lock("stock")
					next := b.waits("stock")
					held.unlock(t)
					next.within(2 * time.Second).unlock(t)
				}
				if n := logs.FilterMessage("a waiter could not be woken").Len(); n != want {
					t.Errorf("%d lines, want %d", n, want)
				}
			})
		})
	}
}
