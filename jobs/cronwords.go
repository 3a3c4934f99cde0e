package jobs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs/cron"
)

// words describes a cron expression, or shows it where that would be long.
func (s CronSchedule) words() string {
	text, ofDay := cronWords(s.expression, s.dialect)
	if text == "" || s.Err() != nil {
		text, ofDay = "cron "+s.expression, true
	}
	if strings.TrimSpace(s.expression) == "-" {
		return "never"
	}
	if ofDay {
		text += ", " + s.zone
	}
	return text
}

// macros have the same meaning in all dialects that have them.
var macros = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

// cronWords describes an expression that is valid. It is empty for one that it does not
// understand. ofDay reports whether the description names times of day or days, so that the zone matters.
func cronWords(expression string, dialect cron.Dialect) (text string, ofDay bool) {
	if macro, ok := macros[strings.ToLower(strings.TrimSpace(expression))]; ok {
		expression, dialect = macro, cron.Unix
	}
	fields := strings.Fields(expression)
	if len(fields) == 5 {
		fields = append([]string{"0"}, fields...)
	}
	if len(fields) == 7 && (fields[6] == "*" || fields[6] == "?") {
		fields = fields[:6]
	}
	if len(fields) != 6 {
		return "", false
	}
	second, ok1 := readCronField(fields[0], 0, 59, nil)
	minute, ok2 := readCronField(fields[1], 0, 59, nil)
	hour, ok3 := readCronField(fields[2], 0, 23, nil)
	if !ok1 || !ok2 || !ok3 {
		return "", false
	}
	days, ok := dayWords(fields[3], fields[4], fields[5], dialect)
	if !ok {
		return "", false
	}
	at, ofDay := timeWords(second, minute, hour)
	switch {
	case at == "":
		return "", false
	case days != "":
		return at + " " + days, true
	case strings.HasPrefix(at, "at "):
		return at + " every day", true
	}
	return at, ofDay
}

// cronField is a field of a cron expression, as far as it can be described.
type cronField struct {
	all    bool  // each value
	values []int // sorted
	step   int   // the values are all multiples of it; zero: they are not, or some are missing
}

func (f cronField) single() (int, bool) {
	if len(f.values) == 1 {
		return f.values[0], true
	}
	return 0, false
}

// stretch reports whether the values are three or more in a row.
func (f cronField) stretch() bool {
	n := len(f.values)
	return n > 2 && f.values[n-1]-f.values[0] == n-1
}

func readCronField(text string, low, high int, names []string) (f cronField, ok bool) {
	seen := map[int]bool{}
	for item := range strings.SplitSeq(text, ",") {
		values, every, stepped := strings.Cut(item, "/")
		step := 1
		if stepped {
			var err error
			if step, err = strconv.Atoi(every); err != nil || step < 1 {
				return f, false
			}
		}
		from, to := low, high
		if values != "*" && values != "?" {
			a, b, isRange := strings.Cut(values, "-")
			if from, ok = readCronValue(a, low, names); !ok {
				return f, false
			}
			switch {
			case isRange:
				if to, ok = readCronValue(b, low, names); !ok {
					return f, false
				}
			case !stepped:
				to = from
			}
		}
		if from < low || to > high || from > to {
			return f, false
		}
		for v := from; v <= to; v += step {
			seen[v] = true
		}
	}
	for v := range seen {
		f.values = append(f.values, v)
	}
	slices.Sort(f.values)
	size := high - low + 1
	f.all = len(f.values) == size
	if n := len(f.values); size%n == 0 {
		f.step = size / n
		for i, v := range f.values {
			if v != low+i*f.step {
				f.step = 0
				break
			}
		}
	}
	return f, true
}

