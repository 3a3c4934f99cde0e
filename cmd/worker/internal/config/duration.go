package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	goodUnits   = regexp.MustCompile(`^[-+]?(\d+d)?(\d+(\.\d*)?(ns|us|µs|μs|ms|s|m|h))*$`)
	plainNumber = regexp.MustCompile(`^[-+]?\d{1,9}$`)
	partOfDays  = regexp.MustCompile(`^\d+\.\d+d`)
	otherUnit   = regexp.MustCompile(`^(\d{1,4}) ?(w|weeks?|days?|mon?|months?|M|y|years?|min|minutes?|hours?|H|D|sec|seconds?)$`)
)

// ParseDuration reads a duration as [time.ParseDuration] does, which may begin
// with days of 24 hours: 30d, 1d12h. Its error says what would be right.
func ParseDuration(s string) (time.Duration, error) {
	d, err := parseDuration(s)
	if err == nil {
		return d, nil
	}
	match := otherUnit.FindStringSubmatch(s)
	switch {
	case s != "" && goodUnits.MatchString(s):
		return 0, errors.New("too long: expected at most 65535d")
	case plainNumber.MatchString(s):
		return 0, fmt.Errorf("no unit: expected %s", durationForm)
	case partOfDays.MatchString(s):
		return 0, errors.New("a part of a day: expected hours, as in 36h or 1d12h")
	case match != nil:
		n, _ := strconv.Atoi(match[1]) // of at most 4 digits
		return 0, fmt.Errorf("no unit of a duration: expected %s", inUnits(n, match[2]))
	}
	return 0, fmt.Errorf("expected %s", durationForm)
}

// inUnits writes so many of another unit as a duration.
func inUnits(n int, unit string) string {
	switch unit[0] {
	case 'w':
		return fmt.Sprintf("days, %dd", 7*n)
	case 'd', 'D':
		return fmt.Sprintf("%dd", n)
	case 'h', 'H':
		return fmt.Sprintf("%dh", n)
	case 's':
		return fmt.Sprintf("%ds", n)
	case 'y':
		return fmt.Sprintf("days, such as %dd", 365*n)
	}
	if strings.HasPrefix(unit, "mi") {
		return fmt.Sprintf("%dm", n)
	}
	return fmt.Sprintf("days, such as %dd (m is for minutes)", 30*n)
}

func parseDuration(s string) (time.Duration, error) {
	days, rest, found := strings.Cut(s, "d")
	if !found {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, errors.New("expected whole days before d")
	}
	d := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	switch {
	case err != nil:
		return 0, err
	case more < 0 || strings.HasPrefix(rest, "+"):
		return 0, errors.New("expected no sign after the days")
	case more > math.MaxInt64-d:
		return 0, errors.New("too long")
	}
	return d + more, nil
}
