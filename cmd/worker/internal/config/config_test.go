package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
)

// example is the file that the documentation shows.
const example = `database: "mysql://user:pass@127.0.0.1:3306/app"   # or "sqlite:/var/lib/app/lease.db"; ${VARIABLES} are expanded
group: billing
lease: {ttl: 15s, grace: 2s}
jobs:
  - name: nightly-report
    cron: "0 0 2 * * *"          # or every: 5m, or at: 2027-01-01T00:00:00Z
    zone: Europe/Berlin          # default UTC
    timeout: 1h
    exec: ["/usr/local/bin/report", "--full"]    # an argument list, never a shell line
  - name: ping
    every: 30s
    http: {url: "http://127.0.0.1:8080/ping", method: POST}
`

// environment looks variables up in a map.
func environment(variables map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}
}

var variables = environment(map[string]string{
	"PASSWORD": "canary/p#a:s%@\"'s?",
	"URL":      "mysql://me:canary@db.example:3306/app",
	"HOSTS":    "a, b:2",
	"EVERY":    "5m",
	"BAD":      "canary",
	"EMPTY":    "",
})

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("worker.yaml", []byte(text), variables)
	if err != nil {
		t.Fatalf("Parse: %v\n%s", err, text)
	}
	return c
}

func TestExample(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "worker.yaml")
	if err := os.WriteFile(path, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "kind", c.Database.Kind(), config.MySQL)
	equal(t, "database", c.Database.Open(), "mysql://user:pass@127.0.0.1:3306/app")
	equal(t, "group", c.Group, "billing")
	equal(t, "lease", c.Lease, complete(t, lease.Timing{TTL: 15 * time.Second, Grace: 2 * time.Second}))
	if len(c.Jobs) != 2 {
		t.Fatalf("%d jobs, want 2", len(c.Jobs))
	}
	report, ping := c.Jobs[0], c.Jobs[1]
	equal(t, "name", report.Name, "nightly-report")
	equal(t, "timeout", report.Timeout, time.Hour)
	equal(t, "schedule", report.Schedule.String(), jobs.Cron("0 0 2 * * *").In("Europe/Berlin").String())
	equal(t, "exec", strings.Join(report.Exec, "|"), "/usr/local/bin/report|--full")
	equal(t, "http", report.HTTP, nil)
	equal(t, "name", ping.Name, "ping")
	equal(t, "schedule", ping.Schedule.String(), jobs.Every(30*time.Second).String())
	equal(t, "http", ping.HTTP.Method+" "+ping.HTTP.URL, "POST http://127.0.0.1:8080/ping")
	equal(t, "exec", len(ping.Exec), 0)
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// complete is a timing with the library's choice where it says nothing.
func complete(t *testing.T, timing lease.Timing) lease.Timing {
	t.Helper()
	timing, err := timing.Complete()
	if err != nil {
		t.Fatal(err)
	}
	return timing
}

