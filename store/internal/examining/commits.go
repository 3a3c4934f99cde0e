package examining

import (
	"fmt"
	"slices"
	"time"

	"github.com/cronlease/cronlease/store"
)

// A measurement ends after so many commits or so long, whichever comes first.
const (
	tries = 20
	limit = 5 * time.Second
)

// Times are how long some commits took.
type Times struct {
	Median, Slowest time.Duration
	// N is how many they were.
	N int
}

// Measure takes the time of calls of commit, until one fails.
func Measure(commit func() error) (Times, error) {
	var took []time.Duration
	for began := time.Now(); len(took) < tries && time.Since(began) < limit; {
		one := time.Now()
		if err := commit(); err != nil {
			return Times{}, err
		}
		took = append(took, time.Since(one))
	}
	slices.Sort(took)
	return Times{Median: took[len(took)/2], Slowest: took[len(took)-1], N: len(took)}, nil
}

// Grade compares them with what a heartbeat may take, which it returns: a fifth of the TTL
// by default. It is [store.Good], [store.Warning] or [store.Problem].
func (t Times) Grade(ttl time.Duration) (grade store.Grade, heartbeat time.Duration) {
	heartbeat = ttl / 5
	switch {
	case t.Median > heartbeat:
		return store.Problem, heartbeat
	case t.Slowest > heartbeat/2 || t.Median > heartbeat/20:
		return store.Warning, heartbeat
	}
	return store.Good, heartbeat
}

// Finding judges them: by what they are, such as "commits", and by what helps where they are slow.
func (t Times) Finding(ttl time.Duration, what, cure string) store.Finding {
	f := store.Finding{Text: fmt.Sprintf("median %v, slowest %v", t.Median.Round(10*time.Microsecond), t.Slowest.Round(10*time.Microsecond))}
	grade, heartbeat := t.Grade(ttl)
	if f.Grade = grade; grade != store.Good {
		f.Text = fmt.Sprintf("%s are slow beside what a heartbeat may take (%v): %s", what, heartbeat, f.Text)
		f.Cure = cure + "; or give leases a longer TTL"
	}
	return f
}
