package main

import "time"

// stamp is an instant that always has a JSON form. RFC 3339 has years of four
// digits only, while the tables hold any: what is outside is the first or the last
// instant of RFC 3339, so that one row does not hide all others.
type stamp struct{ time.Time }

var (
	firstStamp = time.Date(0, time.January, 1, 0, 0, 0, 0, time.UTC)
	lastStamp  = time.Date(9999, time.December, 31, 23, 59, 59, 999999000, time.UTC)
)

func (s stamp) MarshalJSON() ([]byte, error) {
	t := s.UTC()
	switch {
	case t.Year() < 0:
		t = firstStamp
	case t.Year() > 9999:
		t = lastStamp
	}
	return t.MarshalJSON()
}
