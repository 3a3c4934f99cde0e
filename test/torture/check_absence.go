package torture

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// What a process is granted that shares a machine with all others.
const (
	// waking is how long one that was paused may take to notice what it has missed.
	waking = int64(time.Second)
	// slack is by how much what a process does on several goroutines may be recorded in another order, and how long one
	// that was starved may take to notice.
	slack = int64(100 * time.Millisecond)
)

// endless is the end of what has none.
const endless = math.MaxInt64

// period is a time, its ends included.
type period struct{ from, to int64 }

// join joins the periods that touch, and sorts them.
func join(periods []period) []period {
	slices.SortFunc(periods, func(a, b period) int { return cmp.Compare(a.from, b.from) })
	var merged []period
	for _, s := range periods {
		if n := len(merged); n > 0 && s.from <= merged[n-1].to {
			merged[n-1].to = max(merged[n-1].to, s.to)
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}

// touching returns the period that s shares an instant with.
func touching(periods []period, s period) (period, bool) {
	for _, other := range periods {
		if other.from <= s.to && s.from <= other.to {
			return other, true
		}
	}
	return period{}, false
}

// absent reports whether the process could not act then, or had only just come back, and until when that lasted.
func (p *replica) absent(at int64) (until int64, is bool) {
	s, is := touching(p.absences, period{at, at})
	return s.to, is
}

// by is until when the process should have done what was due then.
func (p *replica) by(at int64) int64 {
	at += slack
	if until, is := p.absent(at); is {
		return until
	}
	return at
}

// since is the earliest instant at which the process can have been where it says at that it is.
func (p *replica) since(at int64) int64 {
	at -= slack
	if s, is := touching(p.absences, period{at, at}); is {
		return s.from
	}
	return at
}
