package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/jobs"
)

func TestAfter(t *testing.T) {
	t.Parallel()
	text := func(lines ...string) []byte {
		return []byte("database: sqlite:x\ngroup: g\njobs:\n  - {exec: [x], " + strings.Join(lines, "}\n  - {exec: [x], ") + "}\n")
	}
	load := func(text []byte) (*config.Config, error) {
		path := filepath.Join(t.TempDir(), "worker.yaml")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return config.Load(path, variables)
	}
	c, err := load(text("name: load, after: extract", "name: extract, every: 1h"))
	if err != nil || c.Jobs[0].Schedule != jobs.Schedule(jobs.After("extract")) {
		t.Errorf("%+v, %v", c, err)
	}
	for want, lines := range map[string][]string{
		`worker.yaml:4:36: jobs[0].after: job "load" is due after "extrakt", and there is no such job: did you mean extract?`: {"name: load, after: extrakt", "name: extract, every: 1h"},
		`worker.yaml:4:33: jobs[0].after: job "a" is due after itself: a after b after a`:                                     {"name: a, after: b", "name: b, after: a"},
		`worker.yaml:4:33: jobs[0].after: "b" runs everywhere: no job can follow it`:                                          {"name: a, after: b", "name: b, every: 1h, everywhere: true"},
		`jobs[0].overlap: overlap replace: a job after another one`:                                                           {"name: a, after: b, overlap: replace", "name: b, every: 1h"},
		`jobs[0].manual: a job that runs everywhere cannot be triggered`:                                                      {"name: a, manual: true, everywhere: true"},
		`worker.yaml:4:33: jobs[0].after: "no job": expected the name of a job`:                                               {"name: a, after: no job"},
		`worker.yaml:4:33: jobs[0].after: beside every: expected only one of cron, every, at`:                                 {"name: a, after: b, every: 1h", "name: b, every: 1h"},
	} {
		if _, err := load(text(lines...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", lines, err, want)
		}
	}
}
