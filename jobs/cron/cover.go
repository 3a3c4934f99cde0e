package cron

import "time"

// Covers reports whether the expression matches what the wall clock shows at an instant, and how far that goes on at
// least: until is the end of the stretch, which is not covered any more or begins the next one. It asks for no tick, so
// it does not matter how often a time of day counts: when clocks are put back, both passes of a repeated hour are
// covered. Five fields cover whole minutes. Instants outside 1970 to 2199 are not covered.
func (e *Expression) Covers(t time.Time) (until time.Time, covered bool) {
	s := t.Unix()
	if e.disabled || s < firstInstant || s >= endInstant {
		return time.Time{}, false
	}
	i := e.zone.index(s)
	wall, c := s+e.zone.offset[i], &e.calendar
	if wall < 0 {
		return time.Time{}, false
	}
	if e.minutes {
		wall -= wall % 60 // the calendar of five fields has second 0 alone
	}
	if found, ok := c.next(wall); !ok || found != wall {
		return time.Time{}, false
	}
	end := c.end(wall)
	if e.minutes {
		end = c.endOfMinutes(wall)
	}
	return time.Unix(min(end-e.zone.offset[i], e.zone.end(i)), 0).UTC(), true
}

// end returns the first wall clock time after a matching one that does not match, or a time before it up to which
// every one matches.
func (c *calendar) end(wall int64) int64 {
	if c.seconds != 1<<60-1 {
		wall++
		for wall%60 != 0 && c.seconds>>(wall%60)&1 != 0 {
			wall++
		}
		return wall
	}
	return c.endOfMinutes(wall)
}

// endOfMinutes is end for an expression that matches whole minutes.
func (c *calendar) endOfMinutes(wall int64) int64 {
	if c.minutes != 1<<60-1 {
		wall += 60 - wall%60
		for wall%3600 != 0 && c.minutes>>(wall/60%60)&1 != 0 {
			wall += 60
		}
		return wall
	}
	if c.hours != 1<<24-1 {
		wall += 3600 - wall%3600
		for wall%day != 0 && c.hours>>(wall/3600%24)&1 != 0 {
			wall += 3600
		}
		return wall
	}
	return (dayOf(wall) + 1) * day
}
