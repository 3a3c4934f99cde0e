package keeper_test

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/lease"
)

// A server that is only read shows a lost term's row for as long as that lasts:
// each look tries to release it, and one line tells of it.
func TestLeftOverIsToldOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		r := newRig(t, memdb.New(), keeper.Config{Logger: zap.New(core)})
		c := r.candidate("g")
		h := r.takes(c)
		r.link.Always(func(op string) faulty.Fault {
			if op == "Read" {
				return faulty.Fault{}
			}
			return faulty.Fault{Err: faulty.ErrLost}
		})
		<-h.Context().Done()
		_ = h.Release(t.Context()) // it fails as everything does that writes
		for range 20 {
			if held, _, err := c.Look(t.Context()); held != nil || err == nil {
				t.Fatalf("held %v, %v", held, err)
			}
			time.Sleep(time.Second)
		}
		if n := logs.FilterMessage("releasing a lease that this process took and does not keep").Len(); n != 1 {
			t.Errorf("told %d times", n)
		}
		r.link.Heal()
		lookUntilHeld(t, r, c)
	})
}

// A term that this process has begun to release is not adopted, even if what kept it from that is over: the release may
// still arrive, and free the lease for another replica.
func TestReleasedIsNotAdopted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		c := r.candidate("g")
		var shut error
		c.Gate(func(lease.Skew) error { return shut })
		r.link.Once("Acquire", faulty.Fault{Err: faulty.ErrLost, Applied: true})
		if _, _, err := c.Look(t.Context()); err == nil {
			t.Fatal("the acquire was answered")
		}
		released := r.row("g").Token
		shut = errors.New("the clocks disagree")
		late := faulty.Fault{Err: faulty.ErrLost, Late: 2 * time.Second}
		r.link.Once("Release", late, late, late) // it is tried again
		if _, _, err := c.Look(t.Context()); err == nil {
			t.Fatal("the release was answered")
		}
		shut = nil
		if h := lookUntilHeld(t, r, c); h.Token() == released {
			t.Errorf("term %d was adopted", released)
		}
	})
}
