package locks_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/locks"
)

const (
	troubleBegins = "database trouble: trying again, and saying so once a minute"
	troubleEnds   = "database trouble over"
)

// The log reports the end of an outage when the database is back, even if the tasks
// that failed are no longer needed: any other success is proof enough.
func TestTroubleEndsWithoutThoseWhoMetIt(t *testing.T) {
	for name, test := range map[string]struct {
		failing, task string // the kind of statement, and what it is for
		tries         bool   // instead of waiting
	}{
		"waited for":        {"ReadLocks", "read locks that are waited for", false},
		"holder":            {"Read", "look whether the holder of a lock is alive", false},
		"holder, of a try":  {"Read", "look whether the holder of a lock is alive", true},
		"write of a waiter": {"WriteLocks", "write locks", false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				core, logs := observer.New(zapcore.DebugLevel)
				a, b := w.rig(), w.rig(locks.WithLogger(zap.New(core)))
				held, kept := a.lock("stock"), b.lock("kept")
				var waiting *waiter
				if !test.tries {
					waiting = b.waits("stock")
				}
				b.link.Only(test.failing, faulty.Fault{Err: faulty.ErrLost})
				if waiting == nil {
					is(t, second(b.Mutex("stock").TryLock(t.Context())), locks.ErrBusy)
				}
				time.Sleep(timing.TTL + 3*time.Second) // until it is time to look at the holder
				if waiting != nil {
					waiting.stop(errors.New("not wanted any more"))
				}
				time.Sleep(3 * time.Second)
				if logs.FilterField(zap.String("task", test.task)).Len() == 0 {
					t.Fatalf("%q has not failed: %v", test.task, logs.All())
				}
				b.link.Heal()
				time.Sleep(2 * timing.RenewEvery)
				if begun, over := logs.FilterMessage(troubleBegins).Len(), logs.FilterMessage(troubleEnds).Len(); begun != 1 || over != 1 {
					t.Errorf("%v after the database is back, %d outages have begun and %d are over", 2*timing.RenewEvery, begun, over)
				}
				kept.unlock(t)
				held.unlock(t)
			})
		})
	}
}

// A row that cannot be written is no outage while others can, in whatever order that
// is found out.
func TestBrokenRowIsNoOutage(t *testing.T) {
	for after := range 20 {
		t.Run(fmt.Sprint(after, " ms"), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				core, logs := observer.New(zapcore.InfoLevel)
				a := w.rig(locks.WithLogger(zap.New(core)))
				kept := a.lock("kept")
				w.breakWrites("broken", true)
				waiting := a.waits("broken")
				time.Sleep(time.Duration(after) * time.Millisecond)
				other := a.lock("other")
				time.Sleep(2 * timing.RenewEvery)
				// The row's own trouble goes on.
				if begun, over := logs.FilterMessage(troubleBegins).Len(), logs.FilterMessage(troubleEnds).Len(); begun != over+1 {
					t.Errorf("%d outages have begun and %d are over", begun, over)
				}
				w.breakWrites("broken", false)
				waiting.within(2 * time.Second).unlock(t)
				other.unlock(t)
				kept.unlock(t)
			})
		})
	}
}
