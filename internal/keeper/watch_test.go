package keeper

import (
	"math"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/clocks"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// follower is a watch whose readings are made at chosen seconds of its own
// clock, without latency, of a database whose clock is offset from it.
type follower struct {
	watch
	start  instant
	offset time.Duration
	server string
}

func newFollower() *follower {
	return &follower{watch: watch{ttl: 15 * time.Second, drift: 0.01}, start: instants(clocks.Now)(), server: "one"}
}

func (f *follower) at(second float64) instant {
	d := time.Duration(second * float64(time.Second))
	return instant{mono: f.start.mono.Add(d), wall: f.start.wall.Add(d)}
}

// database is the database's clock.
func (f *follower) database(second float64) time.Time { return f.at(second).wall.Add(f.offset) }

// row is a lease as it stands after a renewal at that second.
func (f *follower) row(token, beat uint64, renewed float64) *store.Lease {
	return &store.Lease{Owner: "o", Token: token, Heartbeat: beat, RenewedAt: f.database(renewed), TTL: 15 * time.Second}
}

// reads makes a reading at that second and returns from when on the lease may
// be taken, in seconds.
func (f *follower) reads(second float64, l *store.Lease, fence *store.Fence) float64 {
	r := store.Reading{Group: "g", Lease: l, Fence: fence, Now: f.database(second), Server: f.server}
	f.observe(r, f.at(second), f.at(second))
	return second + max(0, f.takeableIn(f.at(second)).Seconds())
}

// sees is reads, of a row beside its fence.
func (f *follower) sees(second float64, l *store.Lease) float64 {
	return f.reads(second, l, &store.Fence{Owner: l.Owner, Token: l.Token})
}

// about allows for the 1 % that clocks' rates may differ by, which is always to
// the holder's advantage.
func about(t *testing.T, got, want, slack float64) {
	t.Helper()
	if got < want || got > want+slack {
		t.Errorf("may be taken at %.3f s, want %.3f to %.3f s", got, want, want+slack)
	}
}

func TestFirstReadingWaitsATTL(t *testing.T) {
	t.Parallel()
	f := newFollower()
	about(t, f.sees(100, f.row(1, 1, 0)), 115, 0)
	about(t, f.sees(110, f.row(1, 1, 0)), 115, 0)
	about(t, f.sees(120, f.row(1, 1, 0)), 120, 0)
}

func TestReleasedAtOnce(t *testing.T) {
	t.Parallel()
	f := newFollower()
	row := f.row(1, 1, 0)
	row.Released = true
	about(t, f.sees(1, row), 1, 0)

	f = newFollower()
	f.sees(1, f.row(1, 1, 0))
	about(t, f.sees(2, row), 2, 0)
}

// What counts is the age of the heartbeat, not when it was seen.
func TestAgeOfANewHeartbeat(t *testing.T) {
	t.Parallel()
	f := newFollower()
	f.sees(0, f.row(1, 1, 0))
	about(t, f.sees(14, f.row(1, 2, 5)), 20, 0.15)
	about(t, f.sees(16, f.row(1, 2, 5)), 20, 0.15)
	about(t, f.sees(19, f.row(2, 3, 17)), 32, 0.15) // a new term is news too
}

func TestSteppedDatabaseClock(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Hour, -time.Hour, 2 * time.Second, -2 * time.Second} {
		// Before the heartbeat: its row shows the new time.
		f := newFollower()
		f.sees(0, f.row(1, 1, 0))
		f.offset = step
		if got := f.sees(14, f.row(1, 2, 5)); got < 20 || got > 29 {
			t.Errorf("step %v before a heartbeat at 5 s: may be taken at %.3f s", step, got)
		}
		// After it.
		f = newFollower()
		f.sees(0, f.row(1, 1, 0))
		row := f.row(1, 2, 5)
		f.offset = step
		if got := f.sees(14, row); got < 20 || got > 29 {
			t.Errorf("step %v after a heartbeat at 5 s: may be taken at %.3f s", step, got)
		}
		// While nothing changes it is not asked.
		f = newFollower()
		f.sees(0, f.row(1, 1, 0))
		row = f.row(1, 1, 0)
		f.offset = step
		about(t, f.sees(10, row), 15, 0)
	}
}

