package keeper_test

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/memdb"
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
