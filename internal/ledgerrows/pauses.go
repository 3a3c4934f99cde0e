package ledgerrows

import (
	"strconv"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// PausesWidth is the width in bytes of one pause as [ParsePauses] reads it.
const PausesWidth = 36

// ParsePauses reads a list of pauses, for stores that keep it as text: "begin-end,"
// for each, oldest first, both in microseconds since 1970 as 17 digits. Begin is 0
// where it is not known. The last one lacks its end while the pause goes on.
// paused says whether one does: programs of an older version change that alone.
func ParsePauses(text string, paused bool) []jobs.Pause {
	var pauses []jobs.Pause
	for entry := range strings.SplitSeq(text, ",") {
		began, ended, ok := strings.Cut(entry, "-")
		if ok && (ended != "" || paused) {
			pauses = append(pauses, jobs.Pause{Began: pauseInstant(began), Ended: pauseInstant(ended)})
		}
	}
	if n := len(pauses); paused && (n == 0 || !pauses[n-1].Ended.IsZero()) {
		pauses = append(pauses, jobs.Pause{})
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
