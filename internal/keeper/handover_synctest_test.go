package keeper_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// handing is a leader, and a follower that has looked.
type handing struct {
	t        *testing.T
	store    *memdb.Store
	held     *keeper.Held
	follower *rig
	c        *keeper.Candidate
	looked   time.Time // by the database's clock
	barred   error     // what the follower's gate says
	skews    []lease.Skew
}

func newHanding(t *testing.T) *handing {
	t.Helper()
	s := memdb.New()
	h := &handing{t: t, store: s, held: newRig(t, s).hold("g"), follower: newRig(t, s)}
	h.c = h.follower.candidate("g")
	h.c.Gate(func(s lease.Skew) error {
		h.skews = append(h.skews, s)
		return h.barred
	})
	h.look()
	time.Sleep(time.Minute) // and heartbeats that the follower does not see
	h.look()
	time.Sleep(7 * time.Second)
	return h
}

func (h *handing) look() {
	h.t.Helper()
	h.follower.waits(h.c)
	h.looked = h.c.Reading().Now
}

func (h *handing) release() {
	h.t.Helper()
	if err := h.held.Release(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// take is a Take, and whether its statement was sent.
func (h *handing) take() (held *keeper.Held, sent bool, err error) {
	h.t.Helper()
	before := h.follower.link.Count("Take")
	signal := faulty.Signals{To: h.store, Send: h.follower.link.Line.Send}.HandoverSignal("g")
	defer func() { _ = signal.Close() }()
	held, err = h.c.Take(h.t.Context(), signal.(store.DirectHandover))
	return held, h.follower.link.Count("Take") > before, err
}

func (h *handing) takesNothing(wantSent bool) {
	h.t.Helper()
	held, sent, err := h.take()
	if held != nil || err != nil || sent != wantSent {
		h.t.Fatalf("held %v, %v, sent %v", held, err, sent)
	}
}

func TestTake(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newHanding(t)
		reads, asked := h.follower.link.Count("Read"), len(h.skews)
		ended := h.follower.row("g").RenewedAt
		h.release()
		held, _, err := h.take()
		if held == nil || err != nil || !held.Trusted() {
			t.Fatalf("%v, %v", held, err)
		}
		if n := h.follower.link.Count("Read") - reads; n != 0 {
			t.Errorf("%d readings", n)
		}
		row, p := h.follower.row("g"), held.Previous()
		if row.Token != held.Token() || row.Owner != held.Owner() || row.Released || row.Token <= h.held.Token() {
			t.Errorf("token %d after %d, row %+v", held.Token(), h.held.Token(), row)
		}
		if p.Token != h.held.Token() || p.RenewedAt.After(ended) || p.RenewedAt.Before(h.looked.Add(-3*time.Second)) {
			t.Errorf("previous: %+v; its last heartbeat was at %v, the look before at %v", p, ended, h.looked)
		}
		if len(h.skews) != asked+1 {
			t.Errorf("the gate was asked %d times", len(h.skews)-asked)
		}
		// The term is one like any other.
		time.Sleep(time.Minute)
		if !held.Trusted() {
			t.Error("the term was lost")
		}
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.follower.takes(h.c)
	})
}

// What a look would not take, Take does not take either.
func TestTakeIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		before func(h *handing)
		sent   bool
	}{
		"not released": {func(*handing) {}, true},
		"released, then held by another": {func(h *handing) {
			h.release()
			newRig(h.t, h.store).hold("g")
		}, true},
		"another server since the look": {func(h *handing) {
			h.store.Restart()
			h.release()
		}, true},
		"a quarantine after another server": {func(h *handing) {
			h.store.Restart()
			h.look()
			h.release()
		}, false},
		"behind the newest term": {func(h *handing) {
			restore := h.store.Backup()
			h.release()
			newRig(h.t, h.store).hold("g")
			h.look()
			restore()
			h.look()
			h.follower.change("g", func(l *store.Lease) { l.Released = true })
		}, false},
		"behind the newest heartbeat": {func(h *handing) {
			h.follower.change("g", func(l *store.Lease) { l.Heartbeat -= 20 })
			h.look()
			h.follower.change("g", func(l *store.Lease) { l.Released = true })
		}, false},
		"rewound to before a term of this replica": {func(h *handing) {
			h.release()
			restore := h.store.Backup()
			held, _, err := h.take()
			if held == nil || err != nil {
				h.t.Fatal(err)
			}
			if err := held.Release(h.t.Context()); err != nil {
				h.t.Fatal(err)
			}
			newRig(h.t, h.store).hold("g")
			restore()
		}, false},
		"rewound since the look": {func(h *handing) {
			h.follower.change("g", func(l *store.Lease) { l.Heartbeat, l.Released = l.Heartbeat-20, true })
		}, true},
		"rewound by one of the two rows": {func(h *handing) {
			h.store.Update("g", func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) {
				l.Released = true
				f.Token++
				return l, f
			})
		}, true},
		"barred by the last look": {func(h *handing) {
			h.barred = errors.New("no")
			h.look()
			h.release()
		}, false},
		"the row is gone": {func(h *handing) {
			h.store.Update("g", func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) { return nil, nil })
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := newHanding(t)
				c.before(h)
				h.takesNothing(c.sent)
			})
		})
	}
}

