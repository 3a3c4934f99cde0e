package cron_test

import (
	"errors"
	"testing"

	"github.com/cronlease/cronlease/jobs/cron"
)

func TestParseErrors(t *testing.T) {
	t.Parallel()
	const (
		auto, unix, spring, quartz = cron.Auto, cron.Unix, cron.Spring, cron.Quartz
	)
	for _, c := range []struct {
		dialect     cron.Dialect
		expression  string
		field, text string
		offset      int
		reason      string
	}{
		// the number of fields
		{auto, "", "expression", "", 0, "is empty: want five fields (unix), six (spring), a macro such as @daily, or -"},
		{auto, " \t ", "expression", "", 0, "is empty: want five fields (unix), six (spring), a macro such as @daily, or -"},
		{auto, "0 0 1 1", "day-of-week", "", 7, "missing: 4 fields given, want five (unix) or six (spring)"},
		{auto, "0 0 0 1 1 ? 2027", "year", "2027", 12, "seven fields are quartz: name that dialect (there Sunday is 1)"},
		{auto, "1 2 3 4 5 6 7 8", "expression", "8", 14, "8 fields given, no dialect has more than seven"},
		{unix, "0 0", "day-of-month", "", 3, "missing: 2 fields given, unix wants five"},
		{unix, "0 0 0 * * *", "seconds", "0", 0, "six fields given, unix wants five and has no seconds: spring and quartz have"},
		{spring, " 0 0 * * *", "seconds", "", 1, "missing: 5 fields given, spring wants six, seconds first"},
		{spring, "0 0 0", "day-of-month", "", 5, "missing: 3 fields given, spring wants six"},
		{spring, "0 0 0 * * * 2027", "year", "2027", 12, "seven fields given, spring wants six and has no year: quartz has"},
		{quartz, "0 0 * * ?", "seconds", "", 0, "missing: 5 fields given, quartz wants six or seven, seconds first"},
		{quartz, "0 0 0 *", "month", "", 7, "missing: 4 fields given, quartz wants six or seven"},
		{quartz, "0 0 0 1 1 ? 2027 x", "expression", "x", 17, "8 fields given, no dialect has more than seven"},

		// macros
		{auto, "@reboot", "macro", "@reboot", 0, "want @hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually"},
		{auto, "@every 5m", "macro", "@every", 0, "want @hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually"},
		{auto, "@daily x", "macro", "x", 7, "nothing may follow @daily"},
		{quartz, "@daily", "macro", "@daily", 0, "quartz has no macros: write the fields, or name another dialect"},

		// numbers, ranges, steps
		{auto, "0 0 25 * * *", "hours", "25", 4, "at most 23"},
		{auto, "60 * * * *", "minutes", "60", 0, "at most 59"},
		{auto, "0 0 0 0 * *", "day-of-month", "0", 6, "at least 1"},
		{auto, "0 0 0 1,32 * *", "day-of-month", "32", 8, "at most 31"},
		{auto, "0 0 0 * 13 *", "month", "13", 8, "at most 12"},
		{auto, "0 0 0 * * 8", "day-of-week", "8", 10, "at most 7"},
		{quartz, "0 0 0 ? * 0", "day-of-week", "0", 10, "at least 1"},
		{quartz, "0 0 0 ? * * 2100", "year", "2100", 12, "at most 2099"},
		{auto, "99999999999999999999 * * * *", "minutes", "99999999999999999999", 0, "at most 59"},
		{auto, "0 x * * *", "hours", "x", 2, "want a number from 0 to 23, *, or a list, range or step of these"},
		{auto, "0 1,,2 * * *", "hours", "", 4, "want a number from 0 to 23, *, or a list, range or step of these"},
		{auto, "0 -1 * * *", "hours", "", 2, "want a number from 0 to 23, *, or a list, range or step of these"},
		{auto, "0 +1 * * *", "hours", "+1", 2, "want a number from 0 to 23, *, or a list, range or step of these"},
		{auto, "0 ? * * *", "hours", "?", 2, "want a number from 0 to 23, *, or a list, range or step of these"},
		{auto, "0 22-2 * * *", "hours", "22-2", 2, "ends before it starts: list two ranges instead"},
		{auto, "0 0 0 * * SAT-MON", "day-of-week", "SAT-MON", 10, "ends before it starts: list two ranges instead"},
		{quartz, "0 0 0 ? * * 2030-2028", "year", "2030-2028", 12, "ends before it starts: list two ranges instead"},
		{auto, "*/0 * * * *", "minutes", "0", 2, "want a step of 1 or more after /"},
		{auto, "1-5/x * * * *", "minutes", "x", 4, "want a step of 1 or more after /"},
		{auto, "/5 * * * *", "minutes", "", 0, "want a number from 0 to 59, *, or a list, range or step of these"},
		{quartz, "0 0 */24 ? * *", "hours", "24", 6, "at most 23: quartz takes no greater step here"},
		{quartz, "0 0 0 ? * MON-FRI/2", "day-of-week", "2", 18, "quartz ignores a step after a name: write numbers instead of MON-FRI"},

		// names
		{auto, "0 0 * MAI *", "month", "MAI", 6, "want a number from 1 to 12, *, or a list, range or step of these, or names such as JAN"},
		{auto, "0 0 * ANF *", "month", "ANF", 6, "want a number from 1 to 12, *, or a list, range or step of these, or names such as JAN"},
		{unix, "0 0 * * UNM", "day-of-week", "UNM", 8, "want a number from 0 to 7, *, or a list, range or step of these, or ?, names such as MON (L and # are spring and quartz)"},
		{auto, "0 0 0 * 1-ſe *", "month", "ſe", 10, "want a number from 1 to 12, *, or a list, range or step of these, or names such as JAN"},
		{auto, "0 0 0 * * MONDAY", "day-of-week", "MONDAY", 10, "want a number from 0 to 7, *, or a list, range or step of these, or ?, names such as MON, FRIL, FRI#2"},

		// L, W and #
		{unix, "0 0 L * *", "day-of-month", "L", 4, "want a number from 1 to 31, *, or a list, range or step of these, or ? (L and W are spring and quartz)"},
		{spring, "0 0 0 l * *", "day-of-month", "l", 6, "want a number from 1 to 31, *, or a list, range or step of these, or ?, L, L-n, LW, nW"},
		{quartz, "0 0 0 X * ?", "day-of-month", "X", 6, "want a number from 1 to 31, *, or a list, range or step of these, or ?, L, L-n, LW, L-nW, nW"},
		{spring, "0 0 0 1,32W * *", "day-of-month", "32W", 8, "want a day from 1 to 31 before W"},
		{spring, "0 0 0 W * *", "day-of-month", "W", 6, "want a day from 1 to 31 before W"},
		{spring, "0 0 0 L-0 * *", "day-of-month", "L-0", 6, "want L, LW, or L-n with n from 1 to 31"},
		{spring, "0 0 0 L3 * *", "day-of-month", "L3", 6, "want L, LW, or L-n with n from 1 to 31"},
		{spring, "0 0 0 L-3W * *", "day-of-month", "L-3W", 6, "want L-n or LW: only quartz has L-nW"},
		{quartz, "0 0 0 L-31 * ?", "day-of-month", "L-31", 6, "want L, LW, or L-n with n from 0 to 30"},
		{quartz, "0 0 0 1,15W * ?", "day-of-month", "15W", 8, "quartz knows L and W only alone, not in a list"},
		{spring, "0 0 0 * * L", "day-of-week", "L", 10, "want a weekday before L or #, as in FRIL or FRI#2"},
		{spring, "0 0 0 * * #1", "day-of-week", "#1", 10, "want a weekday before L or #, as in FRIL or FRI#2"},
		{spring, "0 0 0 * * FRI#0", "day-of-week", "0", 14, "want a number from 1 to 5 after #"},
		{spring, "0 0 0 * * 9L", "day-of-week", "9", 10, "at most 7"},
		{quartz, "0 0 0 ? * FRI#6", "day-of-week", "6", 14, "at most 5"},
		{quartz, "0 0 0 ? * MON,FRI#2", "day-of-week", "FRI#2", 14, "quartz knows L and # only alone, not in a list"},

		// Quartz and its two day fields
		{quartz, "0 0 0 ? * ?", "day-of-week", "?", 10, "quartz wants ? in one of the two day fields, not in both"},
		{quartz, "0 0 0 1 * MON", "day-of-week", "MON", 10, "quartz wants ? here or in day-of-month: it uses only one of them"},
		{spring, "0 0 0 1,? * *", "day-of-month", "?", 8, "want a number from 1 to 31, *, or a list, range or step of these, or ?, L, L-n, LW, nW"},

		{cron.Dialect(9), "* * * * *", "dialect", "Dialect(9)", 0, "want auto, unix, spring or quartz"},
	} {
		t.Run(c.dialect.String()+"/"+c.expression, func(t *testing.T) {
			t.Parallel()
			e, err := cron.Parse(c.expression, cron.WithDialect(c.dialect))
			var got *cron.Error
			if !errors.As(err, &got) {
				t.Fatalf("got %v, %v, want an *Error", e, err)
			}
			want := cron.Error{Expression: c.expression, Field: c.field, Text: c.text, Offset: c.offset, Reason: c.reason}
			if *got != want {
				t.Errorf("got  %+v\nwant %+v", *got, want)
			}
		})
	}
}

