package jobs

import (
	"errors"
	"fmt"
	"time"
)

// Relative is a schedule whose ticks depend on what the ledger knows of the
// job. It has none of its own: From returns the schedule that is in force now.
type Relative interface {
	Schedule
	// From returns the ticks for what is known. It has to be asked again
	// whenever a run of the job has come to its end.
	From(known Known) Schedule
}

// Backward is implemented by schedules that can also be walked towards the past,
// which saves catching up after a long gap some calls of Next. It is optional.
type Backward interface {
	// Prev returns the last tick before the instant: strictly earlier, in UTC,
	// and the zero time when there is none.
	Prev(before time.Time) time.Time
}

// FixedRateSchedule is Spring's fixedRate, with its phase kept in the database.
// See [FixedRate].
type FixedRateSchedule struct{ every, initial time.Duration }

// FixedRate has a tick when the job is first known, and then at each multiple of
// the duration after that instant, which the ledger keeps: the phase is the same
// on every replica, and over restarts and takeovers. The duration is a whole number
// of milliseconds, and at least 1 s.
func FixedRate(d time.Duration) FixedRateSchedule { return FixedRateSchedule{every: d} }

// InitialDelay returns the schedule with its first tick so much later: whole
// milliseconds, not negative.
func (s FixedRateSchedule) InitialDelay(d time.Duration) FixedRateSchedule {
	s.initial = d
	return s
}

// Err reports what is wrong with the durations.
func (s FixedRateSchedule) Err() error { return checkFixed("fixed rate", s.every, s.initial) }

// Next implements [Schedule]: there is none without [FixedRateSchedule.From].
func (s FixedRateSchedule) Next(time.Time) time.Time { return time.Time{} }

func (s FixedRateSchedule) String() string {
	return fmt.Sprintf("fixed rate %v, initial delay %v", s.every, s.initial)
}

// From implements [Relative].
func (s FixedRateSchedule) From(known Known) Schedule {
	return anchored{first: known.ScheduleSince.Add(s.initial).UTC(), every: s.every, text: s.String()}
}

// anchored ticks at first and each multiple of every after it. It counts in
// microseconds, which all its ticks are whole numbers of, since a Duration ends
// after 292 years.
type anchored struct {
	first time.Time
	every time.Duration
	text  string
}

func (s anchored) Next(after time.Time) time.Time {
	if after.Before(s.first) {
		return s.first
	}
	return s.tick(after.UnixMicro(), 1)
}

func (s anchored) Prev(before time.Time) time.Time {
	if !before.After(s.first) {
		return time.Time{}
	}
	return s.tick(before.Add(-1).UnixMicro(), 0)
}

// tick returns the tick that is more ticks after the last one by the instant
// micros, in microseconds.
func (s anchored) tick(micros, more int64) time.Time {
	first, every := s.first.UnixMicro(), s.every.Microseconds()
	return time.UnixMicro(first + ((micros-first)/every+more)*every).UTC()
}

func (s anchored) String() string { return s.text }

// FixedDelaySchedule is Spring's fixedDelay. See [FixedDelay].
type FixedDelaySchedule struct{ delay, initial time.Duration }

// FixedDelay has a tick when the job is first known, and then one so long after
// each run has come to its end, also when another replica leads by then. The
// duration is a whole number of milliseconds, and at least 1 s.
func FixedDelay(d time.Duration) FixedDelaySchedule { return FixedDelaySchedule{delay: d} }

// InitialDelay returns the schedule with its first tick so much later: whole
// milliseconds, not negative.
func (s FixedDelaySchedule) InitialDelay(d time.Duration) FixedDelaySchedule {
	s.initial = d
	return s
}

// Err reports what is wrong with the durations.
func (s FixedDelaySchedule) Err() error { return checkFixed("fixed delay", s.delay, s.initial) }

// Next implements [Schedule]: there is none without [FixedDelaySchedule.From].
func (s FixedDelaySchedule) Next(time.Time) time.Time { return time.Time{} }

func (s FixedDelaySchedule) String() string {
	return fmt.Sprintf("fixed delay %v, initial delay %v", s.delay, s.initial)
}

// From implements [Relative]. A tick that was skipped counts as its own end, or
// as ended when that was decided, as long as the same replica leads.
func (s FixedDelaySchedule) From(known Known) Schedule {
	first := known.ScheduleSince.Add(s.initial)
	if last := later(known.Finished, known.Cursor); !last.IsZero() {
		first = later(first, last.Add(s.delay))
	}
	return AtSchedule{first.UTC()}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ManualSchedule has no ticks. See [Manual].
type ManualSchedule struct{ shardsOf string }

// Manual has no ticks: the job runs when it is triggered by hand.
func Manual() ManualSchedule { return ManualSchedule{} }

// Next implements [Schedule].
func (ManualSchedule) Next(time.Time) time.Time { return time.Time{} }

// ShardsOf is the job whose shards the runs are, and which starts them; empty: there is none.
func (s ManualSchedule) ShardsOf() string { return s.shardsOf }

func (s ManualSchedule) String() string {
	if s.shardsOf != "" {
		return shardsPrefix + s.shardsOf
	}
	return "manual"
}

const shardsPrefix = "shards of "

func checkFixed(what string, d, initial time.Duration) error {
	var wrong []error
	switch {
	case d < time.Second:
		wrong = append(wrong, fmt.Errorf("%s %v: must be at least 1s", what, d))
	case d%time.Millisecond != 0:
		wrong = append(wrong, fmt.Errorf("%s %v: must be a whole number of milliseconds", what, d))
	}
	if initial < 0 || initial%time.Millisecond != 0 {
		wrong = append(wrong, fmt.Errorf("%s: initial delay %v: must be a whole number of milliseconds, not negative", what, initial))
	}
	return errors.Join(wrong...)
}
