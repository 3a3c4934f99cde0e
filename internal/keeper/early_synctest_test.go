package keeper_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// early is what a follower is told of the leader.
type early struct {
	log                *observer.ObservedLogs // the follower's
	left, met, working bool
	err                error
	asked              int
}

// follower is a candidate beside a leader, both of which have been there for a while, that has seen a heartbeat a second ago.
func (e *early) follower(t *testing.T, ttl time.Duration) (leader *keeper.Held, follower *rig, c *keeper.Candidate) {
	t.Helper()
	store := memdb.New()
	leader = newRig(t, store, keeper.Config{Timing: lease.Timing{TTL: ttl}}).hold("g")
	core, log := observer.New(zap.InfoLevel)
	e.log = log
	follower = newRig(t, store, keeper.Config{Logger: zap.New(core)})
	c = follower.candidate("g")
	c.Early(&keeper.Early{
		Left: func(_ context.Context, token uint64, server string) (left, met bool) {
			e.asked++
			if token != leader.Token() || server == "" {
				t.Errorf("asked for token %d on %q", token, server)
			}
			return e.left, e.met
		},
		Working: func(context.Context) (bool, error) { return e.working, e.err },
	})
	time.Sleep(time.Minute + time.Second)
	follower.waits(c)
	return leader, follower, c
}

// suspects calls Suspect for a candidate that does not take the lease yet.
func (r *rig) suspects(c *keeper.Candidate) time.Duration {
	r.t.Helper()
	held, wait, err := c.Suspect(r.t.Context())
	if held != nil || err != nil || wait <= 0 {
		r.t.Fatalf("held %v, wait %v, error %v, want a wait", held, wait, err)
	}
	return wait
}

// A lease is taken at once from a leader that is gone and whose work does not go on. Its term may still be trusted: the next
// one says for how long, keeps the longer TTL, and is not released before unless all is settled.
func TestTakenEarly(t *testing.T) {
	for name, settle := range map[string]bool{"settled": true, "not settled": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := early{left: true}
				leader, follower, c := e.follower(t, 30*time.Second)
				held, wait, err := c.Suspect(t.Context())
				if held == nil || err != nil {
					t.Fatalf("wait %v, error %v", wait, err)
				}
				if e.log.FilterMessageSnippet("whose connection is gone").Len() != 1 {
					t.Errorf("logged %v", e.log.All())
				}
				if row := follower.row("g"); row.TTL != 30*time.Second || row.Token <= leader.Token() {
					t.Errorf("row %+v", row)
				}
				if stands := held.PreviousStands(); stands <= 20*time.Second || stands > 30*time.Second {
					t.Errorf("the previous term stands for %v", stands)
				}
				if settle {
					held.Settle()
				}
				if err := held.Release(t.Context()); (err == nil) != settle {
					t.Errorf("release: %v", err)
				}
				if row := follower.row("g"); row.Released != settle {
					t.Errorf("released %v", row.Released)
				}
				if settle {
					return
				}
				// Nor does it take, or release, its own lease again before that time is over.
				if wait := follower.waits(c); wait < 10*time.Second {
					t.Errorf("waits for %v", wait)
				}
				time.Sleep(31 * time.Second)
				follower.takes(c)
			})
		})
	}
}

// One that is taken in its time, or was given back, has the follower's TTL, and nothing stands.
func TestTakenInTime(t *testing.T) {
	for name, leave := range map[string]func(ctx context.Context, leader *keeper.Held) error{
		"expired":  func(_ context.Context, leader *keeper.Held) error { leader.Abandon(); return nil },
		"released": func(ctx context.Context, leader *keeper.Held) error { return leader.Release(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var e early
				leader, follower, c := e.follower(t, 30*time.Second)
				if err := leave(t.Context(), leader); err != nil {
					t.Fatal(err)
				}
				if name == "expired" {
					time.Sleep(40 * time.Second)
				}
				held := follower.takes(c)
				if row := follower.row("g"); row.TTL != 15*time.Second || held.PreviousStands() != 0 || e.log.FilterMessageSnippet("whose connection is gone").Len() != 0 {
					t.Errorf("row %+v, stands %v, logged %v", row, held.PreviousStands(), e.log.All())
				}
			})
		})
	}
}

// Without Early, and when the leader is not gone, Suspect is a Look.
func TestNotTakenEarly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var e early
		_, follower, c := e.follower(t, 15*time.Second)
		if wait := follower.suspects(c); wait < 9*time.Second || c.Suspects() {
			t.Errorf("waits for %v, suspects %v", wait, c.Suspects())
		}
		asked := e.asked
		follower.waits(c)
		if e.asked != asked {
			t.Error("a Look asks about the leader")
		}
		plain := follower.candidate("other")
		leader := newRig(t, follower.store).hold("other")
		if wait := follower.suspects(plain); wait < 9*time.Second || plain.Suspects() || !leader.Trusted() {
			t.Errorf("without Early: waits for %v, suspects %v", wait, plain.Suspects())
		}
	})
}

