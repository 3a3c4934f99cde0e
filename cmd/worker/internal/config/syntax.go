package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"sort"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// lines is how many there are, as YAML counts them.
func lines(data []byte) int {
	n := 1 - bytes.Count(data, []byte("\r\n"))
	for _, end := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
		n += bytes.Count(data, []byte(end))
	}
	return n
}

// invalid returns where data is no text, or -1.
func invalid(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 || r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f {
			return i
		}
		i += size
	}
	return -1
}

var (
	syntaxError   = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)
	unknownAnchor = regexp.MustCompile(`unknown anchor '(.*)' referenced`)
)

// reportSyntax gives an error of the YAML parser its place. The parser names the
// line where the enclosing list or mapping began, and none at all for the first
// line and for aliases. So the place is the first line after which the parser
// already finds the same fault.
func (d *document) reportSyntax(data []byte, err error) {
	fault, line := syntaxFault(err)
	if match := unknownAnchor.FindStringSubmatch(fault); match != nil {
		before, _, _ := bytes.Cut(data, []byte("*"+match[1]))
		line = 1 + bytes.Count(before, []byte("\n"))
		if !plainKey.MatchString(match[1]) {
			fault = "unknown anchor " + quote(match[1]) + " referenced"
		}
	} else {
		lines := bytes.SplitAfter(data, []byte("\n"))
		line = max(line, 1+sort.Search(len(lines)-1, func(n int) bool {
			end := 0
			for _, l := range lines[:n+1] {
				end += len(l)
			}
			found, _ := syntaxFault(parses(data[:end]))
			return found == fault
		}))
	}
	at := position{line, 1}
	if hint, column := syntaxHint(data, line); hint != "" {
		at.column, fault = column, fault+": "+hint
	}
	d.report(at, "", "not YAML: %s", fault)
}

var (
	tabIndent = regexp.MustCompile(`^ *\t`)
	// What begins with one of these characters is no plain text in YAML.
	unquoted     = regexp.MustCompile(`^(?:.*[{,])?[ -]*([A-Za-z_]+): +[*&!%@` + "`" + `|>]`)
	unquotedCron = regexp.MustCompile(`\bcron: +[*@]`)
)

// syntaxHint says what is likely wrong in a line that is no YAML, and where. It
// shows nothing of the line, in which a password may stand.
func syntaxHint(data []byte, line int) (hint string, column int) {
	lines := bytes.SplitAfter(data, []byte("\n"))
	if line > len(lines) {
		return "", 0
	}
	text := lines[line-1]
	if tab := tabIndent.FindIndex(text); tab != nil {
		return "a tab as indentation: expected blanks", tab[1]
	}
	if cron := unquotedCron.FindIndex(text); cron != nil {
		return `a cron expression without quotes: expected them, as in cron: "*/5 * * * *"`, cron[1]
	}
	if value := unquoted.FindIndex(text); value != nil {
		return "a value that begins with a character of YAML's own: expected it in quotes", value[1]
	}
	return "", 0
}

// parses returns the parser's error on any document of data.
func parses(data []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var node yaml.Node
		if err := decoder.Decode(&node); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// syntaxFault splits an error of the parser into what and where.
func syntaxFault(err error) (fault string, line int) {
	if err == nil {
		return "", 0
	}
	fault = err.Error()
	if match := syntaxError.FindStringSubmatch(fault); match != nil {
		fault = fault[len(match[0]):]
		line, _ = strconv.Atoi(match[1]) // absent for the first line
	}
	return fault, line
}
