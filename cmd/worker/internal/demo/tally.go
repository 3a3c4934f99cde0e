package demo

import (
	"fmt"
	"strings"
	"time"
)

// tally counts what was seen.
type tally struct {
	runs        map[int64]int // by tick
	first, last int64         // tick
	lastAt      time.Time     // arrival of the last tick
	gap         time.Duration
	terms       map[uint64]bool // by token
	spread      bool            // the group is
}

// add counts a run and reports whether its tick has run before.
func (t *tally) add(r ran) (double bool) {
	if t.runs == nil {
		t.runs = map[int64]int{}
	}
	tick := r.tick.UnixMilli()
	if len(t.runs) == 0 {
		t.first, t.last = tick, tick
	} else {
		t.gap = max(t.gap, r.at.Sub(t.lastAt))
	}
	t.first, t.last, t.lastAt = min(t.first, tick), max(t.last, tick), r.at
	if !t.spread { // there it is one of the run
		t.term(r.token)
	}
	t.runs[tick]++
	return t.runs[tick] > 1
}

// late counts a run that arrived after the end: of a tick that would be missing
// otherwise, or a double.
func (t *tally) late(r ran) {
	if tick := r.tick.UnixMilli(); len(t.runs) > 0 && tick >= t.first && tick <= t.last {
		t.runs[tick]++
	}
}

// lacks reports whether the tick is one between the first and the last that did
// not run.
func (t *tally) lacks(tick time.Time) bool {
	at := tick.UnixMilli()
	return len(t.runs) > 0 && at > t.first && at < t.last && t.runs[at] == 0
}

// term notes a term.
func (t *tally) term(token uint64) {
	if t.terms == nil {
		t.terms = map[uint64]bool{}
	}
	t.terms[token] = true
}

// Summary is what a demo saw.
type Summary struct {
	Lasted    time.Duration
	Ticks     int // that ran
	Doubles   int // of them, that ran more than once
	Missed    int // between the first and the last that ran
	Takeovers int
	// Interrupted counts the ticks, not among the missed, whose run was killed
	// with its worker before it had any effect.
	Interrupted int
	// Gap is the longest time without a run, from the first on.
	Gap time.Duration
	// Work counts the long runs of a group that is spread; else nil.
	Work *Work
}

// Work counts long runs.
type Work struct {
	Done      int // runs that came to their end
	Killed    int // runs that were cut off with their worker
	CutOthers int // runs that were cut off on a worker that was not killed
}

// summary is what was seen until now, which also ends a gap.
func (t *tally) summary(began, now time.Time) Summary {
	s := Summary{Lasted: now.Sub(began), Ticks: len(t.runs), Takeovers: max(0, len(t.terms)-1), Gap: t.gap}
	for _, n := range t.runs {
		if n > 1 {
			s.Doubles++
		}
	}
	if s.Ticks > 0 {
		s.Gap = max(s.Gap, now.Sub(t.lastAt))
		s.Missed = int((t.last-t.first)/every.Milliseconds()) + 1 - s.Ticks
	}
	return s
}

func (s Summary) counts() string {
	return fmt.Sprintf("ticks %d, doubles %d, missed %d, takeovers %d, longest gap %.1fs",
		s.Ticks, s.Doubles, s.Missed, s.Takeovers, s.Gap.Seconds())
}

// String says it in a line, and explains what a newcomer may ask about.
func (s Summary) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "Seen in %v: %s\n", s.Lasted.Round(time.Second), s.counts())
	if w := s.Work; w != nil {
		fmt.Fprintf(&text, "Long runs: %d finished, %d cut off with their worker, %d cut off on other workers\n", w.Done, w.Killed, w.CutOthers)
		if w.CutOthers > 0 {
			fmt.Fprintln(&text, "A worker that is not killed loses its runs only with its own lease, such as on a machine that stood still.")
		}
	}
	if s.Ticks == 0 {
		fmt.Fprintln(&text, "No tick ran: nobody has led long enough.")
	}
	if s.Interrupted > 0 {
		fmt.Fprintf(&text, "Beside these, %d ran just when their worker was killed: recorded as interrupted, as the job has not asked for a rerun.\n", s.Interrupted)
	}
	if s.Doubles > 0 {
		fmt.Fprintln(&text, "A DOUBLE IS A FAULT: no tick may run twice.")
	}
	if s.Missed > 0 {
		fmt.Fprintln(&text, "A MISSED TICK IS A FAULT: what falls into a takeover is caught up by the next leader.")
	}
	return text.String()
}
