package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// draining starts a worker with a drain and a job that runs until the file is there,
// waits for its run, and returns the file's path too.
func draining(t *testing.T, drain string) (w *worker, path, finish string) {
	t.Helper()
	path = configure(t, "")
	finish = path + ".finish"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	with := string(text) + "  - {name: long, every: 1s, exec: [sh, -c, 'echo ready; until [ -e \"" + finish + "\" ]; do sleep 0.05; done']}\ndrain: " + drain + "\n"
	if err := os.WriteFile(path, []byte(with), 0o600); err != nil {
		t.Fatal(err)
	}
	w = startWorker(t, "run", "--config", path)
	w.await("the run", func(line map[string]any) bool { return asText(line["line"]) == "ready" })
	return w, path, finish
}

func (w *worker) terminate() {
	w.t.Helper()
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		w.t.Fatal(err)
	}
}

// SIGTERM lets the run finish: its outcome is in the ledger, and another worker leads.
// Meanwhile status finds no fault, and resign says what the leader waits for.
func TestDrain(t *testing.T) {
	t.Parallel()
	w, path, finish := draining(t, "10m")
	w.terminate()
	line := w.awaitMessage("leaving: nothing new is started, and what runs may finish")
	if first, _ := line["waits_for"].([]any); len(first) != 1 || line["runs"] != 1.0 {
		t.Errorf("logged %v", line)
	}
	r := command(t, "resign", "--config", path, "--timeout", "3s")
	if exitCode(r.err) != 1 || !strings.Contains(r.stderr, " waits for long, tick ") {
		t.Errorf("resign: %+v", r)
	}
	if r := command(t, "status", "--config", path); r.err != nil || !strings.Contains(r.stdout, "leaving ") {
		t.Errorf("status: %+v", r)
	}
	if err := os.WriteFile(finish, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.ended:
	case <-time.After(limit):
		t.Fatal("it does not end")
	}
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("ended by %v", err)
	}
	w.awaitMessage("left: every run has finished")
	if r := command(t, "runs", "--config", path); r.err != nil || !strings.Contains(r.stdout, "succeeded") || strings.Contains(r.stdout, "cancelled") {
		t.Errorf("runs: %+v", r)
	}
	if s := statusOf(t, path); s.State != "released" {
		t.Errorf("%+v", s)
	}
}

// The second signal ends the drain: the run is cancelled, and the lease is released.
func TestSecondSignalEndsTheDrain(t *testing.T) {
	t.Parallel()
	w, path, _ := draining(t, "10m")
	w.terminate()
	w.awaitMessage("leaving: nothing new is started, and what runs may finish")
	if code := w.stop(); code != 0 {
		t.Errorf("ended with %d", code)
	}
	w.awaitMessage("left: runs that have not finished are cancelled")
	if s := statusOf(t, path); s.State != "released" {
		t.Errorf("%+v", s)
	}
}

// When there is no drain to end, because the worker follows, the second signal ends
// the process; so does the third one while a job ignores its end.
func TestThirdSignal(t *testing.T) {
	t.Parallel()
	path := configure(t, "  - {name: stubborn, every: 1s, exec: [sh, -c, 'trap \"\" TERM; echo ready; while :; do sleep 1; done']}\ndrain: 10m\n")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	slow := strings.Replace(string(text), "{ttl: 4s}", "{ttl: 1h, grace: 20m}", 1)
	if err := os.WriteFile(path, []byte(slow), 0o600); err != nil {
		t.Fatal(err)
	}
	w := startWorker(t, "run", "--config", path)
	w.await("the run that ignores signals", func(line map[string]any) bool { return asText(line["line"]) == "ready" })
	w.terminate()
	w.awaitMessage("leaving: nothing new is started, and what runs may finish")
	w.terminate()
	w.awaitMessage("term over")
	w.stop()
	if status, ok := w.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("ended by %v", w.cmd.ProcessState)
	}
}
