package config_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/cmd/worker/internal/httpjob"
	"github.com/cronlease/cronlease/jobs"
)

// What a job says goes before what it merges, and that before the defaults, which
// apply where they fit.
func TestDefaults(t *testing.T) {
	t.Parallel()
	c := parse(t, `
database: sqlite:x
group: g
x-slow: &slow {timeout: 9h, retry: {attempts: 9}}
x-safe: &safe {retry: {attempts: 8}, recover: rerun, <<: {misfire: skip}}
jobs:
  - {name: own, every: 1m, exec: [x], timeout: 1m, <<: *slow, env: {A: b}}
  - {name: merged, cron: "0 0 2 * * *", exec: [x], <<: [*slow, *safe]}
  - {name: plain, cron: "0 0 2 * * *", zone: UTC, exec: [x]}
  - {name: http, manual: true, http: {url: "http://x/", headers: {A: "1", <<: {A: "2", B: "3"}}}, lock_at_most_for: 5m}
  - {name: delay, fixed_delay: 1m, sql: [DELETE FROM a], overlap: queue}
defaults:
  timeout: 2h
  zone: Europe/Berlin
  initial_delay: 10s
  env: {MODE: full}
  dir: /tmp
  overlap: allow
  max_runs: 3
  misfire: all
`)
	for i, want := range []string{
		"every 1m0s|1m0s|0s|9|skip|all|A=b|/tmp|allow|3",
		`cron "0 0 2 * * *" in Europe/Berlin, auto, dst once|9h0m0s|0s|9|rerun|skip|MODE=full|/tmp|allow|3`,
		`cron "0 0 2 * * *" in UTC, auto, dst once|2h0m0s|0s|0|skip|all|MODE=full|/tmp|allow|3`,
		"manual|0s|5m0s|0|skip|all|||allow|3",
		"fixed delay 1m0s, initial delay 10s|2h0m0s|0s|0|skip|all|||queue|0",
	} {
		j := c.Jobs[i]
		env := ""
		for _, v := range j.Env {
			env += v.Name + "=" + v.Value
		}
		got := fmt.Sprintf("%v|%v|%v|%d|%v|%v|%s|%s|%v|%d", j.Schedule, j.Timeout, j.LockAtMostFor, j.Retry.Attempts, j.Recover, j.Misfire, env, j.Dir, j.Overlap, j.Limit)
		equal(t, j.Name, got, want)
	}
	if got := c.Jobs[3].HTTP.Headers; !reflect.DeepEqual(got, []httpjob.Header{{Name: "A", Value: "1"}, {Name: "B", Value: "3"}}) {
		t.Errorf("headers: got %v", got)
	}
}

// A default that does not fit a job does not apply to it, whichever it is: a file whose jobs are good
// without the defaults is good with them.
func TestDefaultsThatDoNotFit(t *testing.T) {
	t.Parallel()
	kinds := map[string]string{
		"everywhere": "every: 1m, exec: [x], everywhere: true", "cron": "cron: '* * * * *', exec: [x]", "every": "every: 1m, http: {url: 'http://x/'}",
		"at": "at: 2030-01-01T00:00:00Z, exec: [x]", "rate": "fixed_rate: 1m, exec: [x]", "delay": "fixed_delay: 1m, sql: [DELETE FROM a]",
		"manual": "manual: true, exec: [x]", "after": "after: other, exec: [x]", "notify": "notify: {on_failure: all}, exec: [x]",
	}
	defaults := []string{
		"misfire: all", "catch_up: {limit: 5}", "recover: rerun", "overlap: queue", "overlap: replace", "overlap: allow, max_runs: 2", "lock_at_least_for: 1s", "lock_at_most_for: 1m",
		"history: {keep: 5}", "pause_after: 3", "retry: {attempts: 3}", "timeout: 1m", "zone: Europe/Berlin", "from: 2020-01-01T00:00:00Z", "until: 2040-01-01T00:00:00Z",
		"except: [12-24]", "jitter: 1s", "dialect: unix", "dst: native", "initial_delay: 1s", "env: {A: b}", "dir: /tmp", "umask: '027'", "everywhere: false",
	}
	for name, kind := range kinds {
		for _, d := range defaults {
			c, err := config.Parse("worker.yaml", []byte("database: sqlite:x\ngroup: g\ndefaults: {"+d+"}\njobs:\n- {name: a, "+kind+"}\n- {name: other, manual: true, exec: [x]}\n"), nil)
			if err != nil {
				t.Errorf("%s with the default %s: %v", name, d, err)
				continue
			}
			for _, job := range c.Jobs {
				if job.Do = func(context.Context, jobs.Run) error { return nil }; job.Validate() != nil {
					t.Errorf("%s with the default %s: %v", name, d, job.Validate())
				}
			}
		}
	}
}

// All jobs but one run everywhere: then what does not apply to these is for the one.
func TestDefaultEverywhere(t *testing.T) {
	t.Parallel()
	c := parse(t, `
database: sqlite:x
group: g
defaults: {everywhere: true, timeout: 1m}
jobs:
  - {name: local, every: 1m, exec: [x]}
  - {name: led, every: 1m, exec: [x], everywhere: false, misfire: all}
  - {name: fenced, every: 1m, sql: [DELETE FROM a]}
  - {name: manual, manual: true, exec: [x]}
  - {name: queued, every: 1m, exec: [x], overlap: queue}
`)
	for i, want := range []bool{true, false, false, false, false} {
		equal(t, c.Jobs[i].Name, c.Jobs[i].Everywhere, want)
	}
}

// Defaults for many jobs are not taken for a file that unfolds to too much.
func TestManyDefaults(t *testing.T) {
	t.Parallel()
	const n = 20_000
	var text strings.Builder
	text.WriteString("database: sqlite:x\ngroup: g\ndefaults: {timeout: 1h, zone: UTC, retry: {attempts: 3}, env: {A: a, B: b, C: c, D: d, E: e, F: f, G: g, H: h}}\njobs:\n")
	for i := range n {
		fmt.Fprintf(&text, "- {name: j%d, every: 1m, exec: [x]}\n", i)
	}
	c := parse(t, text.String())
	equal(t, "jobs", len(c.Jobs), n)
	equal(t, "variables", len(c.Jobs[n-1].Env), 8)
}

// Days off for all jobs leave out ticks of those that have any, in the zone of the
// defaults.
func TestDefaultCalendar(t *testing.T) {
	t.Parallel()
	c := parse(t, `
database: sqlite:x
group: g
defaults: {except: [12-24], zone: Europe/Berlin, until: 2030-01-01T00:00:00Z, jitter: 5s, pause_after: 3}
jobs:
  - {name: cron, cron: "0 2 * * *", exec: [x]}
  - {name: every, every: 1m, exec: [x], except: ["* 0-6 * * *"], jitter: 0s}
  - {name: rate, fixed_rate: 1m, exec: [x]}
  - {name: manual, manual: true, exec: [x]}
`)
	for i, want := range []string{
		`cron "0 2 * * *" in Europe/Berlin, auto, dst once; until 2030-01-01T00:00:00Z; except "12-24" in Europe/Berlin|5s|3`,
		`every 1m0s; until 2030-01-01T00:00:00Z; except "* 0-6 * * *" in Europe/Berlin|0s|3`,
		`fixed rate 1m0s, initial delay 0s; until 2030-01-01T00:00:00Z; except "12-24" in Europe/Berlin|5s|3`,
		`manual|0s|3`,
	} {
		j := c.Jobs[i]
		equal(t, j.Name, fmt.Sprintf("%v|%v|%d", j.Schedule, j.Jitter, j.PauseAfter), want)
	}
}
