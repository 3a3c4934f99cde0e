package scheduler

import (
	"fmt"
	"time"

	"github.com/cronlease/cronlease/scheduler/internal/tickclock"
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
var ErrSkew = tickclock.ErrSkew
