package main

import (
	"fmt"
	"io"
	"os"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// escaping is a writer that all output of the worker goes through, apart from
// what the demo draws. Parts of the output come from jobs and other programs:
// characters that a terminal takes for commands (control characters, also U+0080 to
// U+009F), or that change the order or the lines of the text that is shown
// (bidirectional controls, line separators), are written as \u and four digits.
// In JSON such characters only occur within strings, so that it stays JSON and is
// read as the same strings.
//
// Each Write is of whole characters.
type escaping struct {
	to io.Writer
	// colours lets the escape character pass, which the log on a terminal needs.
	colours bool
}

// Write implements [io.Writer].
func (e escaping) Write(p []byte) (int, error) {
	out := e.escape(nil, p)
	if out == nil {
		return e.to.Write(p)
	}
	n, err := e.to.Write(out)
	if n >= len(out) {
		return len(p), err
	}
	// So much of p was written.
	written := 0
	for at := 0; at < len(p); {
		_, size := utf8.DecodeRune(p[at:])
		if written += max(size, len(e.escape(nil, p[at:at+size]))); written > n {
			return at, err
		}
		at += size
	}
	return len(p), err
}

// escape appends the escaped text to out. It returns nil where there is nothing
// to escape and out is nil.
func (e escaping) escape(out, p []byte) []byte {
	done := 0
	for at := 0; at < len(p); {
		r, size := utf8.DecodeRune(p[at:])
		if broken := r == utf8.RuneError && size == 1; broken || e.refused(r) {
			out = append(out, p[done:at]...)
			if broken {
				out = fmt.Appendf(out, `\x%02x`, p[at])
			} else {
				out = fmt.Appendf(out, `\u%04x`, r)
			}
			done = at + size
		}
		at += size
	}
	if out == nil {
		return nil
	}
	return append(out, p[done:]...)
}

func (e escaping) refused(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == '\x1b' && e.colours:
		return false
	case r < utf8.RuneSelf:
		return unicode.IsControl(r)
	}
	return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// terminal returns the terminal that a writer writes to, if it is one.
func terminal(w io.Writer) (*os.File, bool) {
	if e, ok := w.(escaping); ok {
		w = e.to
	}
	f, ok := w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}
