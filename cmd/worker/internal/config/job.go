package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cronlease/cronlease/cmd/worker/internal/httpjob"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/jobs/cron"
	"github.com/cronlease/cronlease/store"
)

// jobFile is a job while it is read: its schedule is made of several keys. They
// are nil where they are missing or bad.
type jobFile struct {
	job          Job
	cron         *text
	zone         *text
	dialect      *cron.Dialect
	sql          store.Dialect // of the statements; zero where the database runs none
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
	maxNotices    = 1000
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
			if !strings.EqualFold(t.expanded, "true") {
				t.bad("expected %s", what)
			}
			f.job.Schedule = jobs.Manual()
		} else if v.form != nil {
			v.form.isOneOf("true")
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
	{"notify", readNotify},
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
	{"concurrency_key", func(v value, f *jobFile) { f.job.ConcurrencyKey = readName(v, "member of the arguments") }},
	{"on", func(v value, f *jobFile) { readLabels(v, &f.job.On) }},
	{"prefer", func(v value, f *jobFile) { readLabels(v, &f.job.Prefer) }},
	{"sticky", func(v value, f *jobFile) { set(&f.job.Sticky, readBool(v)) }},
	{"shards", func(v value, f *jobFile) { f.job.Shards = readCount(v, jobs.MaxShards) }},
	{"everywhere", func(v value, f *jobFile) { set(&f.job.Everywhere, readBool(v)) }},
	{"pause_after", func(v value, f *jobFile) { f.job.PauseAfter = readCount(v, maxPauseAfter) }},
	{"dialect", func(v value, f *jobFile) { f.dialect = readWord(v, cron.Auto, cron.Unix, cron.Spring, cron.Quartz) }},
	{"dst", func(v value, f *jobFile) { f.dst = readWord(v, cron.Once, cron.Native) }},
	{"timeout", func(v value, f *jobFile) { f.job.Timeout = readDuration(v) }},
	{"lock_at_most_for", func(v value, f *jobFile) { f.job.LockAtMostFor = readDuration(v) }},
	{"lock_at_least_for", func(v value, f *jobFile) { f.job.LockAtLeastFor = readWait(v) }},
	{"misfire", func(v value, f *jobFile) {
		set(&f.job.Misfire, readWord(v, jobs.Misfires()...))
	}},
	{"catch_up", func(v value, f *jobFile) {
		readMapping(v, "bounds such as {limit: 100, deadline: 1h}", catchUpFields, &f.job.CatchUp)
	}},
	{"recover", func(v value, f *jobFile) { set(&f.job.Recover, readWord(v, jobs.Recovers()...)) }},
	{"retry", readRetry},
	{"overlap", func(v value, f *jobFile) {
		set(&f.job.Overlap, readWord(v, jobs.Overlaps()...))
	}},
	{"pool", func(v value, f *jobFile) { f.job.Pool.Name = readName(v, "pool") }},
	{"priority", func(v value, f *jobFile) { set(&f.job.Priority, readWord(v, jobs.Priorities()...)) }},
	{"max_runs", func(v value, f *jobFile) { f.job.Limit = readCount(v, maxRuns) }},
	{"history", func(v value, f *jobFile) {
		found := readMapping(v, "bounds such as {keep: 1000, for: 30d}", historyFields, &f.job.History)
		if found != nil && len(found) == 0 {
			v.report("expected keep, for, or both")
		}
	}},
	{"exec", func(v value, f *jobFile) {
		const what = `an argument list such as ["/usr/local/bin/report", "--full"]`
		var written []string
		readList(v, what, func(v value) {
			if t, ok := readText(v, "an argument, as text"); ok {
				if strings.ContainsRune(t.expanded, 0) || len(f.job.Exec) == 0 && t.expanded == "" {
					t.bad("expected %s", what)
				}
				f.job.Exec = append(f.job.Exec, t.expanded)
				written = append(written, t.raw)
			}
		})
		f.job.About = aboutCommand(written)
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
		var written []string
		readList(v, "a list of SQL statements", func(v value) {
			s := readStatement(v, f.sql)
			f.job.SQL, written = append(f.job.SQL, s.Statement), append(written, strings.TrimSpace(s.at.raw))
		})
		f.job.About = hideSecrets(strings.Join(written, ";\n"))
	}},
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

// jobReader reads the jobs of a file and of those that it includes.
type jobReader struct {
	config   *Config
	defaults *value // nil for none
	places   map[string]value
	others   map[string]value // by job: what it follows or tells of
}

// checkPipelines reports jobs that follow or tell of what is not there, or themselves.
func (r *jobReader) checkPipelines() {
	schedules := map[string]jobs.Schedule{}
	everywhere := map[string]bool{}
	for _, job := range r.config.Jobs {
		if everywhere[job.Name] = r.config.RunsAlone(job); job.Schedule != nil {
			schedules[job.Name] = job.Schedule
		}
	}
	wrong := jobs.CheckPipelines(schedules)
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		if at, ok := r.others[name]; ok {
			at.report("%s", strings.TrimPrefix(wrong[name].Error(), "jobs: "))
		}
	}
	for name, at := range r.others {
		if notify, ok := schedules[name].(jobs.NotifySchedule); ok {
			for _, local := range slices.Sorted(maps.Keys(everywhere)) {
				if everywhere[local] && notify.Names(local) && wrong[name] == nil {
					at.report("%q runs everywhere: nothing is told of it, since its runs are not recorded", local)
				}
			}
		}
		if after, ok := schedules[name].(jobs.AfterSchedule); ok && everywhere[after.Job()] && wrong[name] == nil {
			at.report("%q runs everywhere: no job can follow it, since its runs are not recorded", after.Job())
		}
	}
}

