package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
)

func TestInclude(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	main := func(rest string) string { return "database: sqlite:x\ngroup: g\n" + rest }
	write("jobs.d/b.yaml", "x-a: &a {misfire: all}\njobs: [{name: b, every: 1m, exec: [x], <<: *a}, {name: c, cron: '0 2 * * *', exec: [x]}]\n")
	write("jobs.d/a.yaml", "jobs: [{name: a, every: \"${EVERY}\", exec: [x]}]\n")
	write("jobs.d/.#a.yaml", "not read")
	write("jobs.d/c.yaml~", "not read")
	write("empty.d/readme", "")
	more := write("more.yaml", "jobs: [{name: d, every: 1m, exec: [x], timeout: 5m}]\n")
	path := write("worker.yaml", main("defaults: {timeout: 1h, zone: Europe/Berlin}\ninclude: [jobs.d/*.yaml, "+more+", more.yaml, empty.d/*.yaml]\n"))
	c, err := config.Load(path, variables)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range c.Jobs {
		got = append(got, fmt.Sprintf("%s %v %v %v", j.Name, j.Schedule, j.Timeout, j.Misfire))
	}
	equal(t, "jobs", strings.Join(got, "\n"), `a every 5m0s 1h0m0s once
b every 1m0s 1h0m0s all
c cron "0 2 * * *" in Europe/Berlin, auto, dst once 1h0m0s once
d every 1m0s 5m0s once`)
	equal(t, "wrapped", c.Jobs[1].Wrap("exec", os.ErrClosed).Error(), filepath.Join(folder, "jobs.d/b.yaml")+":2:35: jobs[0].exec: file already closed")
	equal(t, "wrapped default", c.Jobs[1].Wrap("timeout", os.ErrClosed).Error(), filepath.Join(folder, "jobs.d/b.yaml")+":2:8: jobs[0].timeout: file already closed")

	write("bad.d/1.yaml", "jobs:\n  - {name: a, evry: 1m, exec: [x]}\n")
	write("bad.d/2.yaml", "jobs:\n  - {name: e, every: 1m, exec: [x]}\n\t- x\n")
	write("bad.d/3.yaml", "group: g\ninclude: x\n")
	write("bad.d/4.yaml", "")
	for text, want := range map[string][]string{
		"include: [more.yaml, jobs.d/a.yaml]\njobs:\n  - {name: d, every: 1m, exec: [x]}\n": {`more.yaml:1:15: jobs[0].name: "d": the job in FOLDER/worker.yaml:5 has this name too: expected names that differ`},
		"include: bad.d/*\njobs: [{name: x, every: 0s, exec: [x]}]\n": {
			`worker.yaml:4:25: jobs[0].every: "0s"`,
			"bad.d/1.yaml:2:15: jobs[0].evry: unknown key: did you mean every?",
			"bad.d/2.yaml:3:1: not YAML: ",
			"bad.d/3.yaml:1:1: group: unknown key: expected one of jobs", "bad.d/3.yaml:1:1: no jobs: expected a list of jobs", "bad.d/3.yaml:2:1: include: unknown key: expected one of jobs",
			"bad.d/4.yaml:1:1: empty: expected the key jobs",
		},
		"include: none.yaml\n":      {"worker.yaml:3:10: include: open FOLDER/none.yaml: no such file"},
		"include: jbs.d/*.yaml\n":   {`worker.yaml:3:10: include: "jbs.d/*.yaml": there is no folder "FOLDER/jbs.d": expected files such as jobs.d/*.yaml`},
		"include: empty.d/*.yaml\n": {"worker.yaml:3:10: include: no jobs, and no file here: expected a job"},
		"include: ['', 'jobs.d/[']": {`worker.yaml:3:11: include[0]: "": expected files such as`, `worker.yaml:3:15: include[1]: "jobs.d/[": no pattern: expected files`},
		"include: {a: b}":           {"worker.yaml:3:10: include: a mapping: expected files such as jobs.d/*.yaml"},
		"include: empty.d\n":        {"worker.yaml:3:10: include: FOLDER/empty.d: expected a regular file, not a directory"},
	} {
		path := write("worker.yaml", main(text))
		_, err := config.Load(path, variables)
		if err == nil {
			t.Errorf("no error in %s", text)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != len(want) {
			t.Errorf("%d errors, want %d: %v", len(lines), len(want), err)
			continue
		}
		for i, line := range lines {
			if prefix := filepath.Join(folder, "") + "/" + strings.ReplaceAll(want[i], "FOLDER", folder); !strings.HasPrefix(line, prefix) {
				t.Errorf("got  %s\nwant %s", line, prefix)
			}
		}
	}
}
