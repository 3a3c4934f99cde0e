// Package cuttext bounds texts that go into tables, and changes those of errors.
package cuttext

import (
	"strings"
	"unicode/utf8"
)

// UTF8 returns the first bytes of a text, most at most, up to the end of a character.
// What is not UTF-8 is replaced.
func UTF8(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// Error returns an error of that text which wraps err, or err itself where that is its text.
func Error(err error, text string) error {
	if text == err.Error() {
		return err
	}
	return &other{text, err}
}

type other struct {
	text string
	err  error
}

func (o *other) Error() string { return o.text }
func (o *other) Unwrap() error { return o.err }
