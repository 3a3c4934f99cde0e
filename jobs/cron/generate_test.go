package cron_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/cronlease/cronlease/jobs/cron"
)

// spec is an expression together with what it means, drawn at random and known without parsing.
type spec struct {
	dialect                cron.Dialect
	second, minute, hour   values
	monthDay, month, week  string
	months                 map[int]bool
	isMonthDay, isWeekDay  func(date time.Time) bool
	monthDayStar, weekStar bool
	today                  int64 // the last midnight that matches looked at
	isToday                bool
}

// values is a field and the numbers it stands for.
type values struct {
	text string
	in   [60]bool
}

func (s *spec) String() string {
	fields := []string{s.second.text, s.minute.text, s.hour.text, s.monthDay, s.month, s.week}
	if s.dialect == cron.Unix {
		fields = fields[1:]
	}
	return strings.Join(fields, " ")
}

// isDay reports whether the date, as midnight UTC, is one of the expression's.
func (s *spec) isDay(date time.Time) bool {
	if !s.months[int(date.Month())] {
		return false
	}
	a, b := s.isMonthDay(date), s.isWeekDay(date)
	if s.dialect == cron.Unix && !s.monthDayStar && !s.weekStar {
		return a || b
	}
	return a && b
}

func drawSpec(t *rapid.T) *spec {
	s := &spec{dialect: rapid.SampledFrom([]cron.Dialect{cron.Unix, cron.Spring, cron.Quartz}).Draw(t, "dialect")}
	s.second = drawValues(t, "second", 0, 59, s.dialect)
	if s.dialect == cron.Unix {
		s.second = values{text: "0", in: [60]bool{0: true}}
	}
	s.minute = drawValues(t, "minute", 0, 59, s.dialect)
	s.hour = drawValues(t, "hour", 0, 23, s.dialect)
	s.drawMonths(t)
	s.drawMonthDay(t)
	s.drawWeekDay(t)
	if s.dialect == cron.Quartz {
		if rapid.Bool().Draw(t, "by weekday") {
			s.monthDay, s.isMonthDay = "?", anyDay
		} else {
			s.week, s.isWeekDay = "?", anyDay
		}
	}
	return s
}

func drawValues(t *rapid.T, label string, low, high int, dialect cron.Dialect) values {
	if rapid.IntRange(0, 2).Draw(t, label+" form") == 0 {
		v := values{text: "*"}
		for n := low; n <= high; n++ {
			v.in[n] = true
		}
		return v
	}
	var v values
	number := rapid.IntRange(low, high)
	for range rapid.IntRange(1, 3).Draw(t, label+" items") {
		a, b := number.Draw(t, label), number.Draw(t, label)
		if b < a && dialect != cron.Quartz {
			a, b = b, a
		}
		step := rapid.IntRange(1, 20).Draw(t, label+" step")
		item := fmt.Sprint(a)
		switch rapid.IntRange(0, 4).Draw(t, label+" item") {
		case 0:
			b, step = a, 1
		case 1:
			item, step = fmt.Sprintf("%d-%d", a, b), 1
		case 2:
			item = fmt.Sprintf("%d-%d/%d", a, b, step)
		case 3:
			b, item = high, fmt.Sprintf("%d/%d", a, step)
		case 4:
			a, b, item = low, high, fmt.Sprintf("*/%d", step)
		}
		if b < a {
			b += high - low + 1
		}
		for n := a; n <= b; n += step {
			v.in[low+(n-low)%(high-low+1)] = true
		}
		v.text = strings.TrimPrefix(v.text+","+item, ",")
	}
	return v
}

func (s *spec) drawMonths(t *rapid.T) {
	s.month, s.months = "*", map[int]bool{}
	for m := 1; m <= 12; m++ {
		s.months[m] = true
	}
	if rapid.Bool().Draw(t, "any month") {
		return
	}
	s.months = map[int]bool{}
	var items []string
	for _, m := range rapid.SliceOfNDistinct(rapid.IntRange(1, 12), 1, 4, rapid.ID[int]).Draw(t, "months") {
		s.months[m] = true
		items = append(items, rapid.SampledFrom([]string{fmt.Sprint(m), time.Month(m).String()[:3]}).Draw(t, "month"))
	}
	s.month = strings.Join(items, ",")
}

