package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseDuration reads a duration as [time.ParseDuration] does, which may begin
// with days of 24 hours: 30d, 1d12h.
func ParseDuration(s string) (time.Duration, error) {
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