func (r *jobReader) read(v value) {
	readList(v, "a list with at least one job", func(v value) {
		f := jobFile{sql: r.config.Database.Dialect()}
		v = withDefaults(v, r.defaults, notEverywhere(r.config.Spread))
		found := readMapping(v, "a job", jobFields, &f)
		checkJob(v, found, &f, r.config.Spread)
		for _, key := range []string{"on", "prefer"} {
			if at, ok := found[key]; ok && !r.config.Spread {
				at.report("only a group that is spread goes by labels: expected spread: true beside group")
			}
		}
		if at, ok := found["sticky"]; ok && f.job.Sticky && !r.config.Spread {
			at.report("the leader runs all jobs of this group: expected spread: true beside group")
		}
		if at, ok := found["pool"]; ok {
			name := f.job.Pool.Name
			if f.job.Pool = r.config.pools[name]; f.job.Pool.Name == "" && name != "" {
				at.report("there is no pool %s: expected one of pools, which say how many runs each may have, such as pools: {reports: 3}", quote(name))
			}
		}
		if at, ok := found["sql"]; ok && r.config.Database.kind != "" && r.config.Database.Dialect() == 0 {
			at.report("the statements of a job run in the database of the lease, in one transaction with the check of its token, and %s runs none: expected exec or http, or a mysql://, postgres:// or sqlite: database",
				r.config.Database.kind)
		}
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
				for _, key := range []string{"after", "notify"} {
					if at, ok := found[key]; ok {
						r.others[name] = at
					}
				}
			}
		}
		f.job.from = origin{v.doc.name, v.key, v.doc.place}
		r.config.Jobs = append(r.config.Jobs, f.job)
	})
}

// What a job is: one of the schedules, and one of the kinds.
var (
	scheduleKeys = slices.Concat(withTicks, []string{"manual", "after", "notify"})
	kindKeys     = []string{"exec", "http", "sql"}
)

// need is which keys another one needs one of, and why.
type need struct {
	why string
	one []string
}

// needKeys are the keys that stand only beside others, in a job and as defaults.
var needKeys = func() map[string]need {
	all := map[string]need{}
	for _, of := range []struct {
		keys []string
		need
	}{
		{[]string{"zone"}, need{"no other schedule depends on it", []string{"cron", "except"}}},
		{[]string{"dialect", "dst"}, need{"no other schedule depends on it", []string{"cron"}}},
		{[]string{"from", "until", "except", "jitter"}, need{"no other schedule has ticks of its own", withTicks}},
		{[]string{"env", "dir", "umask", "user", "limits"}, need{"it is about programs", []string{"exec"}}},
		{[]string{"initial_delay"}, need{"no other schedule counts from when the job is first known", []string{"fixed_rate", "fixed_delay"}}},
	} {
		for _, key := range of.keys {
			all[key] = of.need
		}
	}
	return all
}()

