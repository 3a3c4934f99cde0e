package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cronlease/cronlease/cmd/worker/internal/sqljob"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/jobs/cron"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
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
	{"max_runs", func(v value, c *Config) { c.MaxRuns = readCount(v, maxRuns) }},
	{"drain", func(v value, c *Config) { c.Drain = readWait(v) }},
	{"clock", func(v value, c *Config) { set(&c.Clock, readWord(v, "database or worker", scheduler.ParseClock)) }},
	{"max_skew", func(v value, c *Config) {
		if d := readDuration(v); d > 0 && d < time.Second {
			v.report("must be at least 1s")
		} else {
			c.MaxSkew = d
		}
	}},
	{"defaults", func(v value, _ *Config) { v.doc.defaults = &v }},
	{"include", func(v value, _ *Config) { v.doc.include = &v }},
	{"jobs", func(v value, _ *Config) { v.doc.jobs = &v }},
}

var leaseFields = []field[lease.Timing]{
	{"ttl", func(v value, t *lease.Timing) { t.TTL = readDuration(v) }},
	{"grace", func(v value, t *lease.Timing) { t.Grace = readDuration(v) }},
}

// jobFile is a job while it is read: its schedule is made of several keys. They
// are nil where they are missing or bad.
type jobFile struct {
	job          Job
	cron         *text
	zone         *text
	dialect      *cron.Dialect
	dst          *cron.DST
	fixedRate    time.Duration
	fixedDelay   time.Duration
	initialDelay time.Duration
	calendar     calendarFile
}

// Bounds on counts. Those of a catch-up are the library's.
const (
	maxRuns     = 100_000
	maxCatchUp  = 10_000
	maxAttempts = 1000
	maxKeep     = 1_000_000_000

	maxPauseAfter = 1000
)

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
		if at := readInstant(v); !at.IsZero() {
			f.job.Schedule = jobs.At(at)
		}
	}},
	{"fixed_rate", func(v value, f *jobFile) { f.fixedRate = readDuration(v) }},
	{"fixed_delay", func(v value, f *jobFile) { f.fixedDelay = readDuration(v) }},
	{"manual", func(v value, f *jobFile) {
		const what = "true, for a job that only runs when it is triggered, or no such key"
		if t, ok := readText(v, what); ok {
			if t.expanded != "true" {
				t.bad("expected %s", what)
			}
			f.job.Schedule = jobs.Manual()
		} else if v.form != nil {
			v.form.is(&Schema{Enum: []any{true}})
		}
	}},
	{"after", func(v value, f *jobFile) {
		const what = "the name of a job, for one that runs each time when that has succeeded"
		if t, ok := readText(v, what); ok {
			after := jobs.After(t.expanded)
			if after.Err() != nil {
				t.bad("expected %s", what)
			}
			f.job.Schedule = after
		}
	}},
	{"initial_delay", func(v value, f *jobFile) { f.initialDelay = readWait(v) }},
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
	{"from", func(v value, f *jobFile) { f.calendar.from = readInstant(v) }},
	{"until", func(v value, f *jobFile) { f.calendar.until = readInstant(v) }},
	{"except", readExcept},
	{"jitter", func(v value, f *jobFile) { f.job.Jitter = readWait(v) }},
	{"everywhere", func(v value, f *jobFile) { set(&f.job.Everywhere, readWord(v, "true or false", parseBool)) }},
	{"pause_after", func(v value, f *jobFile) { f.job.PauseAfter = readCount(v, maxPauseAfter) }},
	{"dialect", func(v value, f *jobFile) { f.dialect = readWord(v, "unix, spring or quartz", cron.ParseDialect) }},
	{"dst", func(v value, f *jobFile) { f.dst = readWord(v, "once or native", cron.ParseDST) }},
	{"timeout", func(v value, f *jobFile) { f.job.Timeout = readDuration(v) }},
	{"lock_at_most_for", func(v value, f *jobFile) { f.job.LockAtMostFor = readDuration(v) }},
	{"lock_at_least_for", func(v value, f *jobFile) { f.job.LockAtLeastFor = readWait(v) }},
	{"misfire", func(v value, f *jobFile) { set(&f.job.Misfire, readWord(v, "once, skip or all", jobs.ParseMisfire)) }},
	{"catch_up", func(v value, f *jobFile) {
		readMapping(v, "bounds such as {limit: 100, deadline: 1h}", catchUpFields, &f.job.CatchUp)
	}},
	{"recover", func(v value, f *jobFile) { set(&f.job.Recover, readWord(v, "skip or rerun", jobs.ParseRecover)) }},
	{"retry", readRetry},
	{"overlap", func(v value, f *jobFile) {
		set(&f.job.Overlap, readWord(v, "forbid, queue, allow or replace", jobs.ParseOverlap))
	}},
	{"max_runs", func(v value, f *jobFile) { f.job.Limit = readCount(v, maxRuns) }},
	{"history", func(v value, f *jobFile) {
		found := readMapping(v, "bounds such as {keep: 1000, for: 30d}", historyFields, &f.job.History)
		if found != nil && len(found) == 0 {
			v.report("expected keep, for, or both")
		}
	}},
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
	{"env", readEnv},
	{"dir", func(v value, f *jobFile) { f.job.Dir = readFolder(v) }},
	{"umask", func(v value, f *jobFile) { f.job.Umask = readUmask(v) }},
	{"user", func(v value, f *jobFile) { f.job.User = readUser(v) }},
	{"limits", func(v value, f *jobFile) {
		found := readMapping(v, "limits such as {memory: 512M, cpu: 10m}", limitFields, &f.job.Limits)
		if found != nil && len(found) == 0 {
			v.report("expected at least one limit")
		}
	}},
	{"http", readHTTP},
	{"sql", func(v value, f *jobFile) {
		readList(v, "a list of SQL statements", func(v value) { f.job.SQL = append(f.job.SQL, readStatement(v)) })
	}},
}

