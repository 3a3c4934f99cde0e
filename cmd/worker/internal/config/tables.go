package config

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/jobs/cron"
	"github.com/cronlease/cronlease/lease"
)

// The tables name every key that a file may have. A new one is a line here and,
// if it depends on others, a check where its mapping is read.

var configFields = []field[Config]{
	{"database", func(v value, c *Config) {
		if t, ok := readRaw(v, databaseForm); ok {
			database, err := ParseDatabase(t.raw, v.doc.lookup)
			if err != nil {
				t.report("%v", err)
			}
			c.Database = database
		}
	}},
	{"group", func(v value, c *Config) { c.Group = readName(v, "group") }},
	{"lease", readLease},
	{"jobs", readJobs},
}

var leaseFields = []field[lease.Timing]{
	{"ttl", func(v value, t *lease.Timing) { t.TTL = readDuration(v) }},
	{"grace", func(v value, t *lease.Timing) { t.Grace = readDuration(v) }},
}

// jobFile is a job while it is read: its schedule needs two keys.
type jobFile struct {
	job  Job
	cron *text
	zone *text
}

var jobFields = []field[jobFile]{
	{"name", func(v value, f *jobFile) { f.job.Name = readName(v, "job") }},
	{"cron", func(v value, f *jobFile) {
		if t, ok := readText(v, `a cron expression such as "0 0 2 * * *"`); ok {
			f.cron = &t
		}
	}},
	{"every", func(v value, f *jobFile) {
		if d := readDuration(v); d != 0 {
			every := jobs.Every(d)
			if err := every.Err(); err != nil {
				v.report("%v", err)
			}
			f.job.Schedule = every
		}
	}},
	{"at", func(v value, f *jobFile) {
		const what = "an instant such as 2027-01-01T00:00:00Z"
		if t, ok := readText(v, what); ok {
			at, err := time.Parse(time.RFC3339, t.expanded)
			if err != nil || at.IsZero() {
				t.bad("expected %s", what)
				return
			}
			f.job.Schedule = jobs.At(at)
		}
	}},
	{"zone", func(v value, f *jobFile) {
		const what = "a time zone's IANA name such as Europe/Berlin"
		if t, ok := readText(v, what); ok {
			if _, err := time.LoadLocation(t.expanded); err != nil || t.expanded == "" || t.expanded == "Local" {
				t.bad("expected %s", what)
				return
			}
			f.zone = &t
		}
	}},
	{"timeout", func(v value, f *jobFile) { f.job.Timeout = readDuration(v) }},
	{"exec", func(v value, f *jobFile) {
		const what = `an argument list such as ["/usr/local/bin/report", "--full"]`
		readList(v, what, func(v value) {
			if t, ok := readText(v, "an argument, as text"); ok {
				if strings.ContainsRune(t.expanded, 0) || len(f.job.Exec) == 0 && t.expanded == "" {
					t.bad("expected %s", what)
				}
				f.job.Exec = append(f.job.Exec, t.expanded)
			}
		})
	}},
	{"http", func(v value, f *jobFile) {
		request := HTTP{Method: "POST"}
		found := readMapping(v, `a request such as {url: "http://127.0.0.1:8080/ping"}`, httpFields, &request)
		require(v, found, "url", "the address to send the request to")
		f.job.HTTP = &request
	}},
}

var httpFields = []field[HTTP]{
	{"url", func(v value, h *HTTP) {
		const what = `an absolute URL such as "http://127.0.0.1:8080/ping"`
		if t, ok := readText(v, what); ok {
			u, err := url.Parse(t.expanded)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || !goodPort(u.Port()) {
				// It may hold a password, and so is not shown.
				t.report("expected %s, http or https", what)
				return
			}
			h.URL = t.expanded
		}
	}},
	{"method", func(v value, h *HTTP) {
		what := "one of " + strings.Join(methods, ", ")
		if t, ok := readText(v, what); ok {
			if !slices.Contains(methods, t.expanded) {
				t.bad("expected %s", what)
				return
			}
			h.Method = t.expanded
		}
	}},
}

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

func readConfig(v value, c *Config) {
	found := readMapping(v, "a configuration", configFields, c)
	require(v, found, "database", databaseForm)
	require(v, found, "group", "the name that replicas contend for")
	require(v, found, "jobs", "a list of jobs")
}