// The signal may come a moment before the connection is seen to be gone: until then the question stays open, less often each
// time, and no longer than that.
func TestSuspicionEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := early{met: true}
		_, follower, c := e.follower(t, 15*time.Second)
		for _, want := range []int{5, 10, 20, 40, 80, 160} {
			if wait := follower.suspects(c); wait != time.Duration(want)*time.Millisecond || !c.Suspects() {
				t.Errorf("waits for %v, suspects %v, want %v ms", wait, c.Suspects(), want)
			}
		}
		if wait := follower.suspects(c); wait < 9*time.Second || c.Suspects() {
			t.Errorf("waits for %v, suspects %v", wait, c.Suspects())
		}
	})
}

// A heartbeat disproves it.
func TestHeartbeatEndsSuspicion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := early{met: true}
		_, follower, c := e.follower(t, 15*time.Second)
		follower.suspects(c)
		if !c.Suspects() {
			t.Fatal("it is not open")
		}
		time.Sleep(6 * time.Second)
		e.left = true
		if wait := follower.suspects(c); wait < 9*time.Second || c.Suspects() {
			t.Errorf("waits for %v, suspects %v", wait, c.Suspects())
		}
	})
}

// Where the leader's work goes on, its next heartbeat has to be overdue; an error is told.
func TestTakenEarlyFromWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := early{left: true, err: errors.New("no answer")}
		leader, follower, c := e.follower(t, 15*time.Second)
		if held, _, err := c.Suspect(t.Context()); held != nil || !errors.Is(err, e.err) {
			t.Errorf("held %v, error %v", held, err)
		}
		e.err, e.working = nil, true
		leader.Abandon()
		stood := c.HeartbeatAge()
		began := time.Now()
		for {
			held, wait, err := c.Suspect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if held != nil {
				break
			}
			if !c.Suspects() {
				t.Fatal("the question is not open")
			}
			time.Sleep(wait)
		}
		// The interval of 5 s, and an attempt.
		timing := follower.Timing()
		if took := time.Since(began) + stood; took < 5*time.Second || took > 5*time.Second+timing.AttemptTimeout+time.Second {
			t.Errorf("taken %v after its last heartbeat", took)
		}
	})
}

// A late acquire is adopted also after a term of this process, and not one that is older.
func TestLateAcquireAfterATerm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		core, log := observer.New(zap.InfoLevel)
		r := newRig(t, memdb.New(), keeper.Config{Logger: zap.New(core)})
		c := r.candidate("g")
		if err := r.takes(c).Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.link.Once("Acquire", faulty.Fault{Err: faulty.ErrLost, Applied: true})
		if held, _, err := c.Look(t.Context()); held != nil || err == nil || !c.Refused() {
			t.Fatalf("held %v, error %v, refused %v", held, err, c.Refused())
		}
		acquires := r.link.Count("Acquire")
		if h := r.takes(c); r.link.Count("Acquire") != acquires || h.Token() != r.row("g").Token {
			t.Errorf("acquired again: token %d, row %+v", h.Token(), r.row("g"))
		}
		if c.Refused() {
			t.Error("it still counts as refused")
		}
		if log.FilterMessageSnippet("adopted").Len() != 1 {
			t.Errorf("logged %v", log.All())
		}
	})
}

// What a candidate knows before it has looked, and after.
func TestHeartbeatAge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		a, b := newRig(t, store), newRig(t, store)
		a.hold("g")
		c := b.candidate("g")
		if age := c.HeartbeatAge(); age != 0 || c.Refused() || c.Reading() != nil {
			t.Errorf("before a look: %v, refused %v", age, c.Refused())
		}
		b.waits(c)
		time.Sleep(2 * time.Second)
		if age := c.HeartbeatAge(); age < 1900*time.Millisecond || age > 2100*time.Millisecond || c.Refused() {
			t.Errorf("after 2 s: %v, refused %v", age, c.Refused())
		}
		if age, none := a.HeartbeatAge("g"), a.HeartbeatAge("other"); age != 2*time.Second || none != 0 {
			t.Errorf("to its holder: %v, and %v of a group that it does not hold", age, none)
		}
	})
}

// A replica that knows the group does not start it afresh at once when its rows are gone: the holder may trust its own.
func TestRowsAreGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		db := memdb.New()
		a, b := newRig(t, db), newRig(t, db)
		held := a.hold("g")
		c := b.candidate("g")
		b.waits(c)
		db.Update("g", func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) { return nil, nil })
		prepared := b.link.Count("Prepare")
		if wait := b.waits(c); wait < 9*time.Second || b.link.Count("Prepare") != prepared || !held.Trusted() {
			t.Errorf("waits for %v, prepared %d times", wait, b.link.Count("Prepare")-prepared)
		}
		time.Sleep(time.Minute)
		b.takes(c)
	})
}
