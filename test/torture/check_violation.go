package torture

import (
	"fmt"
	"strings"
	"time"
)

// Violation is something that a guarantee rules out.
type Violation struct {
	// Guarantee is its number in the project's list; 7 is beside that list, and 0 says that the history itself is not
	// whole, or could not be judged.
	Guarantee int
	What      string
	Events    []Event // the few that show it
}

var guarantees = map[int]string{
	0: "the history itself",
	1: "guarantee 1, tokens strictly grow",
	2: "guarantee 2, one claim per tick",
	3: "guarantee 3, no fenced transaction of a replaced holder commits",
	4: "guarantee 4, contexts end before the next term begins",
	5: "guarantee 5, a leader is back in time",
	6: "guarantee 6, no tick is lost",
	7: "runs go on for as long as their term does",
}

// String is of several lines: what is wrong, and then each event.
func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", guarantees[v.Guarantee], v.What)
	for _, e := range v.Events {
		b.WriteString("\n    " + eventLine(e))
	}
	return b.String()
}

// eventLine is an event as a person reads it.
func eventLine(e Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", timeOfDay(e.At), e.Kind)
	add := func(is bool, format string, args ...any) {
		if is {
			fmt.Fprintf(&b, " "+format, args...)
		}
	}
	add(e.Worker != "", "%s", e.Worker)
	add(e.Owner != "", "as %s", e.Owner)
	add(e.Token != 0, "token %d", e.Token)
	add(e.Job != "", "%s", tickName(e.Job, e.Tick))
	add(e.Attempt != 0, "attempt %d", e.Attempt)
	add(e.Outcome != "", "%s", e.Outcome)
	add(e.Seq != 0, "seq %d", e.Seq)
	add(e.For != 0, "for %v", time.Duration(e.For))
	add(e.Text != "", "%.300q", e.Text)
	return b.String()
}

// timeOfDay is the time of day, in UTC.
func timeOfDay(at int64) string { return time.Unix(0, at).UTC().Format("15:04:05.000000") }

// tickName is a tick of a job.
func tickName(job string, tick int64) string {
	return fmt.Sprintf("%s@%s", job, time.UnixMicro(tick).UTC().Format("15:04:05.999999"))
}
