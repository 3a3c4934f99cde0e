package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cronlease/cronlease/internal/spelling"
)

// text is a scalar: as it is written, which is what errors show, and with its
// variables put in.
type text struct {
	value
	raw, expanded string
}

// readText reads a scalar, whatever YAML takes it for.
func readText(v value, what string) (text, bool) {
	t, ok := readRaw(v, what)
	if !ok {
		return text{}, false
	}
	return t.expand(v.doc.lookup)
}

// expand puts in the values of variables.
func (t text) expand(lookup func(string) (string, bool)) (text, bool) {
	expanded, err := expand(t.raw, lookup)
	if err != nil {
		t.report("%v", err)
		return text{}, false
	}
	t.expanded = expanded
	return t, true
}

// readRaw reads a scalar and leaves its variables as they are.
func readRaw(v value, what string) (text, bool) {
	if v.form != nil {
		v.form.isText(what)
		return text{}, false
	}
	v, ok := v.resolve()
	if !ok {
		return text{}, false
	}
	switch {
	case v.node.Kind != yaml.ScalarNode, v.node.Tag == "!!null":
		v.report("%s: expected %s", describe(v.node), what)
		return text{}, false
	case v.node.Style&yaml.TaggedStyle != 0:
		v.report("the tag %s: expected %s, without a tag", quote(v.node.Tag), what)
		return text{}, false
	}
	return text{value: v, raw: v.node.Value}, true
}

// bad reports the value. It shows the text of the file, never that of a
// variable, which may be a secret.
func (t text) bad(format string, args ...any) {
	t.report("%s: %s", quote(t.raw), fmt.Sprintf(format, args...))
}

// A URL with a user part and a DSN of the driver; both may hold a password.
var (
	secretForm = regexp.MustCompile(`(?s)://.*@|:.*@(tcp|unix)\(`)
	schemeForm = regexp.MustCompile(`^[a-z][a-z0-9+]{0,19}://`)
)

// quote shows a text, bounded, and next to nothing of one that may hold a
// password, which stands in the wrong place then.
func quote(s string) string {
	const most = 80
	if secretForm.MatchString(s) {
		return strconv.Quote(schemeForm.FindString(s)) + "..."
	}
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}

func describe(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.MappingNode:
		return "a mapping"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case node.Kind == yaml.AliasNode:
		return "an alias"
	case node.Tag == "!!null":
		return "empty"
	default:
		return quote(node.Value)
	}
}

// nearest returns the known key that a misspelt one is likely to mean, or "".
func nearest(s string, known []string) string {
	best, most := "", 1+len(s)/4
	if len(s) > 40 {
		return ""
	}
	for _, k := range known {
		if d := spelling.Distance(strings.ToLower(s), k); d <= most {
			best, most = k, d-1
		}
	}
	return best
}