// The database's clock runs slow by 1 %, and is set right after the heartbeat:
// no reading shows that it gained anything.
func TestSlowDatabaseClockThatIsSetRight(t *testing.T) {
	t.Parallel()
	f := newFollower()
	f.sees(0, f.row(1, 1, 0))
	f.offset = -280 * time.Millisecond
	row := f.row(1, 2, 28)
	f.offset = 0
	if got := f.sees(29, row); got < 43 {
		t.Errorf("a heartbeat of 28 s may be taken at %.3f s", got)
	}
}

// A replica that did not follow for a while does not trust the age of a
// heartbeat: in that time the database's clock may have been stepped back and
// forth.
func TestReadingBeforeIsLongAgo(t *testing.T) {
	t.Parallel()
	f := newFollower()
	f.sees(0, f.row(1, 1, 0))
	f.offset = -time.Hour
	row := f.row(1, 2, 999)
	f.offset = 0
	about(t, f.sees(1000, row), 1015, 0)

	f = newFollower() // for two TTLs it does
	f.sees(0, f.row(1, 1, 0))
	about(t, f.sees(30, f.row(1, 2, 25)), 40, 0.5)
}

// The renewal began at 4.9 s and waited; the clock was stepped, the row read as
// it was, and only then was it written.
func TestHeartbeatThatWaitedInTheServer(t *testing.T) {
	t.Parallel()
	f := newFollower()
	f.sees(0, f.row(1, 1, 0))
	waited := f.row(1, 2, 4.9)
	f.offset = time.Hour
	f.sees(5, f.row(1, 1, 0))
	if got := f.sees(6, waited); got < 19.9 {
		t.Errorf("a heartbeat of 4.9 s may be taken at %.3f s", got)
	}
}

func TestRowThatIsBehind(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]func(*follower) *store.Lease{
		"token":           func(f *follower) *store.Lease { return f.row(8, 99, -100) },
		"heartbeat":       func(f *follower) *store.Lease { return f.row(9, 4, -100) },
		"token, released": func(f *follower) *store.Lease { r := f.row(8, 99, -100); r.Released = true; return r },
	} {
		f := newFollower()
		f.sees(0, f.row(9, 5, 0))
		if got := f.sees(10, row(f)); got < 25 || got > 25.2 {
			t.Errorf("%s: may be taken at %.3f s", name, got)
		}
		about(t, f.sees(20, row(f)), 25, 0)
		about(t, f.sees(26, row(f)), 26, 0)
	}
}

// The two rows are written together, so a fence that is ahead tells the same
// to a replica that has seen nothing yet.
func TestLeaseBehindItsFence(t *testing.T) {
	t.Parallel()
	f := newFollower()
	row := f.row(8, 1, -100)
	row.Released = true
	about(t, f.reads(10, row, &store.Fence{Owner: "newer", Token: 9}), 25, 0)
	about(t, f.reads(20, row, &store.Fence{Owner: "newer", Token: 9}), 25, 0)
}

func TestBehindItsOwnTerm(t *testing.T) {
	t.Parallel()
	f := newFollower()
	f.sees(0, f.row(1, 1, 0))
	f.saw(7, 3, 15*time.Second) // no reading ever showed it
	about(t, f.sees(100, f.row(7, 2, 0)), 115, 0)
}

// Rewound to exactly the row that was read before this replica's own term.
func TestRewoundToTheReadingBeforeItsOwnTerm(t *testing.T) {
	t.Parallel()
	released := func(f *follower) *store.Lease { r := f.row(5, 5, 0); r.Released = true; return r }
	f := newFollower()
	about(t, f.sees(0, released(f)), 0, 0)
	f.saw(7, 1, 15*time.Second)
	about(t, f.sees(100, released(f)), 115, 0)
	about(t, f.sees(110, released(f)), 115, 0)
	f.saw(8, 1, 15*time.Second) // and again
	about(t, f.sees(200, released(f)), 215, 0)

	f = newFollower()
	empty := &store.Lease{RenewedAt: f.database(0), TTL: 15 * time.Second, Released: true}
	f.reads(0, nil, nil)
	about(t, f.sees(0, empty), 0, 0)
	f.saw(7, 1, 15*time.Second)
	about(t, f.reads(100, nil, nil), 115, 0)
	about(t, f.sees(115, empty), 115, 0)
	f.saw(8, 1, 15*time.Second)
	about(t, f.reads(200, nil, nil), 215, 0)
}