func readCronValue(text string, low int, names []string) (int, bool) {
	if i := slices.Index(names, strings.ToUpper(text)); i >= 0 {
		return low + i, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// timeWords describes the times of a day. ofDay is false if they go on through all hours.
func timeWords(second, minute, hour cronField) (text string, ofDay bool) {
	s, ok := second.single()
	if !ok {
		if second.step == 0 || !minute.all || !hour.all {
			return "", false
		}
		return "every " + everyWords(time.Duration(second.step)*time.Second), false
	}
	tail := ""
	if s > 0 {
		tail = fmt.Sprintf(":%02d", s)
	}
	clock := func(h, m int) string { return fmt.Sprintf("%02d:%02d%s", h, m, tail) }
	between := func() string {
		last := len(hour.values) - 1
		return fmt.Sprintf(" from %s to %s", clock(hour.values[0], minute.values[0]), clock(hour.values[last], minute.values[len(minute.values)-1]))
	}
	m, one := minute.single()
	switch {
	case !one && minute.step > 0 && (hour.all || hour.stretch()):
		text := "every " + everyWords(time.Duration(minute.step)*time.Minute)
		if s > 0 {
			text += fmt.Sprintf(" at second %d", s)
		}
		if !hour.all {
			text += between()
		}
		return text, !hour.all
	case one && hour.all:
		return fmt.Sprintf("every hour at :%02d%s", m, tail), false
	case one && hour.step > 0 && hour.step < 12:
		return fmt.Sprintf("every %d hours at :%02d%s", hour.step, m, tail), true
	case one && hour.stretch() && len(hour.values) > 4:
		return "every hour" + between(), true
	case len(hour.values)*len(minute.values) <= 6:
		var times []string
		for _, h := range hour.values {
			for _, m := range minute.values {
				times = append(times, clock(h, m))
			}
		}
		return "at " + joined(times), true
	}
	return "", false
}

var (
	weekdays   = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}
	monthNames = []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}
	ordinals   = []string{"", "first", "second", "third", "fourth", "fifth"}
)

// dayWords describes the days; empty: every day. False: it does not understand them, or
// both day fields restrict, which dialects read differently.
func dayWords(ofMonth, month, ofWeek string, dialect cron.Dialect) (string, bool) {
	months, ok := readCronField(month, 1, 12, monthNames)
	if !ok {
		return "", false
	}
	of := "the month"
	if !months.all {
		var names []string
		for _, m := range months.values {
			names = append(names, time.Month(m).String())
		}
		of = joined(names)
	}
	anyOfMonth, anyOfWeek := ofMonth == "*" || ofMonth == "?", ofWeek == "*" || ofWeek == "?"
	switch {
	case !anyOfMonth && !anyOfWeek:
		return "", false
	case !anyOfMonth:
		days, ok := monthDayWords(ofMonth)
		return days + " of " + of, ok
	case !anyOfWeek:
		days, nth, ok := weekDayWords(ofWeek, dialect)
		switch {
		case nth:
			return days + " of " + of, ok
		case !months.all:
			return days + " in " + of, ok
		}
		return days, ok
	case !months.all:
		return "every day in " + of, true
	}
	return "", true
}

func monthDayWords(text string) (string, bool) {
	if text == "L" {
		return "on the last day", true
	}
	f, ok := readCronField(text, 1, 31, nil)
	if !ok || len(f.values) > 6 {
		return "", false
	}
	if day, one := f.single(); one {
		return fmt.Sprintf("on day %d", day), true
	}
	var days []string
	for _, d := range f.values {
		days = append(days, strconv.Itoa(d))
	}
	return "on days " + joined(days), true
}

// weekDayWords describes days of the week. nth: it is one of the month.
func weekDayWords(text string, dialect cron.Dialect) (words string, nth, ok bool) {
	low, high := 0, 7
	if dialect == cron.Quartz {
		low, high = 1, 7
	}
	day := func(text string) (string, bool) {
		v, ok := readCronValue(text, low, weekdays)
		return time.Weekday((v - low) % 7).String(), ok && v >= low && v <= high
	}
	if name, number, found := strings.Cut(text, "#"); found {
		n, err := strconv.Atoi(number)
		name, ok := day(name)
		if err != nil || n < 1 || n > 5 || !ok {
			return "", false, false
		}
		return "on the " + ordinals[n] + " " + name, true, true
	}
	if name, last := strings.CutSuffix(strings.ToUpper(text), "L"); last {
		name, ok := day(name)
		return "on the last " + name, true, ok
	}
	f, ok := readCronField(text, low, high, weekdays)
	if !ok {
		return "", false, false
	}
	var on [7]bool
	for _, v := range f.values {
		on[(v-low)%7] = true
	}
	var names []string
	for i := range 7 { // a week is written from Monday on
		if d := (i + 1) % 7; on[d] {
			names = append(names, time.Weekday(d).String())
		}
	}
	switch {
	case len(names) == 7:
		return "every day", false, true
	case len(names) == 5 && !on[time.Saturday] && !on[time.Sunday]:
		return "on weekdays", false, true
	case len(names) == 1:
		return "on " + names[0] + "s", false, true
	}
	return "on " + joined(names), false, true
}
