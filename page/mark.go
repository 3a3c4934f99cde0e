package page

import "github.com/cronlease/cronlease/jobs"

// mark is how a state is shown: by a glyph of its own, and a word.
type mark struct {
	// Mark names the glyph and the class.
	Mark string
	Text string
}

var marks = map[jobs.State]mark{
	jobs.Running:     {"run", "running"},
	jobs.Waiting:     {"wait", "waiting"},
	jobs.Succeeded:   {"ok", "succeeded"},
	jobs.Failed:      {"fail", "failed"},
	jobs.TimedOut:    {"time", "timed out"},
	jobs.Cancelled:   {"cancel", "cancelled"},
	jobs.Panicked:    {"panic", "panicked"},
	jobs.Skipped:     {"skip", "skipped"},
	jobs.Interrupted: {"int", "interrupted"},
}

func markOf(s jobs.State) mark {
	if m, ok := marks[s]; ok {
		return m
	}
	return mark{"skip", s.String()}
}

// troubled are the states that an operator should look at, the worst first.
var troubled = []jobs.State{jobs.Panicked, jobs.Failed, jobs.TimedOut, jobs.Interrupted}
