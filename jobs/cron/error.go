package cron

import (
	"fmt"
	"strconv"
)

// Error is what Parse returns for an expression it refuses.
type Error struct {
	// Expression is the whole expression as given.
	Expression string
	// Field names the part at fault: seconds, minutes, hours, day-of-month, month, day-of-week or year; macro for a
	// word that starts with "@"; expression when no single field is at fault; dialect or dst for an unknown option.
	Field string
	// Text is the offending part. It is empty when something is missing.
	Text string
	// Offset is where Text starts in Expression, in bytes; where something is missing, the place it belongs.
	Offset int
	// Reason says what would be right.
	Reason string
}

// Error names what is wrong, where, and what would be right. Of long texts it shows the beginning.
func (e *Error) Error() string {
	return fmt.Sprintf("cron: %s %s in %s: %s", e.Field, quote(e.Text), quote(e.Expression), e.Reason)
}

// quote shows a text, bounded.
func quote(s string) string {
	const most = 120 // bytes; hardly any real expression is longer
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}
