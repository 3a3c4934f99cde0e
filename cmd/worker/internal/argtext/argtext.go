// Package argtext keeps the arguments of runs out of errors.
package argtext

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/cronlease/cronlease/internal/cuttext"
)

// minHidden is how long a text is at least that is hidden. Anything shorter would make
// an error unreadable, and protects little.
const minHidden = 6

// Texts are the arguments, and the texts in them that an error must not show, the
// longest first.
func Texts(args json.RawMessage) []string {
	if len(args) == 0 {
		return nil
	}
	texts := []string{string(args)}
	var value any
	if json.Unmarshal(args, &value) == nil { // they were checked when they were stored
		texts = addTexts(texts, value)
	}
	texts = slices.DeleteFunc(texts, func(s string) bool { return len(s) < minHidden })
	slices.SortStableFunc(texts, func(a, b string) int { return len(b) - len(a) })
	return texts
}

func addTexts(to []string, value any) []string {
	switch v := value.(type) {
	case string:
		to = append(to, v)
	case []any:
		for _, one := range v {
			to = addTexts(to, one)
		}
	case map[string]any:
		for _, one := range v {
			to = addTexts(to, one)
		}
	}
	return to
}

// Hide returns an error whose text shows nothing of the arguments. It wraps err.
func Hide(err error, args json.RawMessage) error {
	if err == nil || len(args) == 0 {
		return err
	}
	text := err.Error()
	for _, s := range Texts(args) {
		text = strings.ReplaceAll(text, s, "(hidden)")
		// A server quotes the beginning of a long value.
		if most := 64; len(s) > most {
			if at := strings.Index(text, s[:most]); at >= 0 {
				text = text[:at] + "(hidden)"
			}
		}
	}
	return cuttext.Error(err, text)
}
