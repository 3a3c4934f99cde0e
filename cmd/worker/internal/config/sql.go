package config

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cronlease/cronlease/cmd/worker/internal/sqljob"
	"github.com/cronlease/cronlease/store"
)

var statementFields = []field[statementFile]{
	{"statement", func(v value, s *statementFile) { s.readText(v) }},
	{"args", func(v value, s *statementFile) {
		readList(v, "a list of "+strings.Join(sqljob.Args, ", "), func(v value) {
			if i := readOneOf(v, sqljob.Args...); i >= 0 {
				s.Args = append(s.Args, sqljob.Args[i])
				return
			}
			s.bad = true
		})
	}},
}

// statementFile is a statement while it is read.
type statementFile struct {
	sqljob.Statement
	of  store.Dialect
	at  text
	bad bool // it, or one of its arguments: reported
}

func (s *statementFile) readText(v value) {
	t, ok := readText(v, `an SQL statement such as "DELETE FROM session WHERE ends < UTC_TIMESTAMP()"`)
	if !ok {
		s.bad = true
		return
	}
	s.at, s.Text = t, t.expanded
	if err := sqljob.Check(s.of, s.Text); err != nil {
		t.bad("%v", err)
		s.bad = true
	}
}

// readStatement reads a statement: its text, or a mapping with its arguments.
func readStatement(v value, of store.Dialect) statementFile {
	s := statementFile{of: of}
	either(v, yaml.MappingNode, func(v value) {
		found := readMapping(v, "a statement", statementFields, &s)
		require(v, found, "statement", "the text of the statement")
	}, s.readText)
	if n, known, form := s.Placeholders(of); s.Text != "" && !s.bad && known && n != len(s.Args) {
		s.at.bad("%d placeholders (%s) and %d args: expected as many of both", n, form, len(s.Args))
	}
	return s
}
