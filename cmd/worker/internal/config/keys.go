package config

import (
	"slices"
	"strings"
)

func require(v value, found map[string]value, key, what string) {
	if v.form != nil {
		v.form.Required = append(v.form.Required, key)
	} else if _, ok := found[key]; !ok && found != nil {
		v.report("no %s: expected %s", key, what)
	}
}

// exactlyOne reports when none of the keys is there, or more than one.
func exactlyOne(v value, found map[string]value, keys ...string) {
	if v.form != nil {
		v.form.isExactlyOne(keys)
	}
	if found == nil {
		return
	}
	var there []string
	for _, key := range keys {
		if _, ok := found[key]; ok {
			there = append(there, key)
		}
	}
	choice := oneOf(keys)
	switch {
	case len(there) == 0:
		v.report("expected one of %s", choice)
	case len(there) > 1:
		slices.SortFunc(there, func(a, b string) int { return found[a].position().line - found[b].position().line })
		at := found[there[1]]
		at.report("beside %s: expected only one of %s", there[0], choice)
	}
}

// onlyBeside reports a key that is there without any of those that it belongs to.
func onlyBeside(found map[string]value, key, why string, keys ...string) {
	at, ok := found[key]
	if !ok {
		return
	}
	for _, k := range keys {
		if _, ok := found[k]; ok {
			return
		}
	}
	at.report("expected it only beside %s: %s", strings.Join(keys, " or "), why)
}

// reportAt reports each of the errors that err joins.
func reportAt(v value, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			v.report("%v", err)
		}
	} else if err != nil {
		v.report("%v", err)
	}
}

// set sets what was read, unless it was bad.
func set[T any](to *T, read *T) {
	if read != nil {
		*to = *read
	}
}
