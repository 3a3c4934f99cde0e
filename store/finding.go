package store

import (
	"context"
	"fmt"
	"time"
)

// Examiner is a store that can say what is wrong with its database: what worker doctor
// shows. All of it is optional.
type Examiner interface {
	// Examine looks at everything that can be wrong, and returns at least one finding for
	// each thing that it looks at, always in the same order. What it cannot find out is a
	// finding too. It may write rows of its own to measure how long a commit takes, and
	// removes them; it changes nothing else, and holds nothing up. It takes seconds, of
	// which ctx may allow fewer: then what is left is not known.
	//
	// ttl is the TTL of the leases that the database keeps: what is slow depends on it.
	// Zero: 15 s.
	Examine(ctx context.Context, ttl time.Duration) []Finding
}

// Finding is what was found out about one thing. It is a plain value.
type Finding struct {
	// Check names the thing: a word that stays the same over releases.
	Check string `json:"check"`
	Grade Grade  `json:"grade"`
	// Text is one line. It may contain text from the database, which is not escaped.
	Text string `json:"text"`
	// Cure says what to do, in one line; empty where there is nothing to do.
	Cure string `json:"cure"`
}

// Grade says how bad a [Finding] is.
type Grade uint8

// The grades, from good to bad.
const (
	// Good: nothing is wrong.
	Good Grade = iota
	// Unknown: it could not be found out, as without a privilege that nothing else needs.
	Unknown
	// Warning: it works, but less well, or not for as long, as it should.
	Warning
	// Problem: a guarantee or the work is at stake now.
	Problem
)

var gradeNames = [...]string{Good: "ok", Unknown: "unknown", Warning: "warning", Problem: "problem"}

// String returns "ok", "unknown", "warning" or "problem".
func (g Grade) String() string {
	if int(g) < len(gradeNames) {
		return gradeNames[g]
	}
	return fmt.Sprintf("Grade(%d)", uint8(g))
}

// MarshalText returns the same as String.
func (g Grade) MarshalText() ([]byte, error) { return []byte(g.String()), nil }