var statementFields = []field[statementFile]{
	{"statement", func(v value, s *statementFile) { s.readText(v) }},
	{"args", func(v value, s *statementFile) {
		readList(v, "a list of "+strings.Join(sqljob.Args, ", "), func(v value) {
			t, ok := readText(v, "one of "+strings.Join(sqljob.Args, ", "))
			switch {
			case v.form != nil:
				v.form.isOneOf(sqljob.Args...)
			case !ok:
			case slices.Contains(sqljob.Args, t.expanded):
				s.Args = append(s.Args, t.expanded)
				return
			case nearest(t.expanded, sqljob.Args) != "":
				t.bad("did you mean %s? Expected one of %s", nearest(t.expanded, sqljob.Args), strings.Join(sqljob.Args, ", "))
			default:
				t.bad("expected one of %s", strings.Join(sqljob.Args, ", "))
			}
			s.bad = true
		})
	}},
}

// statementFile is a statement while it is read.
type statementFile struct {
	sqljob.Statement
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
	if err := sqljob.Check(s.Text); err != nil {
		t.bad("%v", err)
		s.bad = true
	}
}

// readStatement reads a statement: its text, or a mapping with its arguments.
func readStatement(v value) sqljob.Statement {
	var s statementFile
	either(v, yaml.MappingNode, func(v value) {
		found := readMapping(v, "a statement", statementFields, &s)
		require(v, found, "statement", "the text of the statement")
	}, s.readText)
	if n, known := s.Placeholders(); s.Text != "" && !s.bad && known && n != len(s.Args) {
		s.at.bad("%d placeholders (?) and %d args: expected as many of both", n, len(s.Args))
	}
	return s.Statement
}

var catchUpFields = []field[jobs.CatchUp]{
	{"limit", func(v value, c *jobs.CatchUp) { c.Limit = readCount(v, maxCatchUp) }},
	{"deadline", func(v value, c *jobs.CatchUp) { c.Deadline = readDuration(v) }},
}

var retryFields = []field[jobs.Retry]{
	{"attempts", func(v value, r *jobs.Retry) { r.Attempts = readCount(v, maxAttempts) }},
	{"initial", func(v value, r *jobs.Retry) { r.Initial = readDuration(v) }},
	{"max", func(v value, r *jobs.Retry) { r.Max = readDuration(v) }},
}

