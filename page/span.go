package page

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// span is the time that a timeline shows.
type span struct {
	from, to time.Time
	// follows: it ends a little after now, wherever that is.
	follows bool
	zoom    int           // of zooms
	step    time.Duration // from one line of the axis to the next
	layout  string        // of their labels
}

// zoom is how much time a timeline shows.
type zoom struct {
	name, words string
	is          time.Duration
	step        time.Duration // from one line of the axis to the next
	layout      string        // of their labels
	bucket      time.Duration // in which runs are counted where they are many
}

var zooms = []zoom{
	{"1m", "a minute", time.Minute, 10 * time.Second, "15:04:05", time.Second},
	{"10m", "10 minutes", 10 * time.Minute, 2 * time.Minute, "15:04", 5 * time.Second},
	{"1h", "an hour", time.Hour, 10 * time.Minute, "15:04", 30 * time.Second},
	{"6h", "6 hours", 6 * time.Hour, time.Hour, "15:04", 4 * time.Minute},
	{"1d", "a day", 24 * time.Hour, 4 * time.Hour, "15:04", 15 * time.Minute},
	{"7d", "a week", 7 * 24 * time.Hour, 24 * time.Hour, "Mon 2", 2 * time.Hour},
	{"30d", "a month", 30 * 24 * time.Hour, 5 * 24 * time.Hour, "Jan 2", 6 * time.Hour},
}

const defaultZoom = 2

// ahead is the part of a timeline that follows which lies in the future.
const ahead = 0.06

// readSpan reads the span that a request asks for: zoom, and an end unless it shall follow
// the present. What it does not understand is the default.
func readSpan(query url.Values, now time.Time) span {
	s := span{zoom: defaultZoom}
	for i, z := range zooms {
		if z.name == query.Get("zoom") {
			s.zoom = i
		}
	}
	is := zooms[s.zoom].is
	micros, err := strconv.ParseInt(query.Get("end"), 10, 64)
	if s.to = time.UnixMicro(micros).UTC(); err != nil || s.to.After(now.Add(is)) || s.to.Year() < 1971 {
		s.follows = true
		s.to = now.Add(time.Duration(ahead * float64(is)))
	}
	s.from, s.step, s.layout = s.to.Add(-is), zooms[s.zoom].step, zooms[s.zoom].layout
	return s
}

// at is where an instant is, in percent of the width. It may lie outside.
func (s span) at(t time.Time) float64 {
	return 100 * float64(t.Sub(s.from)) / float64(s.to.Sub(s.from))
}

// query is what a link to another span of the same view says.
func (s span) query(keep url.Values, zoom int, end time.Time, follow bool) string {
	values := url.Values{}
	for key, of := range keep {
		if key != "end" && key != "zoom" {
			values[key] = of
		}
	}
	if zoom != defaultZoom {
		values.Set("zoom", zooms[zoom].name)
	}
	if !follow {
		values.Set("end", strconv.FormatInt(end.UnixMicro(), 10))
	}
	if text := values.Encode(); text != "" {
		return "?" + text
	}
	return "?"
}

// middle is the end of another zoom that keeps the middle of a span that does not follow.
func (s span) zoomed(zoom int, now time.Time) (end time.Time, follow bool) {
	if s.follows {
		return s.to, true
	}
	middle := s.from.Add(s.to.Sub(s.from) / 2)
	end = middle.Add(zooms[zoom].is / 2)
	return end, end.After(now)
}

// lines are the instants of the axis' lines: multiples of the step.
func (s span) lines() []time.Time {
	var all []time.Time
	for t := s.from.Truncate(s.step); t.Before(s.to); t = t.Add(s.step) {
		if !t.Before(s.from) {
			all = append(all, t)
		}
	}
	return all
}

// bucket is the width of the parts in which runs are counted where they are many.
func (s span) bucket() time.Duration { return zooms[s.zoom].bucket }

// words say which time it is.
func (s span) words(now time.Time) string {
	if s.follows {
		return "the last " + trimOne(zooms[s.zoom].words)
	}
	return instant(now, s.from) + " to " + instant(now, s.to)
}

// trimOne makes "the last minute" of "a minute".
func trimOne(words string) string {
	words = strings.TrimPrefix(words, "an ")
	return strings.TrimPrefix(words, "a ")
}
