package jobs

import (
	"fmt"
	"strings"
	"time"
)

// InWords describes a schedule to people, in English: "every 5 minutes", "at 02:00 on
// weekdays, Europe/Berlin". It is for pages and messages, and may become better worded:
// what tells schedules apart is their String. A cron expression without a short description
// is shown as it is, and a schedule of another package by its String. Nil is the empty text.
func InWords(s Schedule) string {
	switch s := s.(type) {
	case nil:
		return ""
	case ManualSchedule:
		if s.shardsOf != "" {
			return "with each run of " + s.shardsOf
		}
		return "only when triggered"
	case AfterSchedule:
		return "after each success of " + s.job
	case NotifySchedule:
		return s.words()
	case AtSchedule:
		return "once, at " + instantWords(s.at)
	case EverySchedule:
		return "every " + everyWords(s.every)
	case FixedRateSchedule:
		return "every " + everyWords(s.every) + ", counted from when the job was first known" + initialWords(s.initial)
	case FixedDelaySchedule:
		return durationWords(s.delay) + " after the end of each run" + initialWords(s.initial)
	case CronSchedule:
		return s.words()
	case bounded:
		return s.words()
	case boundedRelative:
		return s.words()
	}
	return s.String()
}

func (b bounded) words() string {
	text := InWords(b.base)
	if !b.from.IsZero() {
		text += "; from " + instantWords(b.from)
	}
	if !b.until.IsZero() {
		text += "; until " + instantWords(b.until)
	}
	if b.exceptions != nil {
		text += "; except " + strings.Join(b.texts, ", ")
	}
	return text
}

func instantWords(t time.Time) string {
	layout := "2006-01-02 15:04:05 UTC"
	switch {
	case t.Nanosecond() != 0:
		layout = "2006-01-02 15:04:05.999999 UTC"
	case t.Second() == 0:
		layout = "2006-01-02 15:04 UTC"
	}
	return t.UTC().Format(layout)
}

func initialWords(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return ", the first one after " + durationWords(d)
}

// everyWords is what stands after "every": "minute", "5 minutes".
func everyWords(d time.Duration) string {
	return strings.TrimPrefix(durationWords(d), "1 ")
}

// durationWords has the largest unit of which d is a whole number.
func durationWords(d time.Duration) string {
	units := []struct {
		name string
		of   time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second}}
	for _, unit := range units {
		if d >= unit.of && d%unit.of == 0 {
			return plural(int(d/unit.of), unit.name)
		}
	}
	return d.String()
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// joined is "a, b and c".
func joined(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
