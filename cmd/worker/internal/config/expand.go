package config

import (
	"fmt"
	"regexp"
	"strings"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// formError is about a ${ that begins no variable. What follows it may be a
// part of a password.
type formError struct{ text, expected string }

func (e *formError) Error() string { return quote(e.text) + ": " + e.expected }

// expand puts in the values of variables. Only ${NAME} is one: $NAME and $$
// stay what they are, and $${ becomes ${. Without lookup all stays what it is.
func expand(s string, lookup func(string) (string, bool)) (string, error) {
	if lookup == nil {
		return s, nil
	}
	var out strings.Builder
	for {
		before, after, found := strings.Cut(s, "${")
		if !found {
			out.WriteString(s)
			return out.String(), nil
		}
		if escaped, ok := strings.CutSuffix(before, "$"); ok {
			out.WriteString(escaped + "${")
			s = after
			continue
		}
		out.WriteString(before)
		name, rest, found := strings.Cut(after, "}")
		switch {
		case !found:
			return "", &formError{"${" + after, "expected a } after ${, or $${ for a plain ${"}
		case !variableName.MatchString(name):
			return "", &formError{"${" + name + "}", "expected a variable's name such as ${DATABASE_URL}, or $${ for a plain ${"}
		}
		value, set := lookup(name)
		if !set {
			return "", fmt.Errorf("${%s}: not set: expected this variable in the environment, or $${%s} for the plain text", name, name)
		}
		out.WriteString(value)
		s = rest
	}
}
