package jobs

import (
	"cmp"
	"strings"
	"time"
)

// intervals are the shortest and the longest time between two ticks, as far as they
// are known, and zero where they are not. For a cron expression or a calendar these
// are found among a thousand ticks, so that there may be shorter and longer ones.
func intervals(s Schedule) (shortest, longest time.Duration) {
	switch base := Base(s).(type) {
	case FixedDelaySchedule:
		return 0, 0 // counts from the ends of runs
	case FixedRateSchedule:
		return base.every, base.every
	case EverySchedule, CronSchedule:
	default:
		return 0, 0
	}
	last := s.Next(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC))
	for range 1000 {
		next := s.Next(last)
		if last.IsZero() || next.IsZero() {
			break
		}
		d := next.Sub(last)
		shortest, longest, last = min(cmp.Or(shortest, d), d), max(longest, d), next
	}
	return shortest, longest
}

// NeverDue reports whether a schedule has no tick any more after an instant, by
// mistake as it seems: "-" and [Manual] say so on purpose, those of [After] and [OnFailure] go
// by other jobs, and one that [At] gives
// may have had its tick.
func NeverDue(s Schedule, now time.Time) bool {
	switch base := s.(type) {
	case nil, ManualSchedule, AfterSchedule, NotifySchedule, AtSchedule:
		return false
	case CronSchedule:
		if strings.TrimSpace(base.expression) == "-" {
			return false
		}
	case bounded:
		if at, ok := base.base.(AtSchedule); ok {
			return s.Next(at.at.Add(-1)).IsZero()
		}
	case Relative:
		s = base.From(Known{ScheduleSince: now.Add(1)})
	}
	return s.Next(now).IsZero()
}
