package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/jobs"
)

func TestNotify(t *testing.T) {
	t.Parallel()
	load := func(job string) (*config.Config, error) {
		text := "database: sqlite:x\ngroup: g\njobs:\n  - {exec: [x], name: tell, " + job + "}\n" +
			"  - {exec: [x], name: invoices, every: 1h}\n  - {exec: [x], name: local, every: 1h, everywhere: true}\n  - {exec: [x], name: other, notify: {on_missed: all}}\n"
		path := filepath.Join(t.TempDir(), "worker.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return config.Load(path, variables)
	}
	for text, want := range map[string]jobs.NotifySchedule{
		"notify: {on_failure: all}": jobs.OnFailure(),
		"notify: {on_failure: all, on_recovery: [invoices], on_missed: all}": jobs.OnFailure().OnRecovery("invoices").OnMissed(),
		"notify: {on_missed: [invoices], limit: 5}":                          jobs.OnMissed("invoices").AtMost(5, time.Hour),
		"notify: {on_missed: [invoices], limit: 5, per: 1d}":                 jobs.OnMissed("invoices").AtMost(5, 24*time.Hour),
		"notify: {on_missed: [invoices], limit: none}, overlap: allow":       jobs.OnMissed("invoices").AtMost(0, 0),
	} {
		c, err := load(text)
		if err != nil || c.Jobs[0].Schedule != jobs.Schedule(want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"notify: {}":                                      "jobs[0].notify: expected on_failure, on_recovery, on_missed, or some of them",
		"notify: {limit: 5}":                              "jobs[0].notify: expected on_failure, on_recovery, on_missed, or some of them",
		"notify: {on_failure: some}":                      `jobs[0].notify.on_failure: "some": expected all, or a list of jobs such as [invoices, report]`,
		"notify: {on_failure: []}":                        "jobs[0].notify.on_failure: an empty list: expected",
		"notify: {on_failure: [a b]}":                     `jobs[0].notify.on_failure[0]: "a b": expected a name`,
		"notify: {on_failure: [invoice]}":                 `worker.yaml:4:37: jobs[0].notify: job "tell" tells of "invoice", and there is no such job: did you mean invoices?`,
		"notify: {on_failure: [other]}":                   `jobs[0].notify: job "tell" tells of "other", which tells of jobs itself`,
		"notify: {on_failure: [local]}":                   `jobs[0].notify: "local" runs everywhere: nothing is told of it`,
		"notify: {on_failure: all, limit: 0}":             "jobs[0].notify.limit",
		"notify: {on_failure: all, limit: 1001}":          "jobs[0].notify.limit",
		"notify: {on_failure: all, limit: 5, per: 1ms}":   "jobs[0].notify: at most 5 notices per 1ms: must be from 1s to 168h0m0s",
		"notify: {on_failure: all, per: 1h}":              "jobs[0].notify.per: expected it only beside limit",
		"notify: {on_failure: all, limit: none, per: 1h}": "jobs[0].notify.per: beside limit: none",
		"notify: {on_failures: all}":                      "on_failure",
		"notify: {on_failure: all}, every: 1h":            "beside every: expected only one of cron, every, at, fixed_rate, fixed_delay, manual, after or notify",
		"notify: {on_failure: all}, overlap: replace":     "jobs[0].overlap: overlap replace: a job that tells of other jobs runs for each notice",
		"notify: {on_failure: all}, everywhere: true":     "jobs[0].notify: does not apply to a job that runs everywhere",
		"notify: {on_failure: all}, jitter: 1s":           "jobs[0].jitter: expected it only beside",
		"after: other":                                    `jobs[0].after: job "tell" is due after "other", which tells of other jobs`,
		`notify: {on_failure: all}, http: {url: "http://x/", body: {template: "{{json .txt}}"}}`: `no entry for key "txt"`,
		`every: 1h, http: {url: "http://x/", body: {template: "{{"}}`:                            "jobs[0].http.body.template: expected a template in Go's text/template",
		`every: 1h, http: {url: "http://x/", body: {template: a, file: /b}}`:                     "expected only one of file or template",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
