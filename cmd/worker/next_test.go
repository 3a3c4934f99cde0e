package main

import (
	"regexp"
	"strings"
	"testing"
)

func TestNext(t *testing.T) {
	t.Parallel()
	const from = "2026-11-20T12:00:00Z"
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"unix":           {[]string{"--count", "2", "--from", from, "0 2 * * *"}, "2026-11-21T02:00:00Z\n2026-11-22T02:00:00Z\n"},
		"default count":  {[]string{"--from", from, "@daily"}, "2026-11-21T00:00:00Z\n2026-11-22T00:00:00Z\n2026-11-23T00:00:00Z\n2026-11-24T00:00:00Z\n2026-11-25T00:00:00Z\n"},
		"strictly after": {[]string{"--from", "2026-11-21T02:00:00Z", "--count=1", "0 2 * * *"}, "2026-11-22T02:00:00Z\n"},
		"other offset":   {[]string{"--from", "2026-11-21T03:30:00+02:00", "--count=1", "0 2 * * *"}, "2026-11-21T02:00:00Z\n"},
		"zone":           {[]string{"--zone", "Europe/Berlin", "--count", "1", "--from", from, "0 0 2 * * *"}, "2026-11-21T01:00:00Z\n"},
		"local":          {[]string{"--zone", "Europe/Berlin", "--local", "--count", "2", "--from", "2027-03-27T12:00:00Z", "0 0 2 * * *"}, "2027-03-28T03:00:00+02:00\n2027-03-29T02:00:00+02:00\n"},
		"local, UTC":     {[]string{"--local", "--count", "1", "--from", from, "0 2 * * *"}, "2026-11-21T02:00:00Z\n"},
		"quartz, ends":   {[]string{"--dialect", "quartz", "--from", "2027-11-01T00:00:00Z", "0 0 2 ? * 6L 2027", "--count", "9"}, "2027-11-26T02:00:00Z\n2027-12-31T02:00:00Z\nnever\n"},
		"as many":        {[]string{"--dialect", "quartz", "--from", "2027-11-01T00:00:00Z", "0 0 2 ? * 6L 2027", "--count", "2"}, "2027-11-26T02:00:00Z\n2027-12-31T02:00:00Z\n"},
		"spring, named":  {[]string{"--dialect", "Spring", "--from", from, "--count", "1", "0 0 9 ? * 2"}, "2026-11-24T09:00:00Z\n"},
		"quartz, named":  {[]string{"--dialect", "quartz", "--from", from, "--count", "1", "0 0 9 ? * 2"}, "2026-11-23T09:00:00Z\n"},
		"once":           {[]string{"--zone", "Europe/Berlin", "--from", "2027-10-30T12:00:00Z", "--count", "2", "0 30 2 * * *"}, "2027-10-31T00:30:00Z\n2027-11-01T01:30:00Z\n"},
		"native":         {[]string{"--dst", "native", "--zone", "Europe/Berlin", "--from", "2027-10-30T12:00:00Z", "--count", "2", "0 30 2 * * *"}, "2027-10-31T00:30:00Z\n2027-10-31T01:30:00Z\n"},
		"disabled":       {[]string{"-"}, "never\n"},
		"behind dashes":  {[]string{"--", "-"}, "never\n"},
		"between flags":  {[]string{"--count", "3", "-", "--zone", "Asia/Tokyo"}, "never\n"},
		"until":          {[]string{"--from", from, "--until", "2026-11-22T02:00:00Z", "0 2 * * *"}, "2026-11-21T02:00:00Z\nnever\n"},
		"except":         {[]string{"--from", from, "--except", "11-21..11-23", "--except", "* * * * 2", "--count", "1", "0 2 * * *"}, "2026-11-25T02:00:00Z\n"},
		"no such day":    {[]string{"0 0 30 2 *"}, "never\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := command(t, append([]string{"next"}, test.args...)...)
			if r.err != nil || r.stdout != test.want || r.stderr != "" {
				t.Errorf("got %+v, want %s", r, test.want)
			}
		})
	}
}

