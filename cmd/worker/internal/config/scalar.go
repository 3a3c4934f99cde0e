package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cronlease/cronlease/store"
)

// readName reads the name of a group or a job.
func readName(v value, what string) string {
	t, ok := readText(v, "a name such as billing")
	if !ok {
		return ""
	}
	if store.CheckName(what, t.expanded) != nil {
		t.bad("expected a name of 1 to %d letters, digits and . _ : / @ + -, the first a letter or a digit", store.MaxName)
		return ""
	}
	if err := store.CheckGroup(t.expanded); what == "group" && err != nil {
		t.bad("expected a name that does not begin with locks/, which is reserved for the sessions of locks")
		return ""
	}
	return t.expanded
}

// readPath reads the path of a file. It returns "" after it has reported.
func readPath(v value, example string) string {
	what := "the path of a file such as " + example
	t, ok := readText(v, what)
	switch {
	case !ok:
		return ""
	case t.expanded == "" || strings.ContainsRune(t.expanded, 0):
		t.bad("expected %s", what)
		return ""
	}
	return t.expanded
}

// readOneOf reads one of a few words, in any case: the schema and the error list the same
// ones. It returns the word's place among them, and -1 after it has reported.
func readOneOf(v value, words ...string) int {
	what := oneOf(words)
	t, ok := readText(v, what)
	if v.form != nil {
		v.form.isOneOf(words...)
	}
	if !ok {
		return -1
	}
	i := slices.IndexFunc(words, func(w string) bool { return strings.EqualFold(w, t.expanded) })
	if i >= 0 {
		return i
	}
	if meant := nearest(t.expanded, words); meant != "" {
		t.bad("did you mean %s? Expected %s", meant, what)
	} else {
		t.bad("expected %s", what)
	}
	return i
}

// readWord reads one of a few values, each by the word that its String returns. It returns
// nil after it has reported.
func readWord[T fmt.Stringer](v value, values ...T) *T {
	words := make([]string, len(values))
	for i, one := range values {
		words[i] = one.String()
	}
	if i := readOneOf(v, words...); i >= 0 {
		return &values[i]
	}
	return nil
}

// readBool reads the two words of YAML alone. It returns nil after it has reported.
func readBool(v value) *bool {
	i := readOneOf(v, "true", "false")
	if i < 0 {
		return nil
	}
	is := i == 0
	return &is
}

// oneOf lists words as errors do: "a, b or c".
func oneOf(words []string) string {
	n := len(words) - 1
	if n == 0 {
		return words[0]
	}
	return strings.Join(words[:n], ", ") + " or " + words[n]
}

// readCount reads a number from 1 to most. It returns zero after it has
// reported.
func readCount(v value, most int) int {
	what := fmt.Sprintf("a number from 1 to %d", most)
	t, ok := readText(v, what)
	if v.form != nil {
		v.form.isCount(most)
	}
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(t.expanded)
	if err != nil || n < 1 || n > most {
		t.bad("expected %s", what)
		return 0
	}
	return n
}

const durationForm = "a duration such as 30s, 5m, 1h or 7d"

// readDuration reads a duration above zero. It returns zero after it has
// reported.
func readDuration(v value) time.Duration {
	t, d, ok := readAnyDuration(v)
	if ok && d <= 0 {
		t.bad("expected %s, above zero", durationForm)
		return 0
	}
	return d
}

// readWait reads a duration that may be zero.
func readWait(v value) time.Duration {
	t, d, ok := readAnyDuration(v)
	if ok && d < 0 {
		t.bad("expected %s, not below zero", durationForm)
		return 0
	}
	return d
}

func readAnyDuration(v value) (text, time.Duration, bool) {
	t, ok := readText(v, durationForm)
	if v.form != nil {
		v.form.isDuration()
	}
	if !ok {
		return t, 0, false
	}
	d, err := ParseDuration(t.expanded)
	if err != nil {
		t.bad("%v", err)
		return t, 0, false
	}
	return t, d, true
}
