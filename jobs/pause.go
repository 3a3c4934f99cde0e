package jobs

import "time"

// Pause is a time in which a job, or its whole group, was paused. Its ticks are
// skipped.
type Pause struct {
	// Began and Ended are by the database's clock, and no pause ends before it began, also where that clock was set
	// back meanwhile. Began is zero when it is not known, and Ended while the pause goes on.
	Began, Ended time.Time
}

// Covers reports whether a tick falls into the pause: the beginning of a pause
// belongs to it, the end does not.
func (p Pause) Covers(tick time.Time) bool {
	return !tick.Before(p.Began) && (p.Ended.IsZero() || tick.Before(p.Ended))
}