func readLease(v value, c *Config) {
	found := readMapping(v, "timings such as {ttl: 15s, grace: 2s}", leaseFields, &c.Lease)
	var bad *lease.TimingError
	if _, err := c.Lease.Complete(); errors.As(err, &bad) {
		at, ok := found[strings.ToLower(bad.Field)]
		if !ok {
			at = v
		}
		at.report("%s: %s", bad.Value, bad.Limit)
	}
}

func readJobs(v value, c *Config) {
	lines := map[string]int{}
	readList(v, "a list with at least one job", func(v value) {
		var f jobFile
		found := readMapping(v, "a job", jobFields, &f)
		checkJob(v, found, &f)
		if name := f.job.Name; name != "" {
			at := found["name"]
			if first, twice := lines[name]; twice {
				at.report("%s: the job in line %d has this name too: expected names that differ", quote(name), first)
			} else {
				lines[name] = at.position().line
			}
		}
		c.Jobs = append(c.Jobs, f.job)
	})
}

// checkJob checks what concerns several keys of one job.
func checkJob(v value, found map[string]value, f *jobFile) {
	require(v, found, "name", "a name for the job")
	exactlyOne(v, found, "cron", "every", "at")
	exactlyOne(v, found, "exec", "http")
	_, hasCron := found["cron"]
	zone, hasZone := found["zone"]
	if hasZone && !hasCron {
		zone.report("expected it only beside cron: every and at do not depend on a time zone")
	}
	// Without its zone the expression would be read as another schedule.
	if f.cron == nil || hasZone && f.zone == nil {
		return
	}
	schedule := jobs.Cron(f.cron.expanded)
	if f.zone != nil {
		schedule = schedule.In(f.zone.expanded)
	}
	if err := schedule.Err(); err != nil {
		reportCron(*f.cron, err)
	}
	f.job.Schedule = schedule
}

// reportCron points at the field of the expression that is wrong, where the
// file has it as it is.
func reportCron(t text, err error) {
	var bad *cron.Error
	switch {
	case !errors.As(err, &bad):
		t.report("%v", err)
	case t.raw != t.expanded:
		t.bad("expected a cron expression, but what the variables stand for is wrong at %s", bad.Field)
	default:
		at := t.position()
		switch t.node.Style {
		case yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle:
			at.column += 1 + bad.Offset
		case 0:
			at.column += bad.Offset
		}
		t.doc.report(at, t.key, "%s", strings.TrimPrefix(bad.Error(), "cron: "))
	}
}

func require(v value, found map[string]value, key, what string) {
	if _, ok := found[key]; !ok && found != nil {
		v.report("no %s: expected %s", key, what)
	}
}

// exactlyOne reports when none of the keys is there, or more than one.
func exactlyOne(v value, found map[string]value, keys ...string) {
	if found == nil {
		return
	}
	var there []string
	for _, key := range keys {
		if _, ok := found[key]; ok {
			there = append(there, key)
		}
	}
	choice := strings.Join(keys[:len(keys)-1], ", ") + " or " + keys[len(keys)-1]
	switch {
	case len(there) == 0:
		v.report("expected one of %s", choice)
	case len(there) > 1:
		slices.SortFunc(there, func(a, b string) int { return found[a].position().line - found[b].position().line })
		at := found[there[1]]
		at.report("beside %s: expected only one of %s", there[0], choice)
	}
}

// readName reads the name of a group or a job.
func readName(v value, what string) string {
	t, ok := readText(v, "a name such as billing")
	if !ok {
		return ""
	}
	if lease.CheckName(what, t.expanded) != nil {
		t.bad("expected a name of 1 to %d letters, digits and . _ : / @ + -, the first a letter or a digit", lease.MaxName)
		return ""
	}
	return t.expanded
}

// readDuration reads a duration above zero. It returns zero after it has
// reported.
func readDuration(v value) time.Duration {
	const what = "a duration such as 30s, 5m or 1h"
	t, ok := readText(v, what)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(t.expanded)
	switch {
	case err != nil:
		t.bad("expected %s", what)
		return 0
	case d <= 0:
		t.bad("expected %s, above zero", what)
		return 0
	}
	return d
}

func goodPort(port string) bool {
	if port == "" {
		return true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}
