package cron

import (
	"math"
	"slices"
	"sync"
	"time"
)

// The instants the package deals in, as Unix seconds: 1970 up to, and not including, 2200.
const (
	firstInstant = 0
	endInstant   = 7258118400
	day          = 86400
)

// zone is a time zone as a table, because asking time.Location costs more than the rest of a search. Span i begins at
// from[i] and ends where the next begins; all through it wall clock = instant + offset[i], in seconds. Neighbouring
// spans differ in offset. It is immutable.
type zone struct {
	from   []int64
	offset []int64
}

// zones remembers the tables, which a service with a thousand jobs in one zone shares. It is emptied when full, since
// a program may load the same zone again and again under new pointers.
var zones struct {
	sync.Mutex
	byLocation map[*time.Location]*zone
}

const maxZones = 64

func zoneOf(loc *time.Location) *zone {
	zones.Lock()
	defer zones.Unlock()
	if z := zones.byLocation[loc]; z != nil {
		return z
	}
	if zones.byLocation == nil || len(zones.byLocation) >= maxZones {
		zones.byLocation = make(map[*time.Location]*zone)
	}
	z := newZone(loc)
	zones.byLocation[loc] = z
	return z
}

func newZone(loc *time.Location) *zone {
	// One year more at each end, so that a search near the bounds sees the change beside it.
	t := time.Unix(firstInstant-365*day, 0).In(loc)
	_, offset := t.Zone()
	z := &zone{from: []int64{math.MinInt64}, offset: []int64{int64(offset)}}
	for {
		_, end := t.ZoneBounds()
		if end.IsZero() || end.Unix() > endInstant+365*day {
			return z
		}
		if !end.After(t) { // on the last day of a leap year ZoneBounds can return an end that is not later
			end = t.Add(time.Hour)
		}
		t = end
		// A change of name alone is none, nor is the end of a year, where ZoneBounds may end a span as well.
		if _, offset = t.Zone(); int64(offset) != z.offset[len(z.offset)-1] {
			z.from = append(z.from, t.Unix())
			z.offset = append(z.offset, int64(offset))
		}
	}
}

// index returns the span that holds the instant.
func (z *zone) index(instant int64) int {
	i, found := slices.BinarySearch(z.from, instant)
	if found {
		return i
	}
	return i - 1
}

// end returns where span i ends, not included.
func (z *zone) end(i int) int64 {
	if i+1 < len(z.from) {
		return z.from[i+1]
	}
	return math.MaxInt64
}

// skipped returns how many seconds of wall clock were left out when span i began, and repeated how many came again.
func (z *zone) skipped(i int) int64 {
	if i == 0 {
		return 0
	}
	return max(0, z.offset[i]-z.offset[i-1])
}

func (z *zone) repeated(i int) int64 {
	if i == 0 {
		return 0
	}
	return max(0, z.offset[i-1]-z.offset[i])
}

// constant reports whether no clock is changed from one instant to the other.
func (z *zone) constant(from, to int64) bool {
	return len(z.from) == 1 || z.end(z.index(from)) > to
}
