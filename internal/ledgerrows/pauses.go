package ledgerrows

import (
	"fmt"
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

// FormatPauses writes a list of pauses as [ParsePauses] reads it.
func FormatPauses(pauses []jobs.Pause) string {
	var text strings.Builder
	for _, p := range pauses {
		fmt.Fprintf(&text, "%017d-", pauseMicros(p.Began))
		if !p.Ended.IsZero() {
			fmt.Fprintf(&text, "%017d,", pauseMicros(p.Ended))
		}
	}
	return text.String()
}

func pauseMicros(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMicro()
}

func pauseInstant(text string) time.Time {
	micros, err := strconv.ParseInt(text, 10, 64)
	if err != nil || micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}