var historyFields = []field[jobs.History]{
	{"keep", func(v value, h *jobs.History) { h.Keep = readCount(v, maxKeep) }},
	{"for", func(v value, h *jobs.History) { h.For = readDuration(v) }},
}

// readConfig reads a configuration, and returns the files that it includes.
func readConfig(v value, c *Config, read func(path string) ([]byte, error)) []*document {
	found := readMapping(v, "a configuration", configFields, c)
	require(v, found, "database", databaseForm)
	require(v, found, "group", "the name that replicas contend for")
	if _, ok := found["lease"]; !ok {
		c.Lease, _ = c.Lease.Complete() // the defaults fit
	}
	if v.form != nil {
		v.form.AnyOf = []*Schema{{Required: []string{"jobs"}}, {Required: []string{"include"}}}
	} else if _, ok := found["include"]; !ok {
		require(v, found, "jobs", "a list of jobs")
	}
	r := jobReader{config: c, places: map[string]value{}, afters: map[string]value{}}
	defer r.checkPipelines()
	if v.doc.defaults != nil {
		r.defaults = readDefaults(*v.doc.defaults)
	}
	if v.doc.jobs != nil {
		r.read(*v.doc.jobs)
	}
	if v.doc.include == nil {
		return nil
	}
	included := readIncluded(*v.doc.include, read)
	for _, doc := range included {
		if doc.jobs != nil {
			r.read(*doc.jobs)
		}
	}
	if _, ok := found["jobs"]; !ok && v.form == nil && len(included) == 0 && len(v.doc.errors) == 0 {
		v.doc.include.report("no jobs, and no file here: expected a job")
	}
	return included
}

func readLease(v value, c *Config) {
	found := readMapping(v, "timings such as {ttl: 15s, grace: 2s}", leaseFields, &c.Lease)
	var err error
	var bad *lease.TimingError
	if c.Lease, err = c.Lease.Complete(); errors.As(err, &bad) {
		at, ok := found[strings.ToLower(bad.Field)]
		if !ok {
			at = v
		}
		at.report("%s: %s", bad.Value, bad.Limit)
	}
}

// jobReader reads the jobs of a file and of those that it includes.
type jobReader struct {
	config   *Config
	defaults *value // nil for none
	places   map[string]value
	afters   map[string]value // by job: what it follows
}

// checkPipelines reports jobs that follow what is not there, or themselves.
func (r *jobReader) checkPipelines() {
	schedules := map[string]jobs.Schedule{}
	everywhere := map[string]bool{}
	for _, job := range r.config.Jobs {
		if everywhere[job.Name] = job.Everywhere; job.Schedule != nil {
			schedules[job.Name] = job.Schedule
		}
	}
	wrong := jobs.CheckPipelines(schedules)
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		if at, ok := r.afters[name]; ok {
			at.report("%s", strings.TrimPrefix(wrong[name].Error(), "jobs: "))
		}
	}
	for name, at := range r.afters {
		if after, ok := schedules[name].(jobs.AfterSchedule); ok && everywhere[after.Job()] && wrong[name] == nil {
			at.report("%q runs everywhere: no job can follow it, since its runs are not recorded", after.Job())
		}
	}
}

func (r *jobReader) read(v value) {
	readList(v, "a list with at least one job", func(v value) {
		var f jobFile
		v = withDefaults(v, r.defaults)
		found := readMapping(v, "a job", jobFields, &f)
		checkJob(v, found, &f)
		if name := f.job.Name; name != "" {
			at := found["name"]
			if first, twice := r.places[name]; twice {
				where := fmt.Sprintf("line %d", first.position().line)
				if first.doc != at.doc {
					where = fmt.Sprintf("%s:%d", first.doc.name, first.position().line)
				}
				at.report("%s: the job in %s has this name too: expected names that differ", quote(name), where)
			} else {
				r.places[name] = at
				if after, ok := found["after"]; ok {
					r.afters[name] = after
				}
			}
		}
		f.job.from = origin{v.doc.name, v.key, v.doc.place}
		r.config.Jobs = append(r.config.Jobs, f.job)
	})
}

