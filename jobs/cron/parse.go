package cron

import (
	"fmt"
	"strings"
)

// field is the place of a value in an expression with all fields.
type field uint8

const (
	seconds field = iota
	minutes
	hours
	dayOfMonth
	month
	dayOfWeek
	year
)

var fieldNames = [...]string{"seconds", "minutes", "hours", "day-of-month", "month", "day-of-week", "year"}

func (f field) String() string { return fieldNames[f] }

// macros are words for a whole expression, as minutes to day-of-week; the second is 0 and weekday 0 is Sunday.
var macros = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// parser reads one expression. Its results are the fields after dialect.
type parser struct {
	expression string
	dialect    Dialect // never Auto once parse has counted the fields
	disabled   bool
	sets       [year + 1]set // all but the two day fields
	monthDays  monthDays
	weekDays   weekDays
}

// part is a piece of the expression and where it starts.
type part struct {
	text   string
	offset int
}

func (p *parser) fail(where, text string, offset int, reason string, args ...any) error {
	return &Error{Expression: p.expression, Field: where, Text: text, Offset: offset, Reason: fmt.Sprintf(reason, args...)}
}

func (p *parser) parse() error {
	parts := split(p.expression)
	switch {
	case len(parts) == 0:
		return p.fail("expression", "", 0, "is empty: want five fields (unix), six (spring), a macro such as @daily, or -")
	case len(parts) == 1 && parts[0].text == "-":
		p.disabled = true
		return nil
	case parts[0].text[0] == '@':
		return p.parseMacro(parts)
	}
	first, err := p.count(parts)
	if err != nil {
		return err
	}
	if first == minutes {
		p.sets[seconds].add(0)
	}
	for i, part := range parts {
		switch f := first + field(i); f {
		case dayOfMonth:
			err = p.parseMonthDays(part)
		case dayOfWeek:
			err = p.parseWeekDays(part)
		default:
			err = p.parseSet(f, part, &p.sets[f])
		}
		if err != nil {
			return err
		}
	}
	if p.dialect == Quartz {
		return p.oneDayField(parts[dayOfMonth], parts[dayOfWeek])
	}
	return nil
}

// parseMacro reads the fields a macro stands for, which is the same for every dialect that has macros.
func (p *parser) parseMacro(parts []part) error {
	word := parts[0]
	fields, ok := macros[strings.ToLower(word.text)]
	switch {
	case p.dialect == Quartz:
		return p.fail("macro", word.text, word.offset, "quartz has no macros: write the fields, or name another dialect")
	case !ok:
		return p.fail("macro", word.text, word.offset,
			"want @hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually")
	case len(parts) > 1:
		return p.fail("macro", parts[1].text, parts[1].offset, "nothing may follow %s", word.text)
	}
	q := &parser{expression: fields, dialect: Unix}
	if err := q.parse(); err != nil {
		return err
	}
	q.expression = p.expression
	if p.dialect != Unix {
		q.dialect = Spring
	}
	*p = *q
	return nil
}

// count settles the dialect by the number of fields and returns the first of them.
func (p *parser) count(parts []part) (first field, err error) {
	n := len(parts)
	missing := func(f field, want string) error {
		at := len(p.expression)
		if f == seconds {
			at = parts[0].offset
		}
		return p.fail(f.String(), "", at, "missing: %d fields given, %s", n, want)
	}
	surplus := func(where string, at int, reason string) error {
		return p.fail(where, parts[at].text, parts[at].offset, "%s", reason)
	}
	switch p.dialect {
	case Auto:
		switch {
		case n < 5:
			return 0, missing(minutes+field(n), "want five (unix) or six (spring)")
		case n == 5:
			p.dialect = Unix
			return minutes, nil
		case n == 6:
			p.dialect = Spring
			return seconds, nil
		case n == 7:
			return 0, surplus("year", 6, "seven fields are quartz: name that dialect (there Sunday is 1)")
		}
	case Unix:
		switch {
		case n < 5:
			return 0, missing(minutes+field(n), "unix wants five")
		case n == 5:
			return minutes, nil
		case n == 6:
			return 0, surplus("seconds", 0, "six fields given, unix wants five and has no seconds: spring and quartz have")
		}
	case Spring:
		switch {
		case n == 5:
			return 0, missing(seconds, "spring wants six, seconds first")
		case n < 6:
			return 0, missing(seconds+field(n), "spring wants six")
		case n == 6:
			return seconds, nil
		case n == 7:
			return 0, surplus("year", 6, "seven fields given, spring wants six and has no year: quartz has")
		}
	case Quartz:
		switch {
		case n == 5:
			return 0, missing(seconds, "quartz wants six or seven, seconds first")
		case n < 6:
			return 0, missing(seconds+field(n), "quartz wants six or seven")
		case n <= 7:
			return seconds, nil
		}
	}
	return 0, surplus("expression", len(parts)-1, fmt.Sprintf("%d fields given, no dialect has more than seven", n))
}

// oneDayField checks Quartz' rule that exactly one of the day fields is "?".
func (p *parser) oneDayField(m, w part) error {
	switch {
	case m.text == "?" && w.text == "?":
		return p.fail(dayOfWeek.String(), w.text, w.offset, "quartz wants ? in one of the two day fields, not in both")
	case m.text != "?" && w.text != "?":
		return p.fail(dayOfWeek.String(), w.text, w.offset, "quartz wants ? here or in day-of-month: it uses only one of them")
	}
	return nil
}

// years returns the years of the calendar, which counts them from baseYear.
func (p *parser) years() (years set) {
	given := p.sets[year]
	for y := baseYear; y <= lastYear; y++ {
		if given == (set{}) || given.has(y-baseYear) {
			years.add(y - baseYear)
		}
	}
	return years
}

// split cuts the expression at blanks.
func split(expression string) (parts []part) {
	start := -1
	for i := 0; i <= len(expression); i++ {
		switch blank := i == len(expression) || expression[i] == ' ' || expression[i] == '\t'; {
		case blank && start >= 0:
			parts = append(parts, part{expression[start:i], start})
			start = -1
		case !blank && start < 0:
			start = i
		}
	}
	return parts
}
