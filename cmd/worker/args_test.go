package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/jobs"
)

func TestTriggerWithArgs(t *testing.T) {
	t.Parallel()
	path := configure(t, `
  - {name: import, manual: true, exec: [sh, -c, 'test "$CRONLEASE_ARGS" = "{\"key\":\"canary\"}"']}
  - {name: plain, manual: true, exec: [sh, -c, 'test -z "$CRONLEASE_ARGS"']}
  - {name: tick, every: 1s, exec: ["true"]}
`)
	w := startWorker(t, "run", "--config", path, "--log-level", "debug")
	w.await("a tick", about("tick", "run succeeded"))
	file := filepath.Join(t.TempDir(), "args.json")
	if err := os.WriteFile(file, []byte("{\"key\": \"canary\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"import", "--args", `{"key":"canary"}`}, {"import", "--args-file", file}, {"plain"}} {
		if r := command(t, append([]string{"trigger", "--wait", "--config", path}, args...)...); r.err != nil || strings.Contains(r.stdout, "canary") {
			t.Errorf("%q: got %+v", args, r)
		}
	}
	for want, args := range map[string][]string{
		"--args: jobs: arguments: not JSON, at offset":  {"import", "--args", "canary"},
		"exclude each other":                            {"import", "--args", "1", "--args-file", file},
		"args.json: no such file":                       {"import", "--args-file", "/nowhere/args.json"},
		"jobs: arguments of 65537 bytes: at most 65536": {"import", "--args", `"` + strings.Repeat("x", jobs.MaxArgs-1) + `"`},
	} {
		r := command(t, append([]string{"trigger", "--config", path}, args...)...)
		if r.err == nil || !strings.Contains(r.err.Error(), want) || strings.Contains(r.err.Error(), "canary") {
			t.Errorf("got %v, want %s", r.err, want)
		}
	}
	r := command(t, "runs", "--job", "import", "--config", path)
	if r.err != nil || strings.Count(r.stdout, "(triggered, args)") != 2 || strings.Contains(r.stdout, "canary") {
		t.Errorf("got %+v", r)
	}
	r = command(t, "runs", "--job", "import", "--args", "--config", path)
	if r.err != nil || strings.Count(r.stdout, `{"key":"canary"}`) != 2 || !strings.Contains(r.stdout, "ARGS") {
		t.Errorf("got %+v", r)
	}
	for _, record := range decode[[]runRecord](t, command(t, "runs", "--json", "--args", "--config", path)) {
		if want := record.Job == "import"; record.HasArgs != want || (string(record.Args) == `{"key":"canary"}`) != want {
			t.Errorf("got %+v", record)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.Contains(w.text.String(), "canary") {
		t.Errorf("the log shows arguments:\n%s", &w.text)
	}
}
