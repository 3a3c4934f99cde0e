package jobs

import (
	"fmt"
	"math"
	"time"
)

// maxPauseAfter bounds what has to be read to count.
const maxPauseAfter = 1000

func (j Job) checkPauseAfter() error {
	switch {
	case j.PauseAfter < 0 || j.PauseAfter > maxPauseAfter:
		return fmt.Errorf("PauseAfter %d: must be from 0 to %d", j.PauseAfter, maxPauseAfter)
	case j.PauseAfter == 0 || j.Schedule == nil:
		return nil
	}
	switch h, span := j.Complete().History, j.pauseSpan(); {
	case h.Keep > 0 && h.Keep < j.PauseAfter:
		return fmt.Errorf("PauseAfter %d: History.Keep %d keeps fewer runs", j.PauseAfter, h.Keep)
	case h.For > 0 && h.For < span:
		return fmt.Errorf("PauseAfter %d: History.For %v keeps fewer runs: so many ticks take up to %v", j.PauseAfter, h.For, span)
	}
	return nil
}

// pauseSpan is how long as many ticks as PauseAfter take at most, as far as it is
// known.
func (j Job) pauseSpan() time.Duration {
	if j.PauseAfter == 0 || j.Schedule == nil {
		return 0
	}
	_, longest := intervals(j.Schedule)
	return min(longest, math.MaxInt64/maxPauseAfter) * time.Duration(min(j.PauseAfter, maxPauseAfter))
}

// FailedInARow counts the runs of a job that have failed, timed out or panicked
// since one succeeded, and since the job was last resumed. The records are those of
// the job, the newest first, as [Control.Runs] returns them. sure is false when
// earlier records could add to the count.
func FailedInARow(records []Record, pauses []Pause) (n int, sure bool) {
	var resumed time.Time
	for _, p := range pauses {
		resumed = later(resumed, p.Ended)
	}
	for _, r := range records {
		switch r.State {
		case Succeeded:
			return n, true
		case Failed, TimedOut, Panicked:
			if !r.Finished.After(resumed) {
				return n, true
			}
			n++
		}
	}
	return n, false
}
