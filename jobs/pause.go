package jobs

import (
	"strconv"
	"strings"
	"time"
)

// MaxPauses is how many pauses a ledger keeps of each job, and of each group:
// the newest. They only matter for ticks that no leader has dealt with yet.
const MaxPauses = 64

// Pause is a time in which a job, or its whole group, was paused. Its ticks are
// skipped.
type Pause struct {
	// Began and Ended are by the database's clock. Began is zero when it is not
	// known, and Ended while the pause goes on.
	Began, Ended time.Time
}

// Covers reports whether a tick falls into the pause: the beginning of a pause
// belongs to it, the end does not.
func (p Pause) Covers(tick time.Time) bool {
	return !tick.Before(p.Began) && (p.Ended.IsZero() || tick.Before(p.Ended))
}

// PausesWidth is the width in bytes of one pause as [ParsePauses] reads it.
const PausesWidth = 36

// ParsePauses reads a list of pauses, for stores that keep it as text: "begin-end,"
// for each, oldest first, both in microseconds since 1970 as 17 digits. Begin is 0
// where it is not known. The last one lacks its end while the pause goes on.
// paused says whether one does: programs of an older version change that alone.
func ParsePauses(text string, paused bool) []Pause {
	var pauses []Pause
	for entry := range strings.SplitSeq(text, ",") {
		began, ended, ok := strings.Cut(entry, "-")
		if ok && (ended != "" || paused) {
			pauses = append(pauses, Pause{pauseInstant(began), pauseInstant(ended)})
		}
	}
	if n := len(pauses); paused && (n == 0 || !pauses[n-1].Ended.IsZero()) {
		pauses = append(pauses, Pause{})
	}
	return pauses
}

func pauseInstant(text string) time.Time {
	micros, err := strconv.ParseInt(text, 10, 64)
	if err != nil || micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}
