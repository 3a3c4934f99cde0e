package scheduler

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/clocks"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
)

// Clock says which clock decides what is due.
type Clock uint8

const (
	// DatabaseClock judges ticks by the database's clock, which is the same for
	// all replicas. The default.
	DatabaseClock Clock = iota
	// WorkerClock judges ticks by the clock of the machine that leads, and only
	// warns when the database's differs.
	WorkerClock
)

// String returns "database" or "worker".
func (c Clock) String() string {
	switch c {
	case DatabaseClock:
		return "database"
	case WorkerClock:
		return "worker"
	}
	return fmt.Sprintf("Clock(%d)", uint8(c))
}

// MarshalText implements [encoding.TextMarshaler].
func (c Clock) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (c *Clock) UnmarshalText(text []byte) (err error) {
	*c, err = ParseClock(string(text))
	return err
}

// ParseClock is the reverse of String.
func ParseClock(name string) (Clock, error) {
	for _, c := range []Clock{DatabaseClock, WorkerClock} {
		if c.String() == name {
			return c, nil
		}
	}
	return 0, fmt.Errorf("%q: must be database or worker", name)
}

// DefaultMaxSkew is how far the database's clock and a replica's may differ
// unless [WithMaxSkew] says otherwise.
const DefaultMaxSkew = 10 * time.Minute

// ErrSkew says that the database's clock and this machine's differ by more than
// [WithMaxSkew] allows. One of them is wrong, but there is no way to tell which.
var ErrSkew = errors.New("scheduler: the clocks disagree")

// tickClock is the clock that ticks are judged by. The database's is known from
// what statements tell of it, and goes on by this machine's monotonic clock in
// between, so that setting the machine's time of day moves no tick.
type tickClock struct {
	own   func() clocks.Instant
	kind  Clock
	most  time.Duration         // that the two may differ by
	drift float64               // by which their rates may
	emit  func(event.ClockSkew) // gives it a header

	mu    sync.Mutex
	known bool
	at    time.Time     // by the monotonic clock: when the database's clock showed
	shown time.Time     // this,
	bound time.Duration // or that much more or less
	seen  bool          // whether a statement has shown
	skew  lease.Skew    // this, the newest one
	told  bool          // that the clocks differ
	wrong error         // matches ErrSkew while they disagree
}

// now is the present by the clock that ticks are judged by.
func (c *tickClock) now() time.Time {
	own := c.own()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kind == WorkerClock || !c.known {
		return own.Wall
	}
	return c.shown.Add(own.Mono.Sub(c.at))
}

// observe takes in what a statement has just shown. It returns an error that
// matches [ErrSkew] while the clocks disagree.
func (c *tickClock) observe(s lease.Skew) error {
	own := c.own()
	bound := s.Bound
	if s.Ahead.Abs() <= s.Bound { // the statement cannot tell them apart
		bound += s.Ahead.Abs()
		s.Ahead = 0
	}
	shown := own.Wall.Add(s.Ahead)
	c.mu.Lock()
	first := !c.seen
	c.seen, c.skew = true, s
	say := c.judge(first)
	wrong := c.wrong
	// A statement that was long under way says less than what is known, unless
	// it shows that what is known is wrong: both cannot be true.
	passed := own.Mono.Sub(c.at)
	expected, doubt := c.shown.Add(passed), c.bound+time.Duration(float64(passed)*c.drift)
	// Do not use a clock that disagrees: ticks might start by it until the term is
	// over, or until the log has taken the line about it.
	if wrong == nil && (!c.known || bound <= doubt || shown.Sub(expected).Abs() > bound+doubt) {
		c.known, c.at, c.shown, c.bound = true, own.Mono, shown, bound
	}
	c.mu.Unlock()
	say() // not with mu held: a log that is blocked must not stop the clock
	return wrong
}

// judge says whether the clocks disagree, and returns what tells of it if it is
// new, as it is the first time. It is called with mu held.
func (c *tickClock) judge(first bool) (say func()) {
	say = func() {}
	const least, again = time.Second, 500 * time.Millisecond
	ahead, sure := c.skew.Ahead, c.skew.Ahead.Abs()-c.skew.Bound
	tell := func(now event.Agreement) func() {
		e := event.ClockSkew{Skew: c.skew, Now: now, Most: c.most, ByDatabase: c.kind == DatabaseClock, First: first}
		return func() { c.emit(e) }
	}
	switch wrong := sure > c.most; {
	case wrong && c.kind == DatabaseClock && c.wrong == nil:
		say = tell(event.Disagree)
		c.told = true
	case sure > least && !c.told:
		say = tell(event.Differ)
		c.told = true
	case first, !wrong && c.wrong != nil, sure < again && c.told:
		say = tell(event.Agree)
		c.told = sure > least
	}
	c.wrong = nil
	if sure > c.most && c.kind == DatabaseClock {
		how := "ahead of"
		if ahead < 0 {
			how = "behind"
		}
		c.wrong = fmt.Errorf("%w: the database's is %v %s this machine's, and max_skew is %v", ErrSkew, ahead.Abs().Round(time.Millisecond), how, c.most)
	}
	return say
}

// last is the skew as the newest statement showed it; false before the first.
func (c *tickClock) last() (lease.Skew, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew, c.seen
}

// ours translates an instant that the database stamped into the clock that ticks
// are judged by. Where the two are that clock, or as good as one, nothing
// changes: a difference that is measured a little differently each time must not
// move the phase of a schedule.
func (c *tickClock) ours(at time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kind == DatabaseClock || at.IsZero() || c.skew.Ahead.Abs() <= time.Second {
		return at
	}
	return at.Add(-c.skew.Ahead).Truncate(time.Microsecond)
}

// theirs is the reverse of ours.
func (c *tickClock) theirs(at time.Time) time.Time {
	return at.Add(at.Sub(c.ours(at)))
}

// both are ours and theirs, for what plans.
func (c *tickClock) both() plan.Clocks { return plan.Clocks{Ours: c.ours, Theirs: c.theirs} }