func TestValues(t *testing.T) {
	t.Parallel()
	c := parse(t, `
database: sqlite:lease.db
group: 007
jobs:
  - {name: yes, at: 2027-01-01T00:00:00+01:00, exec: [echo, 010, true, 1.50, "$HOME", "$${HOME}", "${EVERY}", "$$", "${EMPTY}"]}
  - {name: plain, cron: 0 0 2 * * *, http: &request {url: "https://x.example/"}}
  - name: variable
    every: ${EVERY}
    http: *request
`)
	equal(t, "kind", c.Database.Kind(), config.SQLite)
	equal(t, "database", c.Database.Open(), "lease.db")
	equal(t, "group", c.Group, "007")
	equal(t, "lease", c.Lease, complete(t, lease.Timing{}))
	equal(t, "name", c.Jobs[0].Name, "yes")
	equal(t, "at", c.Jobs[0].Schedule.String(), "at 2026-12-31T23:00:00Z")
	equal(t, "exec", strings.Join(c.Jobs[0].Exec, "|"), "echo|010|true|1.50|$HOME|${HOME}|5m|$$|")
	equal(t, "zone", c.Jobs[1].Schedule.String(), jobs.Cron("0 0 2 * * *").String())
	equal(t, "method", c.Jobs[1].HTTP.Method, "POST")
	equal(t, "every", c.Jobs[2].Schedule.String(), "every 5m0s")
	equal(t, "alias", c.Jobs[2].HTTP.URL, "https://x.example/")
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	c := parse(t, `
database: sqlite:lease.db
group: g
max_runs: 20
pools: {reports: 3}
spread: true
drain: 10m
clock: worker
max_skew: 1h
jobs:
  - name: full
    dst: native
    cron: 0 0 2 ? * 6L
    dialect: quartz
    zone: Europe/Berlin
    lock_at_most_for: 1h
    lock_at_least_for: 30s
    misfire: all
    catch_up: {limit: 50, deadline: 1d12h}
    recover: rerun
    retry: {attempts: 3, initial: 2s, max: 1m}
    overlap: allow
    max_runs: 4
    history: {keep: 1000, for: 30d}
    exec: [x]
  - {name: rate, initial_delay: 10s, fixed_rate: "${EVERY}", exec: [x], misfire: once, recover: skip, overlap: forbid, priority: low, pool: reports}
  - {name: delay, fixed_delay: 1m, initial_delay: 0s, exec: [x], misfire: skip, overlap: queue, retry: {attempts: 2}}
  - {name: hand, manual: true, exec: [x], overlap: replace, history: {keep: 5}, lock_at_least_for: 0s}
  - {name: plain, cron: "*/5 * * * *", dst: once, dialect: UNIX, exec: [x]}
`)
	equal(t, "runs", c.MaxRuns, 20)
	equal(t, "spread", c.Spread, true)
	equal(t, "drain", c.Drain, 10*time.Minute)
	equal(t, "clock", c.Clock, scheduler.WorkerClock)
	equal(t, "skew", c.MaxSkew, time.Hour)
	full, rate, delay, hand, plain := c.Jobs[0].Job, c.Jobs[1].Job, c.Jobs[2].Job, c.Jobs[3].Job, c.Jobs[4].Job
	equal(t, "schedule", full.Schedule.String(), `cron "0 0 2 ? * 6L" in Europe/Berlin, quartz, dst native`)
	equal(t, "schedule", rate.Schedule.String(), jobs.FixedRate(5*time.Minute).InitialDelay(10*time.Second).String())
	equal(t, "schedule", delay.Schedule.String(), jobs.FixedDelay(time.Minute).String())
	equal(t, "schedule", hand.Schedule.String(), jobs.Manual().String())
	equal(t, "schedule", plain.Schedule.String(), `cron "*/5 * * * *" in UTC, unix, dst once`)
	equal(t, "at most", full.LockAtMostFor, time.Hour)
	equal(t, "at least", full.LockAtLeastFor, 30*time.Second)
	equal(t, "catch-up", full.CatchUp, jobs.CatchUp{Limit: 50, Deadline: 36 * time.Hour})
	equal(t, "retry", full.Retry, jobs.Retry{Attempts: 3, Initial: 2 * time.Second, Max: time.Minute})
	equal(t, "runs of a job", full.Limit, 4)
	equal(t, "history", full.History, jobs.History{Keep: 1000, For: 30 * 24 * time.Hour})
	equal(t, "history", hand.History, jobs.History{Keep: 5})
	equal(t, "retry", delay.Retry, jobs.Retry{Attempts: 2})
	for i, want := range []struct {
		misfire jobs.Misfire
		recover jobs.Recover
		overlap jobs.Overlap
	}{
		{jobs.MisfireAll, jobs.RecoverRerun, jobs.OverlapAllow},
		{jobs.MisfireOnce, jobs.RecoverSkip, jobs.OverlapForbid},
		{jobs.MisfireSkip, jobs.RecoverSkip, jobs.OverlapQueue},
		{jobs.MisfireOnce, jobs.RecoverSkip, jobs.OverlapReplace},
	} {
		j := c.Jobs[i].Job
		equal(t, "misfire", j.Misfire, want.misfire)
		equal(t, "recover", j.Recover, want.recover)
		equal(t, "overlap", j.Overlap, want.overlap)
	}
	for _, j := range c.Jobs {
		if want := j.Name == "rate"; (j.Priority == jobs.PriorityLow) != want {
			t.Errorf("%s: priority %v", j.Name, j.Priority)
		} else if want && j.Pool != (jobs.Pool{Name: "reports", Limit: 3}) || !want && j.Pool != (jobs.Pool{}) {
			t.Errorf("%s: pool %v", j.Name, j.Pool)
		}
	}
	for _, j := range c.Jobs {
		j.Do = jobs.Job{}.Call
		if err := j.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// with returns a file in which the line that starts with key is replaced.
func with(line string) string {
	key, _, _ := strings.Cut(line, ":")
	lines := []string{"database: sqlite:x.db", "group: g", "jobs:", "  - {name: a, every: 1m, exec: [x]}", ""}
	for i := range lines {
		if strings.HasPrefix(lines[i], key+":") {
			lines[i] = line
			if key == "jobs" {
				return strings.Join(lines[:i+1], "\n") + "\n"
			}
			return strings.Join(lines, "\n")
		}
	}
	return strings.Join(lines, "\n") + line + "\n"
}

// job returns a file with one job, whose first key is in line 4, after
// database, group and jobs.
func job(lines ...string) string {
	return with("jobs:\n  - " + strings.Join(lines, "\n    "))
}

// postgres is a configuration with that job, on PostgreSQL.
func postgres(line string) string {
	return strings.Replace(job("name: a", "every: 1m", line), "sqlite:x.db", `"postgres://u:p@h/d"`, 1)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	const unknownHere = "expected one of database, group, lease, max_runs, pools, spread, labels, follower_only, drain, clock, max_skew, listen, defaults, include, jobs"
	for name, test := range map[string]struct {
		text string
		want []string // without the file's name; a part of the line is enough
	}{
		"empty":               {"", []string{"1:1: empty: expected the keys database, group and jobs"}},
		"comment":             {"# nothing\n", []string{"1:1: empty: expected"}},
		"null":                {"~\n", []string{"1:1: empty: expected a configuration with the keys database, group, lease, max_runs, pools, spread, labels, follower_only, drain, clock, max_skew, listen, defaults, include, jobs"}},
		"text":                {"hello\n", []string{`1:1: "hello": expected a configuration`}},
		"separator":           {"---", []string{`1:1: empty: expected a configuration`}},
		"list":                {"- a\n", []string{`1:1: a list: expected a configuration`}},
		"syntax":              {"group: g\njobs: [\n", []string{"2:1: not YAML: "}},
		"syntax, first":       {"group: g: h\n", []string{"1:1: not YAML: mapping values are not allowed in this context"}},
		"syntax, quote":       {"group: g\njobs:\n  - name: \"a\n    every: 5m\n", []string{"not YAML: found unexpected end of stream"}},
		"syntax, line":        {"group: g\njobs:\n  - name: a\n   every: 5m\n", []string{"4:1: not YAML: "}},
		"tab":                 {"group: g\njobs:\n\t- name: a\n", []string{"3:1: not YAML: found character that cannot start any token: a tab as indentation: expected blanks"}},
		"tab, later":          {"group: g\njobs:\n  - name: a\n  \tevery: 5m\n", []string{"4:3: not YAML: found a tab character that violates indentation: a tab as indentation: expected blanks"}},
		"bare cron":           {"group: g\njobs:\n  - name: a\n    cron: * * * * *\n", []string{"4:11: not YAML: did not find expected alphabetic or numeric character: a cron expression without quotes: expected them, as in cron: \"*/5 * * * *\""}},
		"bare cron, flow":     {"group: g\njobs:\n  - {name: a, cron: */5 * * * *, exec: [x]}\n", []string{"3:21: not YAML: did not find expected alphabetic or numeric character: a cron expression without quotes: expected them"}},
		"bare cron, alias":    {"group: g\njobs:\n  - cron: *x * * * *\n", []string{"a cron expression without quotes: expected them"}},
		"bare name":           {"group: @g\njobs:\n", []string{"1:8: not YAML: found character that cannot start any token: a value that begins with a character of YAML's own: expected it in quotes"}},
		"anchor":              {"group: g\njobs: *none\n", []string{"2:7: not YAML: unknown anchor 'none' referenced"}},
		"not text":            {"group: g\njobs: \xff\n", []string{"2:7: expected UTF-8 text"}},
		"control":             {"group: g\njobs: \x00\n", []string{"2:7: expected UTF-8 text"}},
		"second document":     {with("group: g") + "---\ngroup: h\n", []string{"5:1: a second document: expected one per file"}},
		"second, broken":      {with("group: g") + "---\n[\n", []string{"not YAML"}},
		"unknown":             {with("color: red"), []string{"5:1: color: unknown key: " + unknownHere}},
		"misspelt":            {with("grop: g"), []string{"5:1: grop: unknown key: did you mean group? Expected one of"}},
		"misspelt only":       {"database: sqlite:x\ngruop: g\njobs: [{name: a, every: 1m, exec: [x]}]\n", []string{"2:1: gruop: unknown key: did you mean group?"}},
		"missing":             {"lease: {}\n", []string{"1:1: no database: expected", "1:1: no group: expected", "1:1: no jobs: expected"}},
		"twice":               {with("group: g") + "group: h\n", []string{"5:1: group: given twice, first in line 2: expected it once"}},
		"key is a list":       {with("[a]: b"), []string{"5:1: a list: expected a key: one of database"}},
		"merge":               {with("<<: [{lease: {ttl: 5s}}, x, *none]"), []string{`not YAML: unknown anchor`}},
		"merge, text":         {with("<<: [{lease: {ttl: 5s}}, x, [{}]]"), []string{`5:26: << merges "x": expected a mapping such as *base, or a list of them`, `5:29: << merges a list: expected a mapping`}},
		"merge, itself":       {with("x-a: &a {<<: *a, group: h}\nlease: *a"), []string{`5:6: lease: << merges more than 20 mappings`, `5:18: lease.group: unknown key`}},
		"merged":              {job("&a name: a", "every: 1m", "exec: [x]", "retry: &r {attempts: 2, initail: 1s}", "<<: {misfire: never, every: x}"), []string{`7:29: jobs[0].retry.initail: unknown key: did you mean initial?`, `8:19: jobs[0].misfire: "never": expected once`}},
		"defaults":            {with("defaults: {timeout: soon, name: x, retry: {initial: 1s}, timout: 1s, lock_at_most_for: 1s}"), []string{`5:21: defaults.timeout: "soon": expected a duration`, `5:27: defaults.name: unknown key`, `5:43: defaults.retry: no attempts`, `5:58: defaults.timout: unknown key: did you mean timeout?`, `5:88: defaults.lock_at_most_for: beside timeout`}},
		"defaults, runs":      {with("defaults: {max_runs: 3}"), []string{`5:22: defaults.max_runs: expected it only beside overlap: allow`}},
		"defaults, list":      {with("defaults: [x]"), []string{`5:11: defaults: a list: expected keys of jobs such as`}},
		"include":             {with("include: jobs.d/*.yaml"), []string{`5:10: include: expected no such key: this configuration is not in a file`}},
		"tag":                 {with("group: !!str g"), []string{"2:8: group: the tag \"!!str\": expected a name such as billing, without a tag"}},
		"contains itself":     {with("jobs: &a [*a]"), []string{"jobs[0]: a list: expected a job with the keys name"}},
		"reserved group":      {with("group: locks/a"), []string{`2:8: group: "locks/a": expected a name that does not begin with locks/`}},
		"group":               {with("group: a b"), []string{`2:8: group: "a b": expected a name of 1 to 128 letters`}},
		"group, empty":        {with("group:"), []string{`2:7: group: empty: expected a name`}},
		"group, quoted":       {with(`group: ""`), []string{`2:8: group: "": expected a name`}},
		"group, list":         {with("group: [a]"), []string{`2:8: group: a list: expected a name`}},
		"group, long":         {with("group: " + strings.Repeat("x", 200)), []string{`2:8: group: "xxx`}},
		"lease":               {with("lease: 15s"), []string{`5:8: lease: "15s": expected timings such as {ttl: 15s, grace: 2s} with the keys ttl, grace`}},
		"lease, unknown":      {with("lease: {tll: 15s}"), []string{"5:9: lease.tll: unknown key: did you mean ttl? Expected one of ttl, grace"}},
		"ttl":                 {with("lease: {ttl: 15}"), []string{`5:14: lease.ttl: "15": no unit: expected a duration such as 30s, 5m, 1h or 7d`}},
		"ttl, short":          {with("lease: {ttl: 10ms}"), []string{"5:14: lease.ttl: 10ms: must be from 1s to 24h0m0s"}},
		"grace":               {with("lease:\n  ttl: 15s\n  grace: 14s"), []string{"7:10: lease.grace: 14s: must be at most"}},
		"grace, negative":     {with("lease: {grace: -1s}"), []string{`5:16: lease.grace: "-1s": expected a duration such as 30s, 5m, 1h or 7d, above zero`}},
		"jobs, empty":         {with("jobs: []"), []string{"3:7: jobs: an empty list: expected a list with at least one job"}},
		"jobs, null":          {with("jobs:"), []string{"3:6: jobs: empty: expected a list with at least one job"}},
		"jobs, mapping":       {with("jobs: {a: b}"), []string{"3:7: jobs: a mapping: expected a list with at least one job"}},
		"job":                 {with("jobs: [x]"), []string{`3:8: jobs[0]: "x": expected a job with the keys name, cron`}},
		"job, null":           {with("jobs:\n  -"), []string{`jobs[0]: empty: expected a job with the keys`}},
		"no name":             {job("every: 1m", "exec: [x]"), []string{"4:5: jobs[0]: no name: expected"}},
		"name":                {job("name: é", "every: 1m", "exec: [x]"), []string{`4:11: jobs[0].name: "é": expected a name of 1 to 128`}},
		"same name":           {job("{name: a, every: 1m, exec: [x]}\n  - {name: b, every: 1m, exec: [x]}\n  - {name: a, every: 1m, exec: [x]}"), []string{`6:12: jobs[2].name: "a": the job in line 4 has this name too`}},
		"same name, alias":    {with("jobs: [&a {name: a, every: 1m, exec: [x]}, *a]"), []string{`3:18: jobs[1].name: "a": the job in line 3 has this name too`}},
		"no schedule":         {job("name: a", "exec: [x]"), []string{"4:5: jobs[0]: expected one of cron, every, at, fixed_rate, fixed_delay, manual, after or notify"}},
		"two schedules":       {job("name: a", "every: 1m", "cron: 0 0 2 * * *", "exec: [x]"), []string{"6:11: jobs[0].cron: beside every: expected only one of cron, every, at, fixed_rate, fixed_delay, manual, after or notify"}},
		"no work":             {job("name: a", "every: 1m"), []string{"4:5: jobs[0]: expected one of exec, http or sql"}},
		"two works":           {job("name: a", "every: 1m", "exec: [x]", "http: {url: \"http://x/\"}"), []string{"7:11: jobs[0].http: beside exec: expected only one of exec, http or sql"}},
		"three works":         {job("name: a", "every: 1m", "http: {url: \"http://x/\"}", "sql: [DELETE FROM a]"), []string{"7:10: jobs[0].sql: beside http: expected only one of exec, http or sql"}},
		"sql, text":           {job("name: a", "every: 1m", "sql: DELETE FROM a"), []string{`6:10: jobs[0].sql: "DELETE FROM a": expected a list of SQL statements`}},
		"sql, empty":          {job("name: a", "every: 1m", "sql: []"), []string{`6:10: jobs[0].sql: an empty list: expected a list of SQL statements`}},
		"sql, blank":          {job("name: a", "every: 1m", `sql: [" ; "]`), []string{`6:11: jobs[0].sql[0]: " ; ": empty: expected an SQL statement`}},
		"sql, two":            {job("name: a", "every: 1m", `sql: ["DELETE FROM a; COMMIT"]`), []string{`6:11: jobs[0].sql[0]: "DELETE FROM a; COMMIT": several statements: expected one for each entry`}},
		"sql, commit":         {job("name: a", "every: 1m", `sql: [DELETE FROM a, COMMIT]`), []string{`6:26: jobs[0].sql[1]: "COMMIT": COMMIT: the statements are one transaction already`}},
		"sql, create":         {job("name: a", "every: 1m", `sql: [{statement: CREATE TABLE a (b INT)}]`), []string{`6:23: jobs[0].sql[0].statement: "CREATE TABLE a (b INT)": CREATE TABLE: MySQL commits what came before it`}},
		"sql, no text":        {job("name: a", "every: 1m", `sql: [{args: [tick]}]`), []string{`6:11: jobs[0].sql[0]: no statement: expected the text of the statement`}},
		"sql, unknown":        {job("name: a", "every: 1m", `sql: [{statemen: DELETE FROM a}]`), []string{`6:12: jobs[0].sql[0].statemen: unknown key: did you mean statement? Expected one of statement, args`}},
		"sql, list":           {job("name: a", "every: 1m", `sql: [[a]]`), []string{`6:11: jobs[0].sql[0]: a list: expected an SQL statement such as`}},
		"sql, argument":       {job("name: a", "every: 1m", `sql: [{statement: "DELETE FROM a WHERE b = ?", args: [tock]}]`), []string{`6:59: jobs[0].sql[0].args[0]: "tock": did you mean tick? Expected tick, token, attempt, job, group, missed, args, shard or shards`}},
		"sql, arguments":      {job("name: a", "every: 1m", `sql: [{statement: "DELETE FROM a WHERE b = ?", args: [tick, job]}]`), []string{`6:23: jobs[0].sql[0].statement: "DELETE FROM a WHERE b = ?": 1 placeholders (?) and 2 args: expected as many of both`}},
		"sql, no argument":    {job("name: a", "every: 1m", `sql: ["DELETE FROM a WHERE b = ?"]`), []string{`6:11: jobs[0].sql[0]: "DELETE FROM a WHERE b = ?": 1 placeholders (?) and 0 args`}},
		"sql, its arguments":  {postgres(`sql: ["DELETE FROM a WHERE b < $2"]`), []string{`6:11: jobs[0].sql[0]: "DELETE FROM a WHERE b < $2": 2 placeholders ($1, $2, ...) and 0 args: expected as many of both`}},
		"sql, its commit":     {postgres(`sql: [PREPARE TRANSACTION 'a']`), []string{`6:11: jobs[0].sql[0]: "PREPARE TRANSACTION 'a'": PREPARE TRANSACTION: the statements are one transaction already`}},
		"misspelt, once":      {job("name: a", "evry: 1m", "exec: [x]"), []string{"5:5: jobs[0].evry: unknown key: did you mean every?"}},
		"every":               {job("name: a", `every: "30"`, "exec: [x]"), []string{`5:12: jobs[0].every: "30": no unit: expected a duration such as 30s, 5m, 1h or 7d`}},
		"every, week":         {job("name: a", `every: 1w`, "exec: [x]"), []string{`5:12: jobs[0].every: "1w": no unit of a duration: expected days, 7d`}},
		"every, month":        {job("name: a", `every: 2 months`, "exec: [x]"), []string{`5:12: jobs[0].every: "2 months": no unit of a duration: expected days, such as 60d (m is for minutes)`}},
		"every, minutes":      {job("name: a", `every: 5min`, "exec: [x]"), []string{`5:12: jobs[0].every: "5min": no unit of a duration: expected 5m`}},
		"every, long":         {job("name: a", `every: 999999999h`, "exec: [x]"), []string{`5:12: jobs[0].every: "999999999h": too long: expected at most 65535d`}},
		"every, other":        {job("name: a", `every: often`, "exec: [x]"), []string{`5:12: jobs[0].every: "often": expected a duration such as 30s, 5m, 1h or 7d`}},
		"every, zero":         {job("name: a", `every: 0`, "exec: [x]"), []string{`5:12: jobs[0].every: "0": expected a duration such as 30s, 5m, 1h or 7d, above zero`}},
		"every, short":        {job("name: a", `every: 10ms`, "exec: [x]"), []string{`5:12: jobs[0].every: every 10ms: must be at least 1s`}},
		"every, variable":     {job("name: a", `every: ${BAD}`, "exec: [x]"), []string{`5:12: jobs[0].every: "${BAD}": expected a duration`}},
		"at":                  {job("name: a", `at: 2027-01-01`, "exec: [x]"), []string{`5:9: jobs[0].at: "2027-01-01": expected an instant such as 2027-01-01T00:00:00Z`}},
		"cron":                {job("name: a", `cron: "0 99 2 * * *"`, "exec: [x]"), []string{`5:14: jobs[0].cron: `}},
		"cron, plain":         {job("name: a", `cron: 0 99 2 * * *`, "exec: [x]"), []string{`5:13: jobs[0].cron: `}},
		"cron, variable":      {job("name: a", `cron: "${BAD}"`, "exec: [x]"), []string{`5:11: jobs[0].cron: `}},
		"zone":                {job("name: a", `cron: 0 0 2 * * *`, "zone: Berlin", "exec: [x]"), []string{`6:11: jobs[0].zone: "Berlin": expected a time zone's IANA name such as Europe/Berlin`}},
		"zone and cron":       {job("name: a", `cron: 0 99 2 * * *`, "zone: Berlin", "dst: x", "exec: [x]"), []string{`5:13: jobs[0].cron: `, `6:11: jobs[0].zone: "Berlin"`, `7:10: jobs[0].dst: "x"`}},
		"env":                 {job("name: a", "every: 1m", "exec: [x]", "env: [A=b]"), []string{`7:10: jobs[0].env: a list: expected variables such as`}},
		"env, names":          {job("name: a", "every: 1m", "exec: [x]", "env: {1A: b, A-B: c, CRONLEASE_JOB: d, E: f, E: g}"), []string{`7:11: jobs[0].env: "1A": expected a variable's name`, `7:18: jobs[0].env: "A-B": expected`, `7:26: jobs[0].env: "CRONLEASE_JOB": expected another name`, `7:50: jobs[0].env.E: given twice, first in line 7`}},
		"env, values":         {job("name: a", "every: 1m", "exec: [x]", "env: {A: [b], B: {}, C: {file: \"\"}, D: {path: x}, E: null, F: \"${NONE}\"}"), []string{`7:14: jobs[0].env.A: a list: expected text, or {file: /run/secrets/token}`, `7:22: jobs[0].env.B: no file: expected the file that holds the value`, `7:36: jobs[0].env.C.file: "": expected the path of a file`, `7:44: jobs[0].env.D: no file`, `7:45: jobs[0].env.D.path: unknown key`, `7:58: jobs[0].env.E: empty: expected text`, `7:67: jobs[0].env.F: ${NONE}: not set`}},
		"dir":                 {job("name: a", "every: 1m", "exec: [x]", `dir: work`), []string{`7:10: jobs[0].dir: "work": expected the absolute path of a folder such as /var/lib/report`}},
		"umask":               {job("name: a", "every: 1m", "exec: [x]", `umask: 0o27`), []string{`7:12: jobs[0].umask: "0o27": expected three octal digits such as 027`}},
		"umask, digits":       {job("name: a", "every: 1m", "exec: [x]", `umask: 28`), []string{`7:12: jobs[0].umask: "28": expected three octal`}},
		"user":                {job("name: a", "every: 1m", "exec: [x]", `user: "a b"`), []string{`7:11: jobs[0].user: "a b": expected a user such as report, report:staff or 1000:1000`}},
		"limits, none":        {job("name: a", "every: 1m", "exec: [x]", `limits: {}`), []string{`7:13: jobs[0].limits: expected at least one limit`}},
		"limits":              {job("name: a", "every: 1m", "exec: [x]", `limits: {memory: 1MB, open_files: 0, cpu: 10ms, file_size: 9999999T, procs: 3}`), []string{`7:22: jobs[0].limits.memory: "1MB": expected a number of bytes above zero, such as 512M or 2G`, `7:39: jobs[0].limits.open_files: "0": expected a number from 1`, `7:47: jobs[0].limits.cpu: must be at least 1s`, `7:64: jobs[0].limits.file_size: "9999999T": expected a number of bytes`, `7:74: jobs[0].limits.procs: unknown key: expected one of memory, file_size`}},
		"programs only":       {job("name: a", "every: 1m", `http: {url: "http://x/"}`, "dir: /", "umask: 022", "user: a", "limits: {cpu: 1m}"), []string{`7:10: jobs[0].dir: expected it only beside exec`, `8:12: jobs[0].umask: expected`, `9:11: jobs[0].user: expected`, `10:13: jobs[0].limits: expected`}},
		"env, http":           {job("name: a", "every: 1m", "http: {url: \"http://x/\"}", "env: {A: b}"), []string{`7:10: jobs[0].env: expected it only beside exec: it is about programs`}},
		"zone, local":         {job("name: a", `cron: 0 0 2 * * *`, "zone: Local", "exec: [x]"), []string{`6:11: jobs[0].zone: "Local": expected`}},
		"zone, empty":         {job("name: a", `cron: 0 0 2 * * *`, `zone: ""`, "exec: [x]"), []string{`6:11: jobs[0].zone: "": expected`}},
		"zone, every":         {job("name: a", `every: 1m`, "zone: UTC", "exec: [x]"), []string{`6:11: jobs[0].zone: expected it only beside cron`}},
		"timeout":             {job("name: a", `every: 1m`, "timeout: soon", "exec: [x]"), []string{`6:14: jobs[0].timeout: "soon": expected a duration`}},
		"zone, rate":          {job("name: a", `fixed_rate: 1m`, "zone: UTC", "exec: [x]"), []string{`6:11: jobs[0].zone: expected it only beside cron or except: no other schedule depends on it`}},
		"calendar":            {job("name: a", `every: 1m`, "from: today", "until: 2027-01-01", "except: [2026-02-30, 0 0 2 * *, 99 * * * *]", "zone: Mars", "exec: [x]"), []string{`6:11: jobs[0].from: "today": expected an instant such as`, `7:12: jobs[0].until: "2027-01-01": expected an instant`, `8:14: jobs[0].except[0]: "2026-02-30": expected a day such as 2026-12-24 or 12-24, days such as 12-24..12-26, or a cron expression: no such day`, `8:37: jobs[0].except[2]: "99 * * * *": expected a day such as 2026-12-24 or 12-24, days such as 12-24..12-26, or a cron expression: minutes: `, `9:11: jobs[0].zone: "Mars"`}},
		"until and from":      {job("name: a", `every: 1m`, "from: 2027-01-01T00:00:00Z", "until: 2027-01-01T01:00:00+01:00", "exec: [x]"), []string{`7:12: jobs[0].until: expected an instant after from, 2027-01-01T00:00:00Z`}},
		"calendar, manual":    {job("name: a", `manual: true`, "except: [12-24]", "jitter: 1s", "exec: [x]"), []string{`6:13: jobs[0].except: expected it only beside cron or every or at`, `7:13: jobs[0].jitter: expected it only beside cron or every`}},
		"jitter":              {job("name: a", `cron: "*/5 * * * *"`, "jitter: 301s", "exec: [x]"), []string{`6:13: jobs[0].jitter: 5m1s: must be at most 5m0s, the time between two ticks`}},
		"everywhere":          {job("name: a", "every: 1m", "everywhere: true", "recover: rerun", `sql: ["DELETE FROM t"]`), []string{"jobs[0].recover: does not apply to a job that runs everywhere", "jobs[0].sql: a job that runs everywhere has no lease"}},
		"pool, unknown":       {job("name: a", `every: 1m`, "pool: reports", "exec: [x]"), []string{`jobs[0].pool: there is no pool "reports": expected one of pools`}},
		"pool, no name":       {job("name: a", `every: 1m`, `pool: "a b"`, "exec: [x]"), []string{`jobs[0].pool: "a b": expected a name of 1 to 128`}},
		"pools, no number":    {with("pools: {reports: many}"), []string{`5:18: pools.reports: "many": expected a number from 1 to 100000`}},
		"pools, name":         {with(`pools: {"a b": 1}`), []string{`5:9: pools: "a b": expected a pool's name such as reports: 1 to 128 letters`}},
		"pools, per alone":    {with("pools: {api: {runs: 1, per: 1m}}"), []string{`pools.api.per: expected it only beside starts`}},
		"pools, starts alone": {with("pools: {api: {starts: 10}}"), []string{`pools.api.starts: expected per beside it`}},
		"pools, per":          {with("pools: {api: {starts: 10, per: 2d}}"), []string{`pools.api.per: must be from 1s to 24h`}},
		"pools, empty":        {with("pools: {api: {}}"), []string{`pools.api`}},
		"pools, a list":       {with("pools: [reports]"), []string{`5:8: pools: a list: expected pools such as {reports: 3}`}},
		"everywhere, pool":    {job("name: a", "every: 1m", "everywhere: true", "pool: reports", "exec: [x]"), []string{"jobs[0].pool: does not apply to a job that runs everywhere", `jobs[0].pool: there is no pool "reports"`}},
		"priority, word":      {job("name: a", `every: 1m`, "priority: urgent", "exec: [x]"), []string{`jobs[0].priority: "urgent": expected normal, high or low`}},
		"everywhere, slots":   {job("name: a", "every: 1m", "everywhere: true", "priority: high", "exec: [x]"), []string{"jobs[0].priority: a job that runs everywhere waits for no slot"}},
		"everywhere, word":    {job("name: a", "every: 1m", "everywhere: maybe", "exec: [x]"), []string{"expected true or false"}},
		"pause_after":         {job("name: a", `cron: "0 0 * * *"`, "pause_after: 5", "history: {keep: 4}", "exec: [x]"), []string{`6:18: jobs[0].pause_after: 5: history.keep 4 keeps fewer runs`}},
		"pause_after, for":    {job("name: a", `cron: "0 0 * * *"`, "pause_after: 5", "history: {for: 3d}", "exec: [x]"), []string{`6:18: jobs[0].pause_after: 5: history.for 72h0m0s keeps fewer runs: so many ticks take up to 120h0m0s`}},
		"zone, manual":        {job("name: a", `manual: true`, "zone: UTC", "exec: [x]"), []string{`6:11: jobs[0].zone: expected it only beside cron`}},
		"dialect":             {job("name: a", `cron: 0 0 2 * * *`, "dialect: jenkins", "exec: [x]"), []string{`6:14: jobs[0].dialect: "jenkins": expected auto, unix, spring or quartz`}},
		"dialect, empty":      {job("name: a", `cron: 0 0 2 * * *`, `dialect: ""`, "exec: [x]"), []string{`6:14: jobs[0].dialect: "": expected auto, unix, spring or quartz`}},
		"dialect, every":      {job("name: a", `every: 1m`, "dialect: unix", "exec: [x]"), []string{`6:14: jobs[0].dialect: expected it only beside cron`}},
		"dialect, misfit":     {job("name: a", `cron: "0 0 2 * * 5"`, "dialect: quartz", "exec: [x]"), []string{`5:22: jobs[0].cron: day-of-week "5" in "0 0 2 * * 5": quartz wants ? here`}},
		"dialect, later":      {job("name: a", `dialect: unix`, `cron: "0 0 2 * * 5"`, "exec: [x]"), []string{`6:12: jobs[0].cron: seconds "0" in "0 0 2 * * 5": six fields given`}},
		"dst":                 {job("name: a", `cron: 0 0 2 * * *`, "dst: twice", "exec: [x]"), []string{`6:10: jobs[0].dst: "twice": expected once or native`}},
		"dst, rate":           {job("name: a", `fixed_rate: 1m`, "dst: once", "exec: [x]"), []string{`6:10: jobs[0].dst: expected it only beside cron`}},
		"manual":              {job("name: a", `manual: false`, "exec: [x]"), []string{`5:13: jobs[0].manual: "false": expected true, for a job that only runs when it is triggered, or no such key`}},
		"manual, beside":      {job("name: a", `every: 1m`, `manual: true`, "exec: [x]"), []string{`6:13: jobs[0].manual: beside every: expected only one of cron, every, at, fixed_rate, fixed_delay, manual, after or notify`}},
		"rate":                {job("name: a", `fixed_rate: 10ms`, "exec: [x]"), []string{`5:17: jobs[0].fixed_rate: fixed rate 10ms: must be at least 1s`}},
		"rate, number":        {job("name: a", `fixed_rate: 5000`, "exec: [x]"), []string{`5:17: jobs[0].fixed_rate: "5000": no unit: expected a duration such as 30s, 5m, 1h or 7d`}},
		"delay":               {job("name: a", `fixed_delay: -1s`, "exec: [x]"), []string{`5:18: jobs[0].fixed_delay: "-1s": expected a duration such as 30s, 5m, 1h or 7d, above zero`}},
		"delay, short":        {job("name: a", `initial_delay: 1m`, `fixed_delay: 999ms`, "exec: [x]"), []string{`6:18: jobs[0].fixed_delay: fixed delay 999ms: must be at least 1s`}},
		"delay, beside":       {job("name: a", `fixed_rate: 1m`, `fixed_delay: 1m`, "exec: [x]"), []string{`6:18: jobs[0].fixed_delay: beside fixed_rate: expected only one of`}},
		"initial":             {job("name: a", `fixed_rate: 1m`, "initial_delay: -5s", "exec: [x]"), []string{`6:20: jobs[0].initial_delay: "-5s": expected a duration such as 30s, 5m, 1h or 7d, not below zero`}},
		"initial, every":      {job("name: a", `every: 1m`, "initial_delay: 5s", "exec: [x]"), []string{`6:20: jobs[0].initial_delay: expected it only beside fixed_rate or fixed_delay: no other schedule counts`}},
		"days":                {job("name: a", `every: 1.5d`, "exec: [x]"), []string{`5:12: jobs[0].every: "1.5d": a part of a day`}},
		"days, many":          {job("name: a", `every: 99999d`, "exec: [x]"), []string{`5:12: jobs[0].every: "99999d": too long`}},
		"days, sign":          {job("name: a", `every: 1d-1h`, "exec: [x]"), []string{`5:12: jobs[0].every: "1d-1h": expected a duration`}},
		"at most":             {job("name: a", `every: 1m`, "lock_at_most_for: 0s", "exec: [x]"), []string{`6:23: jobs[0].lock_at_most_for: "0s": expected a duration such as 30s, 5m, 1h or 7d, above zero`}},
		"at most, timeout":    {job("name: a", `every: 1m`, "lock_at_most_for: 5m", "timeout: 5m", "exec: [x]"), []string{`6:23: jobs[0].lock_at_most_for: beside timeout: expected only one of them`}},
		"at least":            {job("name: a", `every: 1m`, "lock_at_least_for: PT5S", "exec: [x]"), []string{`6:24: jobs[0].lock_at_least_for: "PT5S": expected a duration`}},
		"misfire":             {job("name: a", `every: 1m`, "misfire: MISFIRE_INSTRUCTION_DO_NOTHING", "exec: [x]"), []string{`6:14: jobs[0].misfire: "MISFIRE_INSTRUCTION_DO_NOTHING": expected once, skip or all`}},
		"misfire, empty":      {job("name: a", `every: 1m`, "misfire:", "exec: [x]"), []string{`6:13: jobs[0].misfire: empty: expected once, skip or all`}},
		"catch-up":            {job("name: a", `every: 1m`, "catch_up: 5", "exec: [x]"), []string{`6:15: jobs[0].catch_up: "5": expected bounds such as {limit: 100, deadline: 1h} with the keys limit, deadline`}},
		"catch-up, limit":     {job("name: a", `every: 1m`, "catch_up: {limit: 0}", "exec: [x]"), []string{`6:23: jobs[0].catch_up.limit: "0": expected a number from 1 to 10000`}},
		"catch-up, most":      {job("name: a", `every: 1m`, "catch_up: {limit: 10001}", "exec: [x]"), []string{`6:23: jobs[0].catch_up.limit: "10001": expected a number from 1 to 10000`}},
		"catch-up, late":      {job("name: a", `every: 1m`, "catch_up: {deadline: 0}", "exec: [x]"), []string{`6:26: jobs[0].catch_up.deadline: "0": expected a duration such as 30s, 5m, 1h or 7d, above zero`}},
		"recover":             {job("name: a", `every: 1m`, "recover: yes", "exec: [x]"), []string{`6:14: jobs[0].recover: "yes": expected skip or rerun`}},
		"retry":               {job("name: a", `every: 1m`, "retry: 3", "exec: [x]"), []string{`6:12: jobs[0].retry: "3": expected attempts such as {attempts: 3, initial: 1s, max: 5m} with the keys attempts, initial, max`}},
		"retry, none":         {job("name: a", `every: 1m`, "retry: {initial: 1s}", "exec: [x]"), []string{`6:12: jobs[0].retry: no attempts: expected how many there are in all`}},
		"retry, attempts":     {job("name: a", `every: 1m`, "retry: {attempts: three}", "exec: [x]"), []string{`6:23: jobs[0].retry.attempts: "three": expected a number from 1 to 1000`}},
		"retry, initial":      {job("name: a", `every: 1m`, "retry: {attempts: 3, initial: -1s}", "exec: [x]"), []string{`6:35: jobs[0].retry.initial: "-1s": expected a duration`}},
		"retry, max":          {job("name: a", `every: 1m`, "retry: {max: 5s, attempts: 3, initial: 10s}", "exec: [x]"), []string{`6:18: jobs[0].retry.max: 5s: must be at least initial, 10s`}},
		"retry, default":      {job("name: a", `every: 1m`, "retry: {attempts: 3, max: 500ms}", "exec: [x]"), []string{`6:31: jobs[0].retry.max: 500ms: must be at least initial, 1s`}},
		"retry, misspelt":     {job("name: a", `every: 1m`, "retry: {attempt: 3}", "exec: [x]"), []string{`6:13: jobs[0].retry.attempt: unknown key: did you mean attempts?`}},
		"overlap":             {job("name: a", `every: 1m`, "overlap: skip", "exec: [x]"), []string{`6:14: jobs[0].overlap: "skip": expected forbid, queue, allow or replace`}},
		"job runs":            {job("name: a", `every: 1m`, "overlap: allow", "max_runs: 0", "exec: [x]"), []string{`7:15: jobs[0].max_runs: "0": expected a number from 1 to 100000`}},
		"job runs, alone":     {job("name: a", `every: 1m`, "max_runs: 3", "exec: [x]"), []string{`6:15: jobs[0].max_runs: expected it only beside overlap: allow`}},
		"job runs, forbid":    {job("name: a", `every: 1m`, "max_runs: 3", "overlap: queue", "exec: [x]"), []string{`6:15: jobs[0].max_runs: expected it only beside overlap: allow`}},
		"clock":               {with("clock: mine"), []string{`5:8: clock: "mine": expected database or worker`}},
		"skew":                {with("max_skew: 999ms"), []string{`5:11: max_skew: must be at least 1s`}},
		"no skew":             {with("max_skew: 0s"), []string{`5:11: max_skew: "0s": expected a duration such as 30s, 5m, 1h or 7d, above zero`}},
		"labels alone":        {with("labels: {disk: ssd}"), []string{`5:9: labels: only a group that is spread goes by labels: expected spread: true beside it`}},
		"follower_only alone": {with("follower_only: true"), []string{`5:16: follower_only: without spread, the leader runs all jobs, and this worker would do nothing: expected spread: true beside it`}},
		"concurrency_key":     {job("name: a", `every: 1m`, "concurrency_key: customer", "exec: [x]"), []string{`6:22: jobs[0].concurrency_key: expected it only beside overlap: allow`}},
		"everywhere, sticky":  {job("name: a", "every: 1m", "everywhere: true", "sticky: true", "concurrency_key: c", "exec: [x]"), []string{"jobs[0].sticky: does not apply", "jobs[0].sticky: the leader runs all", "jobs[0].concurrency_key: does not apply"}},
		"shards":              {job("name: a", "every: 1m", "shards: 129", "exec: [x]"), []string{`6:13: jobs[0].shards: "129": expected a number from 1 to 128`}},
		"shards, replace":     {job("name: a", "every: 1m", "shards: 2", "overlap: replace", "exec: [x]"), []string{`6:13: jobs[0].shards: beside overlap: replace: a tick does not end`}},
		"shards, key":         {job("name: a", "every: 1m", "shards: 2", "overlap: allow", "concurrency_key: c", "exec: [x]"), []string{`6:13: jobs[0].shards: beside concurrency_key: the shards of a run have the same arguments`}},
		"shards, everywhere":  {job("name: a", "every: 1m", "shards: 2", "everywhere: true", "exec: [x]"), []string{`6:13: jobs[0].shards: does not apply`}},
		"everywhere, spread":  {job("name: a", "every: 1m", "everywhere: true", "sticky: true", "shards: 2", "concurrency_key: c", "overlap: replace", "exec: [x]") + "spread: true\n", []string{"jobs[0].sticky: does not apply to a job that runs everywhere: it runs on each worker", "jobs[0].shards: does not apply", "jobs[0].concurrency_key: does not apply", "jobs[0].overlap: overlap replace: a tick does not end"}},
		"sticky, not spread":  {job("name: a", `every: 1m`, "sticky: true", "exec: [x]"), []string{`6:13: jobs[0].sticky: the leader runs all jobs of this group: expected spread: true beside group`}},
		"prefer, not spread":  {job("name: a", `every: 1m`, "prefer: {disk: ssd}", "exec: [x]"), []string{`6:13: jobs[0].prefer: only a group that is spread goes by labels: expected spread: true beside group`}},
		"labels, name":        {with(`labels: {"a b": c}` + "\nspread: true"), []string{`5:10: labels: "a b": expected a label's name such as disk: 1 to 63 letters`}},
		"labels, value":       {with(`labels: {disk: "s s"}` + "\nspread: true"), []string{`5:16: labels.disk: "s s": expected a label's value such as ssd: 1 to 63 letters`}},
		"labels, a list":      {with(`labels: [ssd]` + "\nspread: true"), []string{`5:9: labels: a list: expected labels such as {disk: ssd, zone: a}`}},
		"on, not spread":      {job("name: a", `every: 1m`, "on: {disk: ssd}", "exec: [x]"), []string{`6:9: jobs[0].on: only a group that is spread goes by labels: expected spread: true beside group`}},
		"runs":                {with("max_runs: -1"), []string{`5:11: max_runs: "-1": expected a number from 1 to 100000`}},
		"history":             {job("name: a", `every: 1m`, "history: 30d", "exec: [x]"), []string{`6:14: jobs[0].history: "30d": expected bounds such as {keep: 1000, for: 30d} with the keys keep, for`}},
		"history, empty":      {job("name: a", `every: 1m`, "history: {}", "exec: [x]"), []string{`6:14: jobs[0].history: expected keep, for, or both`}},
		"history, keep":       {job("name: a", `every: 1m`, "history: {keep: 1e9}", "exec: [x]"), []string{`6:21: jobs[0].history.keep: "1e9": expected a number from 1 to 1000000000`}},
		"history, for":        {job("name: a", `every: 1m`, "history: {for: 30}", "exec: [x]"), []string{`6:20: jobs[0].history.for: "30": no unit`}},
		"exec, line":          {job("name: a", `every: 1m`, "exec: rm -rf x"), []string{`6:11: jobs[0].exec: "rm -rf x": expected an argument list such as ["/usr`}},
		"exec, empty":         {job("name: a", `every: 1m`, "exec: []"), []string{`6:11: jobs[0].exec: an empty list: expected an argument list`}},
		"exec, no program":    {job("name: a", `every: 1m`, `exec: ["", x]`), []string{`6:12: jobs[0].exec[0]: "": expected an argument list`}},
		"exec, null":          {job("name: a", `every: 1m`, `exec: [x, ~]`), []string{`6:15: jobs[0].exec[1]: empty: expected an argument, as text`}},
		"exec, nul":           {job("name: a", `every: 1m`, `exec: ["a\0b"]`), []string{`6:12: jobs[0].exec[0]: "a\x00b": expected an argument list`}},
		"exec, nested":        {job("name: a", `every: 1m`, `exec: [x, [y]]`), []string{`6:15: jobs[0].exec[1]: a list: expected an argument, as text`}},
		"http":                {job("name: a", `every: 1m`, `http: "http://x/"`), []string{`6:11: jobs[0].http: "http://x/": expected a request such as {url: "http://127.0.0.1:8080/ping"} with the keys url, method, headers, body, expect, ca, cert, key`}},
		"headers":             {job("name: a", "every: 1m", `http: {url: "http://x/", headers: [a]}`), []string{`6:39: jobs[0].http.headers: a list: expected headers such as {Content-Type`}},
		"headers, names":      {job("name: a", "every: 1m", `http: {url: "http://x/", headers: {a b: x, Cronlease-Job: y, content-length: 3, X-A: 1, x-a: 2, [z]: 1}}`), []string{`6:40: jobs[0].http.headers: "a b": expected a header's name such as Authorization`, `6:48: jobs[0].http.headers: "Cronlease-Job": expected another name: those that begin with Cronlease-`, `6:66: jobs[0].http.headers: "content-length": expected another name: the worker sets this one itself`, `6:93: jobs[0].http.headers.x-a: given twice, first in line 6: expected it once`, `6:101: jobs[0].http.headers: a list: expected a header's name`}},
		"headers, values":     {job("name: a", "every: 1m", `http: {url: "http://x/", headers: {A: "x\ncanary", B: [c], C: {}, D: {file: "", prefx: x}, E: {file: x, prefix: "a\nb"}}}`), []string{`6:43: jobs[0].http.headers.A: has a line break`, `6:59: jobs[0].http.headers.B: a list: expected text, or {file:`, `6:67: jobs[0].http.headers.C: no file: expected`, `6:81: jobs[0].http.headers.D.file: "": expected the path of a file such as /run/secrets/token`, `6:85: jobs[0].http.headers.D.prefx: unknown key: did you mean prefix?`, `6:117: jobs[0].http.headers.E.prefix: has a line break`}},
		"headers, twice":      {job("name: a", "every: 1m", `http: {url: "http://u:canary@x/", headers: {authorization: x}}`), []string{`6:48: jobs[0].http.headers: Authorization beside a user in url: expected only one of them`}},
		"body":                {job("name: a", "every: 1m", `http: {url: "http://x/", body: [x]}`), []string{`6:36: jobs[0].http.body: a list: expected text, {file: /etc/worker/body.json}, or {template`}},
		"body, file":          {job("name: a", "every: 1m", `http: {url: "http://x/", body: {path: x}}`), []string{`6:36: jobs[0].http.body: expected one of file or template`, `6:37: jobs[0].http.body.path: unknown key: expected one of file`}},
		"expect":              {job("name: a", "every: 1m", `http: {url: "http://x/", expect: 200}`), []string{`6:38: jobs[0].http.expect: "200": expected a list of status codes such as [200, 404] or [2xx]`}},
		"expect, codes":       {job("name: a", "every: 1m", `http: {url: "http://x/", expect: [100, 6xx, 20, ok, 600]}`), []string{`6:39: jobs[0].http.expect[0]: "100": expected a status code from 200 to 599, or 2xx`, `6:44: jobs[0].http.expect[1]: "6xx": expected a status code from 200 to 599, or 2xx`, `6:49: jobs[0].http.expect[2]: "20": expected a status code from 200 to 599, or 2xx`, `6:53: jobs[0].http.expect[3]: "ok": expected a status code from 200 to 599, or 2xx`, `6:57: jobs[0].http.expect[4]: "600": expected a status code from 200 to 599, or 2xx`}},
		"ca, http":            {job("name: a", "every: 1m", `http: {url: "http://x/", ca: a, cert: b, key: c}`), []string{`6:34: jobs[0].http.ca: expected it only for an https URL`, `6:43: jobs[0].http.cert: expected it only for an https URL`, `6:51: jobs[0].http.key: expected it only for an https URL`}},
		"cert alone":          {job("name: a", "every: 1m", `http: {url: "https://x/", cert: b}`), []string{`6:37: jobs[0].http.cert: expected it only beside key: a client's certificate and its key belong together`}},
		"key alone":           {job("name: a", "every: 1m", `http: {url: "https://x/", key: b}`), []string{`6:36: jobs[0].http.key: expected it only beside cert`}},
		"http, no url":        {job("name: a", `every: 1m`, `http: {method: GET}`), []string{`6:11: jobs[0].http: no url: expected the address`}},
		"url, relative":       {job("name: a", `every: 1m`, `http: {url: /ping}`), []string{`6:17: jobs[0].http.url: expected an absolute URL such as`}},
		"url, scheme":         {job("name: a", `every: 1m`, `http: {url: "ftp://x/"}`), []string{`6:17: jobs[0].http.url: expected an absolute URL`}},
		"url, no host":        {job("name: a", `every: 1m`, `http: {url: "http:///x"}`), []string{`6:17: jobs[0].http.url: expected an absolute URL`}},
		"url, port":           {job("name: a", `every: 1m`, `http: {url: "http://x:99999/"}`), []string{`6:17: jobs[0].http.url: expected an absolute URL`}},
		"url, secret":         {job("name: a", `every: 1m`, `http: {url: "http://u:canary@x:y/"}`), []string{`6:17: jobs[0].http.url: expected an absolute URL`}},
		"method":              {job("name: a", `every: 1m`, `http: {url: "http://x/", method: FETCH}`), []string{`6:38: jobs[0].http.method: "FETCH": expected GET, HEAD, POST`}},
		"variable":            {with("group: ${NONE}"), []string{"2:8: group: ${NONE}: not set: expected this variable in the environment, or $${NONE} for the plain text"}},
		"variable, open":      {with(`group: "${NONE"`), []string{`2:8: group: "${NONE": expected a } after ${`}},
		"variable, name":      {with(`group: "${a b}"`), []string{`2:8: group: "${a b}": expected a variable's name`}},
		"database":            {with("database: oracle://u:canary@h/d"), []string{`1:11: database: another kind of database: expected "mysql://user:password@host:3306/database", "postgres://user:password@host:5432/database", "redis://user:password@host:6379/0", "zk://user:password@host1:2181,host2:2181/path" or "sqlite:/path/of/file.db"`}},
		"database, Valkey":    {with("database: valkey://u:canary@h"), []string{`1:11: database: another scheme, redis:// is for Valkey too: expected "mysql://`}},
		"database, zookeeper": {with("database: zookeeper://u:canary@h"), []string{`1:11: database: another scheme, zk:// is for ZooKeeper: expected "mysql://`}},
		"database, slash 2":   {with("database: redis://u:can/ary@h"), []string{`1:11: database: the user or the password has a /, ? or # in it: expected %2F, %3F or %23, or the password in a variable, as in redis://user:${PASSWORD}@`}},
		"database, Redis %":   {with("database: redis://:can%ary@h"), []string{`1:11: database: the user or the password has a % in it: expected %25, `}},
		"no Redis":            {with("database: redis+sentinel://u:canary@/m"), []string{`1:11: database: no host: expected "redis://user:password@host:6379/0", "redis+sentinel://`}},
		"no SQL": {"database: redis://u:canary@h\ngroup: g\njobs: [{name: a, every: 1m, sql: [DELETE FROM t]}]\n",
			[]string{"3:34: jobs[0].sql: the statements of a job run in the database of the lease, in one transaction with the check of its token, and redis runs none: expected exec or http"}},
		"database, DSN":     {with("database: u:canary@tcp(h:1)/d"), []string{`1:11: database: a DSN of the Go driver, user:password@tcp(host:3306)/database, where a URL belongs: expected "mysql://`}},
		"database, short":   {with("database: canary@/d"), []string{`1:11: database: a DSN of the Go driver, `}},
		"database, tcp":     {with("database: mysql://u:canary@tcp(h:1)/d"), []string{`1:11: database: the address in brackets of a DSN: expected "mysql://`}},
		"database, JDBC":    {with("database: jdbc:mysql://h/d?password=canary"), []string{`1:11: database: another scheme, mysql:// is for MariaDB too: expected "mysql://`}},
		"database, path":    {with("database: /var/lib/canary.db"), []string{`1:11: database: a path without sqlite: before it: expected "mysql://`}},
		"database, home":    {with("database: sqlite:~/canary.db"), []string{`1:11: database: a ~, which stands for no folder here: `}},
		"database, slash":   {with("database: mysql://u:can/ary@h/d"), []string{`1:11: database: the user or the password has a /, ? or # in it: expected %2F, %3F or %23, or the password in a variable, as in mysql://user:${PASSWORD}@`}},
		"database, both":    {with("database: mysql://u:p@canary/x@h:1/d"), []string{`1:11: database: the user or the password has a /, ? or # in it: `}},
		"database, no name": {with("database: mysql://u:p@canary/x@h"), []string{`1:11: database: the user or the password has a /, ? or # in it: `}},
		"Redis, both":       {with("database: redis://u:p@canary/x@h:1/0"), []string{`1:11: database: the user or the password has a /, ? or # in it: `}},
		"database, mark":    {with("database: mysql://u:1?canary@h/d"), []string{`1:11: database: the user or the password has a /, ? or # in it: `}},
		"database, number":  {with("database: mysql://u:can#ary@h/d"), []string{`1:11: database: the user or the password has a /, ? or # in it: `}},
		"database, cut":     {with("database: mysql://u:can #ary@h/d"), []string{`1:11: database: it ends behind the host: `}},
		"database, percent": {with("database: mysql://u:can%ary@h/d"), []string{`1:11: database: the user or the password has a % in it: expected %25, `}},
		"database, null":    {with("database:"), []string{`1:10: database: empty: expected "mysql://`}},
		"no database name":  {with("database: mysql://u:canary@h:1/"), []string{`1:11: database: no database after the host: expected`}},
		"no host":           {with("database: mysql://u:canary@/d"), []string{`1:11: database: no host: expected`}},
		"database, hosts":   {with("database: mysql://u:canary@h,,i/d"), []string{`1:11: database: no host: expected`}},
		"database, ports":   {with("database: mysql://u:canary@h,i:x/d"), []string{`1:11: database: not a URL: expected`}},
		"database, port":    {with("database: mysql://u:canary@h:x/d"), []string{`1:11: database: not a URL: expected`}},
		"database, hash":    {with("database: mysql://u:x#canary@h:1/d"), []string{`1:11: database: `}},
		"database, var":     {with("database: mysql://u:${NONE}@h:1/d"), []string{`1:11: database: ${NONE}: not set`}},
		"database, ${":      {with("database: mysql://u:p${canary@h:1/d"), []string{`1:11: database: a ${ that is no variable: expected a } after ${`}},
		"database, name":    {with("database: mysql://u:p${a canary}@h:1/d"), []string{`1:11: database: a ${ that is no variable: expected a variable's name`}},
		"url for a list":    {"mysql://u:canary@h/d\n", []string{`1:1: "mysql://"...: expected a configuration`}},
		"url for http":      {job("name: a", `every: 1m`, `http: "https://u:canary@h/"`), []string{`6:11: jobs[0].http: "https://"...: expected a request`}},
		"url as a number":   {with("max_runs: mysql://u:canary@h/d"), []string{`5:11: max_runs: "mysql://"...: expected a number`}},
		"DSN as a name":     {with("group: u:canary@tcp(h:1)/d"), []string{`2:8: group: ""...: expected a name`}},
		"url as a key":      {with("? mysql://u:canary@h/d\n: x"), []string{`5:3: "mysql://"...: unknown key: expected one of`}},
		"url as a tag":      {with("group: !mysql://u:canary@h/d g"), []string{`2:8: group: the tag ""...: expected a name`}},
		"url as an alias":   {"group: g\njobs: *mysql://u:canary@h/d\n", []string{`2:7: not YAML: `}},
		"long key":          {with("? " + strings.Repeat("k", 500) + "\n: x"), []string{`5:3: "` + strings.Repeat("k", 80) + `"...: unknown key`}},
		"key of lines":      {with(`"a\nb": x`), []string{`5:1: "a\nb": unknown key`}},
		"database, %":       {with("database: mysql://u:%zcanary@h:1/d"), []string{`1:11: database: the user or the password has a % in it`}},
		"listen, open":      {with("listen: 0.0.0.0:8080"), []string{`5:9: listen: it is reached from other machines: expected password_file or proxy under listen`}},
		"listen, no port":   {with("listen: localhost"), []string{`5:9: listen: expected host:port`}},
		"listen, name":      {with("listen: {address: 'web-1:8080', hosts: [web-1]}"), []string{`5:19: listen.address: it is reached from other machines`}},
		"listen, hosts":     {with("listen: {address: '127.0.0.1:1', hosts: ['a:1']}"), []string{`5:42: listen.hosts[0]: "a:1": expected a host's name`}},
		"listen, all proxy": {with("listen: {address: ':1', proxy: {header: X-User, from: [0.0.0.0/0]}}"), []string{`5:56: listen.proxy.from[0]: "0.0.0.0/0": any machine could`}},
		"listen, no from":   {with("listen: {address: ':1', proxy: {header: X-User}}"), []string{`5:32: listen.proxy: no from: expected the addresses of the proxy`}},
		"listen, steer":     {with("listen: {address: '127.0.0.1:1', steer: [a]}"), []string{`5:41: listen.steer: expected it only beside password_file or proxy`}},
		"listen, cert":      {with("listen: {address: '127.0.0.1:1', cert: a}"), []string{`5:40: listen.cert: expected it only beside key`}},
		"listen, no page":   {with("listen: {address: ':1', page: false, hosts: [a]}"), []string{`5:45: listen.hosts: beside page: false`}},
		"sqlite":            {with("database: 'sqlite:'"), []string{`1:11: database: no file: expected sqlite:/path/of/file.db`}},
		"sqlite, memory":    {with("database: 'sqlite::memory:'"), []string{`1:11: database: in memory: expected`}},
		"sqlite, options":   {with("database: sqlite:x?mode=ro"), []string{`1:11: database: expected a plain path`}},
		"all at once": {"database: x\ngroup: a b\nlease: {ttl: 1}\njobs:\n  - name: a\n    every: x\n  - nam: b\n", []string{
			"1:11: database: ", "2:8: group: ", "3:14: lease.ttl: ", "5:5: jobs[0]: expected one of exec, http or sql", "6:12: jobs[0].every: ",
			"7:5: jobs[1].nam: unknown key: did you mean name?", "7:5: jobs[1]: expected one of cron", "7:5: jobs[1]: expected one of exec",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Parse("worker.yaml", []byte(test.text), variables)
			if err == nil {
				t.Fatalf("no error in\n%s", test.text)
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(test.want) {
				t.Fatalf("%d errors, want %d:\n%v\n\nin\n%s", len(lines), len(test.want), err, test.text)
			}
			for i, line := range lines {
				if !strings.HasPrefix(line, "worker.yaml:") || !strings.Contains(line, test.want[i]) {
					t.Errorf("got  %s\nwant %s", line, "worker.yaml:"+test.want[i])
				}
				if strings.Contains(line, "canary") {
					t.Errorf("shows what may be a secret: %s", line)
				}
			}
		})
	}
}

func TestTooMuch(t *testing.T) {
	t.Parallel()
	bomb := "jobs: [{name: a, every: 1m, exec: &e [" + strings.Repeat("x,", 1_000) + "]}"
	for i := range 1000 {
		bomb += fmt.Sprintf(", {name: j%d, every: 1m, exec: *e}", i)
	}
	for name, test := range map[string]struct{ text, want string }{
		"size":   {strings.Repeat("#", config.MaxSize+1), "worker.yaml:1:1: larger than 10485760 bytes: expected"},
		"errors": {with("jobs: [" + strings.Repeat("x,", 1000) + "]"), "worker.yaml: 950 more errors"},
		"bomb":   {with(bomb + "]"), " values: expected fewer aliases"},
		"deep":   {with("jobs: " + strings.Repeat("[", 20_000)), "not YAML: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Parse("worker.yaml", []byte(test.text), variables)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %.1000v, want %q", err, test.want)
			}
			if n := strings.Count(err.Error(), "\n"); n > 60 {
				t.Errorf("%d lines", n)
			}
		})
	}
}