func TestNilOption(t *testing.T) {
	t.Parallel()
	if _, err := cron.Parse("@daily", nil); err == nil {
		t.Error("Parse with a nil option: no error")
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	_, err := cron.Parse("0 0 25 * * *")
	if got, want := err.Error(), `cron: hours "25" in "0 0 25 * * *": at most 23`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_, err = cron.Parse("* * * * *", cron.WithDST(7))
	if got, want := err.Error(), `cron: dst "DST(7)" in "* * * * *": want once or native`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, d := range []cron.Dialect{cron.Auto, cron.Unix, cron.Spring, cron.Quartz} {
		if got, err := cron.ParseDialect(d.String()); got != d || err != nil {
			t.Errorf("ParseDialect(%q) = %v, %v", d.String(), got, err)
		}
	}
	for _, p := range []cron.DST{cron.Once, cron.Native} {
		if got, err := cron.ParseDST(p.String()); got != p || err != nil {
			t.Errorf("ParseDST(%q) = %v, %v", p.String(), got, err)
		}
	}
	if got, err := cron.ParseDialect("QUARTZ"); got != cron.Quartz || err != nil {
		t.Errorf("ParseDialect in capitals = %v, %v", got, err)
	}
	if got, err := cron.ParseDialect(""); got != cron.Auto || err != nil {
		t.Errorf("ParseDialect of nothing = %v, %v", got, err)
	}
	if got, err := cron.ParseDST(""); got != cron.Once || err != nil {
		t.Errorf("ParseDST of nothing = %v, %v", got, err)
	}
	if _, err := cron.ParseDialect("jenkins"); err == nil {
		t.Error("ParseDialect took jenkins")
	}
	if _, err := cron.ParseDST("twice"); err == nil {
		t.Error("ParseDST took twice")
	}
}