// checkJob checks what concerns several keys of one job.
func checkJob(v value, found map[string]value, f *jobFile) {
	require(v, found, "name", "a name for the job")
	exactlyOne(v, found, "cron", "every", "at", "fixed_rate", "fixed_delay", "manual", "after")
	exactlyOne(v, found, "exec", "http", "sql")
	onlyBeside(found, "zone", "no other schedule depends on it", "cron", "except")
	for _, key := range []string{"dialect", "dst"} {
		onlyBeside(found, key, "no other schedule depends on it", "cron")
	}
	for _, key := range []string{"from", "until", "except", "jitter"} {
		onlyBeside(found, key, "no other schedule has ticks of its own", withTicks...)
	}
	for _, key := range []string{"env", "dir", "umask", "user", "limits"} {
		onlyBeside(found, key, "it is about programs", "exec")
	}
	onlyBeside(found, "initial_delay", "no other schedule counts from when the job is first known", "fixed_rate", "fixed_delay")
	checkTogether(found, f)
	f.job.Schedule = f.within(found, f.schedule(found))
	checkCounts(found, f.job.Job)
}

// checkTogether checks the keys that exclude or need one another.
func checkTogether(found map[string]value, f *jobFile) {
	if f.job.Everywhere {
		for _, key := range []string{"misfire", "catch_up", "recover", "overlap", "max_runs", "lock_at_least_for", "history", "pause_after", "after"} {
			if at, ok := found[key]; ok {
				at.report("does not apply to a job that runs everywhere: there are no records of its runs")
			}
		}
		if at, ok := found["manual"]; ok {
			at.report("a job that runs everywhere cannot be triggered: expected cron, every, at, fixed_rate or fixed_delay")
		}
		if at, ok := found["sql"]; ok {
			at.report("a job that runs everywhere has no lease, and statements need one: expected exec or http")
		}
		return
	}
	if _, follows := found["after"]; follows && f.job.Overlap == jobs.OverlapReplace {
		at, ok := found["overlap"]
		if !ok {
			at = found["after"] // a default
		}
		at.report("overlap replace: a job after another one runs for each of its ticks, and replaces none: expected forbid, queue or allow")
	}
	if at, ok := found["max_runs"]; ok && f.job.Overlap != jobs.OverlapAllow {
		at.report("expected it only beside overlap: allow, since otherwise one run of the job goes on at a time")
	}
	if at, ok := found["lock_at_most_for"]; ok {
		if _, ok := found["timeout"]; ok {
			at.report("beside timeout: expected only one of them, they are two names for the limit of a run")
		}
	}
}

// parseBool takes the two words of YAML alone.
func parseBool(word string) (bool, error) {
	if word != "true" && word != "false" {
		return false, errors.New("no such word")
	}
	return word == "true", nil
}

// schedule makes the schedule of its keys, and reports what is wrong with them
// together. After a report the schedule does not matter.
func (f *jobFile) schedule(found map[string]value) jobs.Schedule {
	switch {
	case f.fixedRate != 0:
		s := jobs.FixedRate(f.fixedRate).InitialDelay(f.initialDelay)
		reportAt(found["fixed_rate"], s.Err())
		return s
	case f.fixedDelay != 0:
		s := jobs.FixedDelay(f.fixedDelay).InitialDelay(f.initialDelay)
		reportAt(found["fixed_delay"], s.Err())
		return s
	case f.cron == nil:
		return f.job.Schedule
	}
	s := jobs.Cron(f.cron.expanded)
	// Without its dialect the expression would be read as another schedule. What is
	// wrong with it does not depend on a zone or on dst.
	if _, given := found["dialect"]; given && f.dialect == nil {
		return s
	}
	if f.zone != nil {
		s = s.In(f.zone.expanded)
	}
	if f.dialect != nil {
		s = s.Dialect(*f.dialect)
	}
	if f.dst != nil {
		s = s.DST(*f.dst)
	}
	if err := s.Err(); err != nil {
		reportCron(*f.cron, err)
	}
	return s
}

func readRetry(v value, f *jobFile) {
	r := &f.job.Retry
	found := readMapping(v, "attempts such as {attempts: 3, initial: 1s, max: 5m}", retryFields, r)
	require(v, found, "attempts", "how many there are in all")
	first := r.Initial
	if first == 0 {
		first = time.Second // the library's default
	}
	if at, ok := found["max"]; ok && r.Max != 0 && r.Max < first {
		at.report("%v: must be at least initial, %v", r.Max, first)
	}
}