func anyDay(time.Time) bool { return true }

// left is how many days the month has after the date.
func left(date time.Time) int {
	for n := 0; ; n++ {
		if date.AddDate(0, 0, n+1).Month() != date.Month() {
			return n
		}
	}
}

// nearest reports whether the date is the working day nearest to day n of its month.
func nearest(dialect cron.Dialect, n int, date time.Time) bool {
	target := date.AddDate(0, 0, n-date.Day())
	if target.Month() != date.Month() && (dialect != cron.Quartz || left(date) != 0 || n != date.Day()+1) {
		return false
	}
	var moves []int
	switch target.Weekday() {
	case time.Saturday:
		moves = []int{-1, +2}
	case time.Sunday:
		if moves = []int{+1}; dialect == cron.Quartz {
			moves = []int{+1, -2}
		}
	default:
		moves = []int{0}
	}
	for _, move := range moves {
		if to := target.AddDate(0, 0, move); to.Month() == date.Month() {
			return to.Equal(date)
		}
	}
	return false
}

func (s *spec) drawMonthDay(t *rapid.T) {
	n := rapid.IntRange(1, 31).Draw(t, "day")
	k := rapid.IntRange(1, 27).Draw(t, "days before the last")
	form := rapid.IntRange(0, 8).Draw(t, "day form")
	if s.dialect == cron.Unix {
		form %= 4
	}
	switch form {
	case 0, 1:
		s.monthDay, s.isMonthDay, s.monthDayStar = "*", anyDay, true
	case 2:
		s.monthDay, s.monthDayStar = fmt.Sprintf("*/%d", n), true
		s.isMonthDay = func(date time.Time) bool { return (date.Day()-1)%n == 0 }
	case 3:
		s.monthDay = fmt.Sprintf("%d,%d-31", min(n, 15), n)
		s.isMonthDay = func(date time.Time) bool { return date.Day() >= n || date.Day() == min(n, 15) }
	case 4:
		s.monthDay, s.isMonthDay = "L", func(date time.Time) bool { return left(date) == 0 }
	case 5:
		s.monthDay, s.isMonthDay = fmt.Sprintf("L-%d", k), func(date time.Time) bool { return left(date) == k }
	case 6:
		s.monthDay = "LW"
		s.isMonthDay = func(date time.Time) bool {
			return nearest(cron.Quartz, date.Day()+left(date), date)
		}
	default:
		s.monthDay = fmt.Sprintf("%dW", n)
		s.isMonthDay = func(date time.Time) bool { return nearest(s.dialect, n, date) }
	}
}

func (s *spec) drawWeekDay(t *rapid.T) {
	d := rapid.SampledFrom([]time.Weekday{0, 1, 2, 3, 4, 5, 6}).Draw(t, "weekday")
	nth := rapid.IntRange(1, 5).Draw(t, "nth")
	number := int(d)
	if s.dialect == cron.Quartz {
		number++
	}
	name := rapid.SampledFrom([]string{fmt.Sprint(number), d.String()[:3], strings.ToUpper(d.String()[:3])}).Draw(t, "name")
	form := rapid.IntRange(0, 5).Draw(t, "weekday form")
	if s.dialect == cron.Unix {
		form %= 4
	}
	switch form {
	case 0, 1:
		s.week, s.isWeekDay, s.weekStar = "*", anyDay, true
	case 2:
		s.week = name
		s.isWeekDay = func(date time.Time) bool { return date.Weekday() == d }
	case 3:
		s.week = name + ",MON-WED"
		week := []time.Weekday{d, time.Monday, time.Tuesday, time.Wednesday}
		s.isWeekDay = func(date time.Time) bool { return slices.Contains(week, date.Weekday()) }
	case 4:
		s.week = name + "L"
		s.isWeekDay = func(date time.Time) bool { return date.Weekday() == d && left(date) < 7 }
	case 5:
		s.week = fmt.Sprintf("%s#%d", name, nth)
		s.isWeekDay = func(date time.Time) bool { return date.Weekday() == d && (date.Day()+6)/7 == nth }
	}
}