func TestNextErrors(t *testing.T) {
	t.Parallel()
	const usage = "\nRun 'worker next --help' for usage."
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"value":         {[]string{"0 0 25 * * *"}, "hours \"25\": at most 23\n  0 0 25 * * *\n      ^^" + usage},
		"missing":       {[]string{"0 0 1 1"}, "day-of-week: missing: 4 fields given, want five (unix) or six (spring)\n  0 0 1 1\n         ^" + usage},
		"hyphen":        {[]string{"-1 * * * *", "--count", "2"}, "minutes: want a number from 0 to 59, *, or a list, range or step of these\n  -1 * * * *\n  ^" + usage},
		"hyphen, bare":  {[]string{"--", "-1 * * * *"}, "minutes: want a number from 0 to 59, *, or a list, range or step of these\n  -1 * * * *\n  ^" + usage},
		"characters":    {[]string{"0 0\t\x1b * *"}, "\n  0 0   * *\n      ^" + usage},
		"wide":          {[]string{"5 * * äöü *"}, "month \"äöü\": want"},
		"wide, mark":    {[]string{"5 * * äöü *"}, "\n  5 * * äöü *\n        ^^^" + usage},
		"empty":         {[]string{""}, "expression: is empty: want five fields"},
		"macro":         {[]string{"@reboot"}, "macro \"@reboot\": want @hourly"},
		"other dialect": {[]string{"--dialect", "quartz", "0 0 2 * * 5"}, "day-of-week \"5\": quartz wants ? here"},
		"none":          {nil, "expected a cron expression, such as \"0 2 * * *\"" + usage},
		"no quotes":     {[]string{"0", "2", "*", "*", "*"}, "unexpected argument \"2\": write the expression as one argument, in quotes" + usage},
		"until":         {[]string{"--until", "later", "@daily"}, "--until \"later\": expected an instant such as"},
		"except":        {[]string{"--except", "2026-13-01", "@daily"}, "--except \"2026-13-01\": expected a day such as 2026-12-24"},
		"job and more":  {[]string{"--job", "a", "@daily"}, "unexpected argument \"@daily\": give an expression or --job" + usage},
		"job and zone":  {[]string{"--job", "a", "--zone", "UTC"}, "--zone is for an expression: the configuration file has that of a job" + usage},
		"dialect":       {[]string{"--dialect", "jenkins", "@daily"}, "--dialect \"jenkins\": expected spring, quartz or unix" + usage},
		"dst":           {[]string{"--dst", "twice", "@daily"}, "--dst \"twice\": expected once or native" + usage},
		"zone":          {[]string{"--zone", "Berlin", "@daily"}, "--zone \"Berlin\": not known: give an IANA name such as Europe/Berlin" + usage},
		"zone, local":   {[]string{"--zone", "Local", "@daily"}, "--zone \"Local\": not known"},
		"zone, empty":   {[]string{"--zone", "", "@daily"}, "--zone \"\": not known"},
		"from":          {[]string{"--from", "tomorrow", "@daily"}, "--from \"tomorrow\": expected an instant such as 2027-01-01T00:00:00Z" + usage},
		"from, empty":   {[]string{"--from", "", "@daily"}, "--from \"\": expected an instant"},
		"count":         {[]string{"--count", "0", "@daily"}, "--count 0: must be at least 1" + usage},
		"flag":          {[]string{"--colour", "@daily"}, "unknown flag: --colour" + usage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := command(t, append([]string{"next"}, test.args...)...)
			if exitCode(r.err) != 2 || !strings.Contains(r.err.Error(), test.want) || r.stdout != "" {
				t.Errorf("got code %d, %+v, want %s", exitCode(r.err), r, test.want)
			}
		})
	}
}

// The ticks of a job of the file, and when their runs start.
func TestNextOfJob(t *testing.T) {
	t.Parallel()
	path := configure(t, `
  - {name: nightly, cron: "0 2 * * *", zone: Europe/Berlin, except: [2026-12-24..2026-12-26], jitter: 30s, exec: ["true"]}
  - {name: rate, fixed_rate: 1m, exec: ["true"]}
  - {name: tell, notify: {on_failure: [rate]}, exec: ["true"]}
`)
	r := command(t, "next", "--config", path, "--job", "nightly", "--from", "2026-12-22T12:00:00Z", "--count", "2")
	want := regexp.MustCompile(`^2026-12-23T01:00:00Z  starts at 2026-12-23T01:00:([012]\d\.\d{3})Z\n2026-12-27T01:00:00Z  starts at 2026-12-27T01:00:([012]\d\.\d{3})Z\n$`)
	if parts := want.FindStringSubmatch(r.stdout); r.err != nil || parts == nil || parts[1] == parts[2] {
		t.Errorf("got %+v", r)
	}
	for job, want := range map[string]string{"rate": "its ticks depend on what the database has", "tell": "job tell: it is due when rate fails", "other": `no job "other" in`} {
		if r := command(t, "next", "--config", path, "--job", job); r.err == nil || !strings.Contains(r.err.Error(), want) {
			t.Errorf("%s: %+v", job, r)
		}
	}
}
