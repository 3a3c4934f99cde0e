package jobs

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs/cron"
)

var cronText = regexp.MustCompile(`^cron ("(?:[^"\\]|\\.)*") in (\S+), (\w+), dst (\w+)$`)

// calendarText finds the calendar behind the text of a schedule: see [Within].
var calendarText = regexp.MustCompile(`^(.+?)(?:; from (\S+))?(?:; until (\S+))?(?:; except ("(?:[^"\\]|\\.)*"(?:, "(?:[^"\\]|\\.)*")*) in (\S+))?$`)

// ParseSchedule returns the schedule whose String is the text, as the ledger keeps
// it. It is false for texts of schedules that this package has not made.
func ParseSchedule(text string) (Schedule, bool) {
	s := guessSchedule(text)
	return s, s != nil && s.String() == text
}

func guessSchedule(text string) Schedule {
	if s := guessNotify(text); s != nil {
		return s
	}
	if s := guessWithin(text); s != nil {
		return s
	}
	duration := func(s string) time.Duration {
		d, _ := time.ParseDuration(s) // zero gives another text
		return d
	}
	if text == Manual().String() {
		return Manual()
	}
	if rest, ok := strings.CutPrefix(text, shardsPrefix); ok {
		return ShardsSchedule(rest)
	}
	if rest, ok := strings.CutPrefix(text, "after "); ok {
		return After(rest)
	}
	if rest, ok := strings.CutPrefix(text, "every "); ok {
		return Every(duration(rest))
	}
	if rest, ok := strings.CutPrefix(text, "at "); ok {
		at, _ := time.Parse(time.RFC3339Nano, rest) // likewise
		return At(at)
	}
	if rest, ok := strings.CutPrefix(text, "fixed rate "); ok {
		every, initial, _ := strings.Cut(rest, ", initial delay ")
		return FixedRate(duration(every)).InitialDelay(duration(initial))
	}
	if rest, ok := strings.CutPrefix(text, "fixed delay "); ok {
		delay, initial, _ := strings.Cut(rest, ", initial delay ")
		return FixedDelay(duration(delay)).InitialDelay(duration(initial))
	}
	match := cronText.FindStringSubmatch(text)
	if match == nil {
		return nil
	}
	expression, err1 := strconv.Unquote(match[1])
	dialect, err2 := cron.ParseDialect(match[3])
	dst, err3 := cron.ParseDST(match[4])
	if err1 != nil || err2 != nil || err3 != nil {
		return nil
	}
	return Cron(expression).In(match[2]).Dialect(dialect).DST(dst)
}

// guessWithin is guessSchedule for a text with a calendar, and nil for any other.
func guessWithin(text string) Schedule {
	match := calendarText.FindStringSubmatch(text)
	if match == nil || match[1] == text {
		return nil
	}
	base := guessSchedule(match[1])
	if base == nil {
		return nil
	}
	c := Calendar{Zone: match[5]}
	c.From, _ = time.Parse(time.RFC3339Nano, match[2]) // zero gives another text
	c.Until, _ = time.Parse(time.RFC3339Nano, match[3])
	for rest := match[4]; rest != ""; {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil
		}
		one, _ := strconv.Unquote(quoted)
		c.Except, rest = append(c.Except, one), strings.TrimPrefix(rest[len(quoted):], ", ")
	}
	return Within(base, c)
}
