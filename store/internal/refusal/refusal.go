// Package refusal has the error of a database that refuses what a store does.
package refusal

import (
	"slices"
	"strings"
)

// Error says what the answer of a database means, and what to do about it. It matches Is and Answer.
type Error struct {
	Is, Answer error
	Cure       string
}

func (e *Error) Error() string {
	// That of several servers has a line for each of them.
	lines := strings.Split(e.Answer.Error(), "\n")
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], ".")
	}
	return e.Is.Error() + ": " + strings.Join(slices.Compact(lines), "; ") + ": " + e.Cure
}

// Unwrap returns what it matches.
func (e *Error) Unwrap() []error { return []error{e.Is, e.Answer} }