// The signal may come right after a look.
func TestTakeRightAfterALook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newHanding(t)
		h.look()
		h.release()
		if held, _, err := h.take(); held == nil || err != nil {
			t.Errorf("%v, %v", held, err)
		}
	})
}

func TestTakeWithoutALook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newHanding(t)
		h.release()
		h.c = h.follower.candidate("g")
		h.takesNothing(false)
	})
}

// The clock that the new token shows is asked about, before anything is done under
// it. A term that does not pass is given back by the look that follows.
func TestTakeAsksTheGate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newHanding(t)
		h.release()
		h.store.StepClock(time.Hour)
		h.barred = errors.New("no")
		h.takesNothing(true)
		if s := h.skews[len(h.skews)-1]; s.Ahead < 59*time.Minute || s.Ahead > 61*time.Minute {
			t.Errorf("the gate was told %+v", s)
		}
		h.look()
		if row := h.follower.row("g"); !row.Released {
			t.Errorf("kept: %+v", row)
		}
	})
}

// A token that is only the next one shows no clock: the look decides.
func TestTakeAfterTheClockWasSetBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newHanding(t)
		h.release()
		h.store.StepClock(-time.Hour)
		h.takesNothing(true)
		held := h.follower.takes(h.c)
		if p := held.Previous(); p.Token != h.held.Token()+1 {
			t.Errorf("previous: %+v after %d", p, h.held.Token())
		}
	})
}

// The term before must not seem to have ended later than it did.
func TestTakeAfterTheClockWasSetBackALittle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newHanding(t)
		h.store.StepClock(-20 * time.Second)
		h.release()
		held, _, err := h.take()
		if held == nil || err != nil {
			t.Fatal(err)
		}
		if p, latest := held.Previous(), h.looked.Add(-20*time.Second); p.RenewedAt.After(latest) {
			t.Errorf("the term before ended at %v, want %v at the latest", p.RenewedAt, latest)
		}
	})
}

// A Take whose answer was lost is not adopted: the look releases what it took, and
// takes the lease again.
func TestTakeWithoutAnAnswer(t *testing.T) {
	for name, fault := range map[string]faulty.Fault{
		"applied": {Err: faulty.ErrLost, Applied: true},
		"lost":    {Err: faulty.ErrLost},
		"late":    {Err: faulty.ErrLost, Late: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := newHanding(t)
				h.release()
				h.follower.link.Once("Take", fault)
				if held, sent, err := h.take(); held != nil || !sent || !errors.Is(err, faulty.ErrLost) {
					t.Fatalf("held %v, %v, sent %v", held, err, sent)
				}
				held := h.follower.takes(h.c)
				time.Sleep(5 * time.Second)
				if row := h.follower.row("g"); row.Token != held.Token() || !held.Trusted() {
					t.Errorf("term %d, row %+v", held.Token(), row)
				}
			})
		})
	}
}

// A release whose first try fails, whatever the signal did, is made as ever.
func TestHandOverFallsBack(t *testing.T) {
	for name, c := range map[string]struct {
		faults []faulty.Fault
		has    bool
	}{
		"in one":             {nil, true},
		"without the signal": {nil, false},
		"no answer":          {[]faulty.Fault{{Err: faulty.ErrLost, Applied: true}}, true},
		"never there":        {[]faulty.Fault{{Err: faulty.ErrLost}, {Err: faulty.ErrLost}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, memdb.New())
				held := r.hold("g")
				signal := faulty.Signals{To: r.store, Send: r.link.Line.Send}.HandoverSignal("g").(store.DirectHandover)
				if c.has {
					if err := signal.Wait(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				r.link.Once("Release", c.faults...)
				if err := held.HandOver(t.Context(), signal); err != nil {
					t.Fatal(err)
				}
				if row := r.row("g"); !row.Released {
					t.Errorf("row %+v", row)
				}
				if err := signal.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// A hand-over passes the signal with the release.
func TestHandOverPassesTheSignal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memdb.New())
		held := r.hold("g")
		signal, next := r.store.HandoverSignal("g").(store.DirectHandover), r.store.HandoverSignal("g")
		if err := signal.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := held.HandOver(t.Context(), signal); err != nil {
			t.Fatal(err)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := next.Wait(soon); err != nil {
			t.Errorf("the next in line: %v", err)
		}
		for _, s := range []store.HandoverSignal{signal, next} {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A term has moved once another server than that of the acquire has answered, and for good.
func TestMoved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		held := newRig(t, memdb.New()).hold("g")
		first := held.Server()
		moved := func() bool {
			select {
			case <-held.Moved():
				return true
			default:
				return false
			}
		}
		for _, step := range []struct {
			answered, server string
			moved            bool
		}{{first, first, false}, {"another", "", true}, {first, "", true}} {
			held.Answered(step.answered)
			if moved() != step.moved || held.Server() != step.server {
				t.Errorf("after %q has answered: moved %v, server %q", step.answered, moved(), held.Server())
			}
		}
	})
}