// reportCron points at the field of the expression that is wrong, where the
// file has it as it is.
func reportCron(t text, err error) {
	var bad *cron.Error
	switch {
	case !errors.As(err, &bad):
		t.report("%v", err)
	case secretForm.MatchString(t.raw):
		t.bad("expected a cron expression")
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
	if v.form != nil {
		v.form.Required = append(v.form.Required, key)
	} else if _, ok := found[key]; !ok && found != nil {
		v.report("no %s: expected %s", key, what)
	}
}

// exactlyOne reports when none of the keys is there, or more than one.
func exactlyOne(v value, found map[string]value, keys ...string) {
	if v.form != nil {
		v.form.isExactlyOne(keys)
	}
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
	if store.CheckName(what, t.expanded) != nil {
		t.bad("expected a name of 1 to %d letters, digits and . _ : / @ + -, the first a letter or a digit", store.MaxName)
		return ""
	}
	if err := store.CheckGroup(t.expanded); what == "group" && err != nil {
		t.bad("expected a name that does not begin with locks/, which is reserved for the sessions of locks")
		return ""
	}
	return t.expanded
}

// readPath reads the path of a file. It returns "" after it has reported.
func readPath(v value, example string) string {
	what := "the path of a file such as " + example
	t, ok := readText(v, what)
	switch {
	case !ok:
		return ""
	case t.expanded == "" || strings.ContainsRune(t.expanded, 0):
		t.bad("expected %s", what)
		return ""
	}
	return t.expanded
}

// onlyBeside reports a key that is there without any of those that it belongs to.
func onlyBeside(found map[string]value, key, why string, keys ...string) {
	at, ok := found[key]
	if !ok {
		return
	}
	for _, k := range keys {
		if _, ok := found[k]; ok {
			return
		}
	}
	at.report("expected it only beside %s: %s", strings.Join(keys, " or "), why)
}

// reportAt reports each of the errors that err joins.
func reportAt(v value, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			v.report("%v", err)
		}
	} else if err != nil {
		v.report("%v", err)
	}
}

// set sets what was read, unless it was bad.
func set[T any](to *T, read *T) {
	if read != nil {
		*to = *read
	}
}

// readWord reads one of a few words. It returns nil after it has reported.
func readWord[T any](v value, what string, parse func(string) (T, error)) *T {
	t, ok := readText(v, what)
	if v.form != nil {
		v.form.isWord(what)
	}
	if !ok {
		return nil
	}
	word, err := parse(t.expanded)
	if err != nil || t.expanded == "" {
		t.bad("expected %s", what)
		return nil
	}
	return &word
}

// readCount reads a number from 1 to most. It returns zero after it has
// reported.
func readCount(v value, most int) int {
	what := fmt.Sprintf("a number from 1 to %d", most)
	t, ok := readText(v, what)
	if v.form != nil {
		v.form.isCount(most)
	}
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(t.expanded)
	if err != nil || n < 1 || n > most {
		t.bad("expected %s", what)
		return 0
	}
	return n
}

const durationForm = "a duration such as 30s, 5m, 1h or 7d"

// readDuration reads a duration above zero. It returns zero after it has
// reported.
func readDuration(v value) time.Duration {
	t, d, ok := readAnyDuration(v)
	if ok && d <= 0 {
		t.bad("expected %s, above zero", durationForm)
		return 0
	}
	return d
}

// readWait reads a duration that may be zero.
func readWait(v value) time.Duration {
	t, d, ok := readAnyDuration(v)
	if ok && d < 0 {
		t.bad("expected %s, not below zero", durationForm)
		return 0
	}
	return d
}

func readAnyDuration(v value) (text, time.Duration, bool) {
	t, ok := readText(v, durationForm)
	if v.form != nil {
		v.form.isDuration()
	}
	if !ok {
		return t, 0, false
	}
	d, err := ParseDuration(t.expanded)
	if err != nil {
		t.bad("%v", err)
		return t, 0, false
	}
	return t, d, true
}
