package jobs

import (
	"errors"
	"fmt"
	"time"
)

// Schedule says which instants are ticks. It has to give the same answers on
// every replica: it depends on its argument alone, never on when the process
// started. Implementations are safe for concurrent use.
type Schedule interface {
	// Next returns the first tick after the instant: strictly later, in UTC,
	// and the zero time when there is none any more.
	Next(after time.Time) time.Time
	// String describes the schedule completely: two schedules with one text
	// have the same ticks. When a leader has another text than the ledger, it looks for ticks of the one before
	// that are due and have no row. Where [ParseSchedule] does not know that, the new schedule rules from a TTL before the
	// end of the last term that had it.
	String() string
}

// EverySchedule has a tick every so often. See [Every].
type EverySchedule struct {
	every time.Duration
	err   error
}

// Every has a tick at each multiple of the duration since 1970-01-01T00:00:00Z,
// so that the phase is the same on every replica and over restarts: Every(5m)
// ticks at :00, :05, :10 of each hour, whichever replica leads. It must be a whole
// number of milliseconds, at least 1 s: anything else is more likely a mistake and
// is refused when the job is added.
func Every(d time.Duration) EverySchedule {
	s := EverySchedule{every: d}
	switch {
	case d < time.Second:
		s.err = fmt.Errorf("every %v: must be at least 1s", d)
	case d%time.Millisecond != 0:
		s.err = fmt.Errorf("every %v: must be a whole number of milliseconds", d)
	}
	return s
}

// Err reports what is wrong with the duration.
func (s EverySchedule) Err() error {
	if s == (EverySchedule{}) {
		return errors.New("every: no duration: make the schedule with jobs.Every")
	}
	return s.err
}

// Next implements [Schedule].
func (s EverySchedule) Next(after time.Time) time.Time {
	if s.Err() != nil {
		return time.Time{}
	}
	every := s.every.Milliseconds()
	ms := after.UnixMilli() // rounds down, so that a part of a millisecond is never skipped over
	return time.UnixMilli(ms - mod(ms, every) + every).UTC()
}

// Prev implements [Backward].
func (s EverySchedule) Prev(before time.Time) time.Time {
	if s.Err() != nil {
		return time.Time{}
	}
	every := s.every.Milliseconds()
	ms := before.Add(-1).UnixMilli()
	return time.UnixMilli(ms - mod(ms, every)).UTC()
}

// mod is the remainder that is never negative: instants before 1970 have the
// same phase.
func mod(a, b int64) int64 { return (a%b + b) % b }

func (s EverySchedule) String() string { return "every " + s.every.String() }

// AtSchedule has one tick. See [At].
type AtSchedule struct{ at time.Time }

// At has one tick, at the instant, to the microsecond.
func At(t time.Time) AtSchedule { return AtSchedule{t.UTC().Truncate(time.Microsecond)} }

// Err reports an instant that was never set.
func (s AtSchedule) Err() error {
	if s.at.IsZero() {
		return fmt.Errorf("at: zero time: give an instant")
	}
	return nil
}

// Next implements [Schedule].
func (s AtSchedule) Next(after time.Time) time.Time {
	if s.at.After(after) {
		return s.at
	}
	return time.Time{}
}

// Prev implements [Backward].
func (s AtSchedule) Prev(before time.Time) time.Time {
	if s.at.Before(before) {
		return s.at
	}
	return time.Time{}
}

func (s AtSchedule) String() string { return "at " + s.at.Format(time.RFC3339Nano) }
