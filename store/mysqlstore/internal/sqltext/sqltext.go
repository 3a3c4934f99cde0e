// Package sqltext writes values into statements for MySQL and MariaDB.
//
// It does so here and not in the driver for three reasons: a statement is always
// one message to the server, whether or not the pool has interpolateParams; it may
// have more than 65,535 values; and text is always a binary string, whatever the
// connection's character set.
package sqltext

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Query is a statement with a ? in the place of each value. Only [Parse] makes
// one, so that no statement goes out in which something is left to replace.
type Query struct {
	pieces []string // around the values
}

// Parse reads a statement, in which {name} must not stand any more: that was to be
// replaced before. It panics if there is one, because statements are constants.
func Parse(statement string) Query {
	statement = strings.TrimSpace(statement)
	if i := strings.IndexAny(statement, "{}"); i >= 0 {
		panic(fmt.Sprintf("sqltext: not replaced: %.40q", statement[i:]))
	}
	return Query{strings.Split(statement, "?")}
}

// String is the statement with each ?.
func (q Query) String() string { return strings.Join(q.pieces, "?") }

type (
	// List is several values for one ?.
	List []any
	// Row is a value that is a row.
	Row []any
	// Values is the rows of a VALUES clause.
	Values []Row
	// Raw is a part of a statement.
	Raw string
	// ByName is the one of several values that goes with the name of the row in
	// hand. They are in the order of their names.
	ByName []Named
	// Named is a value and a row's name.
	Named struct {
		Name  string
		Value any
	}
)

// Render returns the statement with the values in their places: numbers, and
// strings that are written so that they cannot be anything else; see [quote]. It
// panics unless there is one value for each ?.
func (q Query) Render(values ...any) string {
	if len(values) != len(q.pieces)-1 {
		panic(fmt.Sprintf("sqltext: %d values for %d places in %.40q", len(values), len(q.pieces)-1, q.pieces[0]))
	}
	if len(values) == 0 {
		return q.pieces[0]
	}
	var b strings.Builder
	for i, value := range values {
		b.WriteString(q.pieces[i])
		write(&b, value)
	}
	b.WriteString(q.pieces[len(values)])
	return b.String()
}

func write(b *strings.Builder, value any) {
	switch v := value.(type) {
	case string:
		quote(b, v)
	case uint64:
		b.WriteString(strconv.FormatUint(v, 10))
	case int:
		b.WriteString(strconv.Itoa(v))
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case bool:
		if v {
			b.WriteByte('1')
		} else {
			b.WriteByte('0')
		}
	case List:
		for i, one := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			write(b, one)
		}
	case Row:
		b.WriteByte('(')
		write(b, List(v))
		b.WriteByte(')')
	case Values:
		for i, one := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString("/*!80019 ROW*/") // MySQL wants the word, MariaDB has none
			write(b, one)
		}
	case Raw:
		b.WriteString(string(v))
	case ByName:
		v.write(b)
	default:
		panic(fmt.Sprintf("sqltext: value of type %T", value))
	}
}

// write writes an expression that searches: a list of cases is gone through for
// each row, which takes longer than all else when they are some hundred.
func (v ByName) write(b *strings.Builder) {
	if !slices.ContainsFunc(v, func(n Named) bool { return n.Value != v[0].Value }) {
		write(b, v[0].Value)
		return
	}
	middle := len(v) / 2
	b.WriteString("IF(name<")
	quote(b, v[middle].Name)
	b.WriteByte(',')
	v[:middle].write(b)
	b.WriteByte(',')
	v[middle:].write(b)
	b.WriteByte(')')
}

// quote writes s as a binary string: names and the JSON of plain names as they
// are, and anything with another character in hexadecimal. So there is nothing to
// escape, whatever the session's sql_mode and character set, and nothing that a
// driver or a proxy might take for a placeholder or a comment.
func quote(b *strings.Builder, s string) {
	for i := range len(s) {
		if isPlain[s[i]] {
			continue
		}
		fmt.Fprintf(b, "x'%x'", s)
		return
	}
	b.WriteString("_binary'")
	b.WriteString(s)
	b.WriteByte('\'')
}

// isPlain says which bytes are written as they are.
var isPlain = func() (plain [256]bool) {
	for _, c := range []byte(`abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@+-=,"{}[]`) {
		plain[c] = true
	}
	return plain
}()
