// Package tickclock is the clock that ticks are judged by.
package tickclock

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/clocks"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
)

// ErrSkew is what users know as scheduler.ErrSkew.
var ErrSkew = errors.New("scheduler: the clocks disagree")

// Config is what a clock goes by.
type Config struct {
	Own      func() clocks.Instant
	ByWorker bool                  // ticks are judged by this machine's clock alone
	Most     time.Duration         // that the two may differ by
	Drift    float64               // by which their rates may
	Emit     func(event.ClockSkew) // gives it a header
}

// Clock is the clock that ticks are judged by. The database's is known from
// what statements tell of it, and goes on by this machine's monotonic clock in
// between, so that setting the machine's time of day moves no tick. Its methods are
// safe for concurrent use.
type Clock struct {
	Config

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

// New returns a clock that knows nothing of the database's.
func New(c Config) *Clock { return &Clock{Config: c} }

// Now is the present by the clock that ticks are judged by.
func (c *Clock) Now() time.Time {
	own := c.Own()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ByWorker || !c.known {
		return own.Wall
	}
	return c.shown.Add(own.Mono.Sub(c.at))
}

// Observe takes in what a statement has just shown. It returns an error that
// matches [ErrSkew] while the clocks disagree.
func (c *Clock) Observe(s lease.Skew) error {
	own := c.Own()
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
	expected, doubt := c.shown.Add(passed), c.bound+time.Duration(float64(passed)*c.Drift)
	// Do not use a clock that disagrees: ticks might start by it until the term is
	// over, or until the log has taken the line about it.
	switch {
	case wrong != nil:
	case !c.known, bound <= doubt:
		c.known, c.at, c.shown, c.bound = true, own.Mono, shown, bound
	case shown.Sub(expected).Abs() > bound+doubt:
		// The earliest that it can be: else ticks would start before their time because an answer was slow.
		c.at, c.shown, c.bound = own.Mono, shown.Add(-bound), 2*bound
	}
	c.mu.Unlock()
	say() // not with mu held: a log that is blocked must not stop the clock
	return wrong
}

// judge says whether the clocks disagree, and returns what tells of it if it is
// new, as it is the first time. It is called with mu held.
func (c *Clock) judge(first bool) (say func()) {
	say = func() {}
	const least, again = time.Second, 500 * time.Millisecond
	ahead, sure := c.skew.Ahead, c.skew.Ahead.Abs()-c.skew.Bound
	tell := func(now event.Agreement) func() {
		e := event.ClockSkew{Skew: c.skew, Now: now, Most: c.Most, ByDatabase: !c.ByWorker, First: first}
		return func() { c.Emit(e) }
	}
	switch wrong := sure > c.Most; {
	case wrong && !c.ByWorker && c.wrong == nil:
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
	if sure > c.Most && !c.ByWorker {
		how := "ahead of"
		if ahead < 0 {
			how = "behind"
		}
		c.wrong = fmt.Errorf("%w: the database's is %v %s this machine's, and max_skew is %v", ErrSkew, ahead.Abs().Round(time.Millisecond), how, c.Most)
	}
	return say
}

// Last is the skew as the newest statement showed it; false before the first.
func (c *Clock) Last() (lease.Skew, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew, c.seen
}

// Ours translates an instant that the database stamped into the clock that ticks
// are judged by. Where the two are that clock, or as good as one, nothing
// changes: a difference that is measured a little differently each time must not
// move the phase of a schedule.
func (c *Clock) Ours(at time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ByWorker || at.IsZero() || c.skew.Ahead.Abs() <= time.Second {
		return at
	}
	return at.Add(-c.skew.Ahead).Truncate(time.Microsecond)
}

// NotAfter is an instant by the clock that ticks are judged by which is not after one that the database has just
// stamped, and hardly before it. Unlike [Clock.Ours] it counts differences of less than a second, so it may be another
// one each time.
func (c *Clock) NotAfter(at time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ByWorker || at.IsZero() {
		return at
	}
	return at.Add(-c.skew.Ahead - c.skew.Bound).Truncate(time.Microsecond)
}

// Theirs is the reverse of [Clock.Ours].
func (c *Clock) Theirs(at time.Time) time.Time {
	return at.Add(at.Sub(c.Ours(at)))
}

// Known is what the ledger knows of a job, with the instants that ticks are counted from by the clock that these are judged by.
func (c *Clock) Known(known jobs.Known) jobs.Known {
	known.Finished = c.Ours(known.Finished)
	return known
}

// Apart is the present by the clock that ticks are judged by, where that is this machine's; zero: it is the database's.
func (c *Clock) Apart() (now time.Time) {
	if c.ByWorker {
		now = c.Now().UTC().Truncate(time.Microsecond)
	}
	return now
}