// A long list with everything in it that a job can have.
func TestTenThousandJobs(t *testing.T) {
	t.Parallel()
	const n = 10_000
	var text strings.Builder
	text.WriteString("database: sqlite:x.db\ngroup: g\njobs:\n")
	for i := range n {
		fmt.Fprintf(&text, `  - name: job-%d
    cron: "%d %d * * * *"
    zone: Europe/Berlin
    dialect: spring
    dst: once
    timeout: 1h
    lock_at_least_for: 1s
    misfire: all
    catch_up: {limit: 10, deadline: 1h}
    recover: rerun
    retry: {attempts: 3, initial: 1s, max: 1m}
    overlap: allow
    max_runs: 2
    history: {keep: 10, for: 30d}
    exec: [/usr/bin/env, -i, "A=${EVERY}", B=c, /usr/local/bin/report, --full, --job, "%d"]
`, i, i%60, i/60%60, i)
	}
	c := parse(t, text.String())
	equal(t, "jobs", len(c.Jobs), n)
	for i, j := range c.Jobs {
		if j.Name != fmt.Sprint("job-", i) || len(j.Exec) != 8 || j.Exec[7] != fmt.Sprint(i) || j.Limit != 2 || j.History.Keep != 10 {
			t.Fatalf("job %d: %+v", i, j)
		}
	}
}

func TestNoFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "none.yaml")
	_, err := config.Load(path, os.LookupEnv)
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want an error with the path", err)
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	c := parse(t, with("group: g"))
	equal(t, "wrapped", c.Wrap("group", os.ErrClosed).Error(), "worker.yaml:2:8: group: file already closed")
	equal(t, "unknown", c.Wrap("lease", os.ErrClosed), os.ErrClosed)
	equal(t, "nil", c.Wrap("group", nil), nil)
}