// checkJob checks what concerns several keys of one job.
func checkJob(v value, found map[string]value, f *jobFile, spread bool) {
	require(v, found, "name", "a name for the job")
	exactlyOne(v, found, scheduleKeys...)
	exactlyOne(v, found, kindKeys...)
	for key, need := range needKeys {
		onlyBeside(found, key, need.why, need.one...)
	}
	if at, ok := found["notify"]; ok && f.job.HTTP != nil && f.job.HTTP.Template != "" {
		if err := httpjob.CheckNoticeTemplate(f.job.HTTP.Template); err != nil {
			at.report("a notice does not have what http.body.template asks for: %v", err)
		}
	}
	checkTogether(found, f, spread)
	f.job.Schedule = f.within(found, f.schedule(found))
	checkCounts(found, f.job.Job)
}

const noRecords = "does not apply to a job that runs everywhere: there are no records of its runs"

const onEach = "does not apply to a job that runs everywhere: it runs on each worker"

// notEverywhere are the keys that a job which runs everywhere cannot have, and why.
func notEverywhere(spread bool) map[string]string {
	if spread {
		return notOnEach
	}
	return notAlone
}

// notOnEach are those in a group that is spread.
var notOnEach = map[string]string{
	"prefer": onEach, "sticky": onEach, "shards": onEach,
	"concurrency_key": "does not apply to a job that runs everywhere: the runs of all workers have the same arguments",
	"notify":          "does not apply to a job that runs everywhere: what happens to other jobs is told once",
}

// notAlone are those in any other group, where each worker runs the job by itself.
var notAlone = map[string]string{
	"misfire": noRecords, "catch_up": noRecords, "recover": noRecords, "overlap": noRecords, "max_runs": noRecords, "lock_at_least_for": noRecords,
	"on":              onEach,
	"prefer":          onEach,
	"sticky":          onEach,
	"shards":          onEach,
	"concurrency_key": "does not apply to a job that runs everywhere: its runs have no arguments",
	"pool":            "does not apply to a job that runs everywhere: each worker runs it by itself",
	"priority":        "a job that runs everywhere waits for no slot",
	"history":         noRecords, "pause_after": noRecords, "after": noRecords, "notify": noRecords,
	"manual": "a job that runs everywhere cannot be triggered: expected cron, every, at, fixed_rate or fixed_delay",
	"sql":    "a job that runs everywhere has no lease, and statements need one: expected exec or http",
}

// notReplacing are the schedules beside which there is no overlap: replace, and why.
var notReplacing = map[string]string{
	"after":  "a job after another one runs for each of its ticks, and replaces none",
	"notify": "a job that tells of other jobs runs for each notice, and replaces none",
}

// notDivided are the keys beside which there are no shards, and why.
var notDivided = map[string]string{
	"notify": "a job that tells of other jobs has none", "concurrency_key": "the shards of a run have the same arguments", "sticky": "all shards would go to one worker",
}

// checkTogether checks the keys that exclude or need one another.
func checkTogether(found map[string]value, f *jobFile, spread bool) {
	if f.job.Everywhere {
		for key, why := range notEverywhere(spread) {
			if at, ok := found[key]; ok {
				at.report("%s", why)
			}
		}
		if !spread {
			return
		}
		if f.job.Overlap.Replaces() {
			found["overlap"].report("overlap replace: a tick does not end the runs of the one before on the workers: expected forbid, queue or allow")
		}
	}
	for key, why := range notReplacing {
		if _, is := found[key]; is && f.job.Overlap.Replaces() {
			found["overlap"].report("overlap replace: %s: expected forbid, queue or allow", why)
		}
	}
	if at, ok := found["shards"]; ok && !f.job.Everywhere {
		for key, why := range notDivided {
			if _, ok := found[key]; ok {
				at.report("beside %s: %s", key, why)
			}
		}
		if f.job.Overlap.Replaces() {
			at.report("beside overlap: replace: a tick does not end the shards of the one before: expected forbid, queue or allow")
		}
	}
	if at, ok := found["max_runs"]; ok && !f.job.Overlap.Beside() {
		at.report("expected it only beside overlap: allow, since otherwise one run of the job goes on at a time")
	}
	if at, ok := found["concurrency_key"]; ok && f.job.Overlap != jobs.OverlapAllow && !f.job.Everywhere {
		at.report("expected it only beside overlap: allow, since otherwise one run of the job goes on at a time")
	}
	if at, ok := found["lock_at_most_for"]; ok {
		if _, ok := found["timeout"]; ok {
			at.report("beside timeout: expected only one of them, they are two names for the limit of a run")
		}
	}
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