func TestDeletedLease(t *testing.T) {
	t.Parallel()
	fence := &store.Fence{Owner: "o", Token: 5}
	for _, known := range []bool{true, false} {
		f := newFollower()
		if known {
			f.sees(0, f.row(5, 5, 0))
		}
		about(t, f.reads(10, nil, fence), 25, 0)
		prepared := f.row(6, 0, 10)
		about(t, f.reads(10, prepared, fence), 25, 0.15)
		about(t, f.reads(20, prepared, fence), 25, 0.15)
	}
}

func TestBothRowsAbsent(t *testing.T) {
	t.Parallel()
	prepared := func(f *follower) *store.Lease {
		return &store.Lease{RenewedAt: f.database(0), TTL: 15 * time.Second, Released: true}
	}
	f := newFollower() // a new group
	about(t, f.reads(10, nil, nil), 10, 0)
	about(t, f.sees(10, prepared(f)), 10, 0)

	f = newFollower() // known here, gone there
	f.sees(0, f.row(5, 5, 0))
	about(t, f.reads(10, nil, nil), 25, 0)
	about(t, f.reads(20, nil, nil), 25, 0)
	about(t, f.reads(26, nil, nil), 26, 0)
	about(t, f.sees(26, prepared(f)), 26, 0) // not a second TTL for the empty row
}

func TestOtherServer(t *testing.T) {
	t.Parallel()
	f := newFollower()
	f.sees(0, f.row(5, 5, 0))
	released := f.row(5, 5, 0)
	released.Released = true
	f.server = "two"
	about(t, f.sees(10, released), 25, 0)
	about(t, f.sees(20, released), 25, 0)
	f.server = "one"
	about(t, f.sees(21, released), 36, 0)
	// An unreleased row begins anew, whatever its age was.
	f = newFollower()
	f.sees(0, f.row(5, 5, 0))
	f.server = "two"
	about(t, f.sees(14, f.row(5, 6, 1)), 29, 0)
}

func TestMixedTTLs(t *testing.T) {
	t.Parallel()
	long := func(r *store.Lease) *store.Lease { r.TTL = time.Minute; return r }
	f := newFollower() // the holder's counts, not the follower's
	about(t, f.sees(0, long(f.row(1, 1, 0))), 60, 0)
	f = newFollower()
	f.ttl = time.Minute
	about(t, f.sees(0, f.row(1, 1, 0)), 15, 0)

	for name, lost := range map[string]func(f *follower) float64{
		"other server": func(f *follower) float64 { f.server = "two"; return f.sees(10, f.row(4, 4, -100)) },
		"rewound":      func(f *follower) float64 { return f.sees(10, f.row(4, 4, -100)) },
		"deleted":      func(f *follower) float64 { return f.reads(10, nil, &store.Fence{Token: 5}) },
		"both deleted": func(f *follower) float64 { return f.reads(10, nil, nil) },
		"row is long": func(f *follower) float64 {
			f.highTTL, f.server = 0, "two"
			r := long(f.row(6, 6, -100))
			r.Released = true
			return f.sees(10, r)
		},
		"own is long": func(f *follower) float64 { f.ttl = time.Minute; return f.sees(10, f.row(4, 4, -100)) },
	} {
		f := newFollower()
		f.sees(0, long(f.row(5, 5, 0)))
		if got := lost(f); got != 70 {
			t.Errorf("%s: the holder of a minute may be replaced at %.3f s", name, got)
		}
	}
}

// A TTL that no replica can have is the longest one that they can.
func TestAbsurdTTLs(t *testing.T) {
	t.Parallel()
	const day = 24 * 60 * 60
	absurd := func(l *store.Lease, ttl time.Duration) *store.Lease { l.TTL = ttl; return l }
	f := newFollower()
	about(t, f.sees(0, absurd(f.row(1, 1, 0), math.MaxInt64)), day, 0)
	// It is no longer remembered either.
	about(t, f.reads(10, nil, nil), 10+day, 0)
	if f.highTTL > lease.MaxTTL {
		t.Errorf("remembers %v", f.highTTL)
	}
	f = newFollower()
	about(t, f.sees(0, absurd(f.row(1, 1, 0), math.MinInt64)), 0, 0)
}
