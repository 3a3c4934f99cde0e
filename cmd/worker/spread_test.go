package main

import (
	"os"
	"strings"
	"testing"
)

// Two workers share the runs of a group that is spread, and the group is switched while it is at work.
func TestSpread(t *testing.T) {
	t.Parallel()
	plain := configure(t, `
  - {name: a, every: 1s, exec: ["true"]}
  - {name: b, every: 1s, exec: ["true"]}
`)
	text, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimSuffix(plain, ".yaml") + "-spread.yaml"
	if err := os.WriteFile(path, append(text, "\nspread: true\n"...), 0o600); err != nil {
		t.Fatal(err)
	}

	for _, args := range [][]string{{}, {"yes"}, {"on", "off"}} {
		if r := command(t, append([]string{"spread", "--config", path}, args...)...); exitCode(r.err) != 2 || !strings.Contains(r.err.Error(), "expected on or off") {
			t.Errorf("spread %q: %+v", args, r)
		}
	}

	workers := []*worker{startWorker(t, "run", "--config", path), startWorker(t, "run", "--config", path)}
	for i, w := range workers {
		w.await("a run on each worker", func(line map[string]any) bool { return line["msg"] == "run succeeded" })
		t.Log(i)
	}
	if r := command(t, "spread", "on", "--json", "--config", path); r.err != nil || r.stdout != `{"group":"billing","spread":true,"leads":true}`+"\n" {
		t.Errorf("a group that is spread already: %+v", r)
	}
	r := command(t, "spread", "off", "--wait", "1s", "--config", path)
	if exitCode(r.err) != 1 || !strings.Contains(r.err.Error(), "no worker of that mode has begun to lead within 1s") {
		t.Errorf("without a worker of that mode: %+v", r)
	}
	leader := startWorker(t, "run", "--config", plain)
	leader.awaitMessage("leading")
	leader.await("a run", about("a", "run succeeded"))
	if r := command(t, "spread", "on", "--config", path); r.err != nil || r.stdout != "billing: its runs are spread over its workers\n" {
		t.Errorf("back: %+v", r)
	}
	for _, record := range decode[[]runRecord](t, command(t, "runs", "--json", "--limit", "1000", "--config", path)) {
		if record.Attempt > 1 || record.State == "interrupted" || record.State == "cancelled" {
			t.Errorf("got %+v", record)
		}
	}
	for _, w := range append(workers, leader) {
		if code := w.stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}
