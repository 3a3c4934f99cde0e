package kit

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The unit's command lines are those of the worker, and systemd takes the unit.
func TestSystemd(t *testing.T) {
	t.Parallel()
	unit := read(t, "deploy/systemd/cronlease-worker.service")
	setting := func(name string) string {
		t.Helper()
		found := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(unit)
		if found == nil {
			t.Fatalf("no %s", name)
		}
		return found[1]
	}
	stop, err := time.ParseDuration(setting("TimeoutStopSec") + "s")
	if err != nil {
		t.Fatal(err)
	}
	graceful(t, stop, read(t, "deploy/kubernetes/worker.yaml"))
	if mode := setting("KillMode"); mode != "mixed" {
		t.Errorf("KillMode=%s: jobs get a signal before their worker's drain is over", mode)
	}
	for _, name := range []string{"ExecStartPre", "ExecStart", "ExecReload"} {
		words := strings.Fields(setting(name))
		if out, err := command(t, nil, append(words[1:], "--help")...); err != nil || words[0] != "/usr/local/bin/worker" {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("there is no systemd-analyze: the unit was not verified")
		return
	}
	// The program has to be there.
	path := filepath.Join(t.TempDir(), "cronlease-worker.service")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(unit, "/usr/local/bin/worker", worker(t))), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
