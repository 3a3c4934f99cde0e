// Package jsontime writes instants of the tables as JSON.
package jsontime

import "time"

// Instant is an instant that always has a JSON form. RFC 3339 has years of four
// digits only, while the tables hold any: what is outside is the first or the last
// instant of RFC 3339, so that one row does not hide all others.
type Instant struct{ time.Time }

var (
	first = time.Date(0, time.January, 1, 0, 0, 0, 0, time.UTC)
	last  = time.Date(9999, time.December, 31, 23, 59, 59, 999999000, time.UTC)
)

// MarshalJSON implements [encoding/json.Marshaler].
func (i Instant) MarshalJSON() ([]byte, error) {
	t := i.UTC()
	switch {
	case t.Year() < 0:
		t = first
	case t.Year() > 9999:
		t = last
	}
	return t.MarshalJSON()
}

// Of returns the instant, or nil for the zero time.
func Of(t time.Time) *Instant {
	if t.IsZero() {
		return nil
	}
	return &Instant{t.UTC()}
}
