package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// startDetached starts a worker without a terminal, as a service manager does.
func startDetached(t *testing.T, args ...string) *worker {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return startWorkerAs(t, cmd)
}

// rewrite replaces a part of a file.
func rewrite(t *testing.T, path, old, with string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %q:\n%s", path, old, text)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, with, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// reloadWith runs worker reload and returns its exit code and what it says.
func reloadWith(t *testing.T, path string) (int, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "reload", "--config", path)
	out, _ := cmd.CombinedOutput() // the exit code says it
	return cmd.ProcessState.ExitCode(), string(out)
}

func runOf(job, line string) func(map[string]any) bool {
	return func(l map[string]any) bool { return l["job"] == job && (line == "" || l["line"] == line) }
}

// SIGHUP and worker reload apply all of a changed configuration, or nothing of it.
func TestReload(t *testing.T) {
	t.Parallel()
	path := configure(t, `  - {name: stays, every: 1s, exec: [echo, old]}
  - {name: goes, every: 1s, exec: [echo, goes]}
include: jobs.d/*.yaml
`)
	folder := filepath.Join(filepath.Dir(path), "jobs.d")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	included := filepath.Join(folder, "more.yaml")
	if err := os.WriteFile(included, []byte("jobs:\n  - {name: more, every: 1s, exec: [echo, more]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := reloadWith(t, path); code != 1 || !strings.Contains(out, "no worker of this machine runs with "+path) {
		t.Errorf("exit code %d: %s", code, out)
	}
	first := startDetached(t, "run", "--config", path)
	first.await("a run of the first list", runOf("more", "more"))
	second := startDetached(t, "run", "--config", path)
	second.awaitMessage("started")

	// With faults, nothing changes.
	rewrite(t, path, "echo, old", "echo, new")
	rewrite(t, path, "ttl: 4s", "ttl: 3s")
	rewrite(t, path, "group: billing", "group: other\nlisten: 127.0.0.1:0")
	code, out := reloadWith(t, path)
	for _, want := range []string{"group: has changed", "lease: has changed", "listen: has changed", fmt.Sprint("worker ", first.cmd.Process.Pid), fmt.Sprint("worker ", second.cmd.Process.Pid)} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit code %d: %s\nwant %s", code, out, want)
		}
	}
	rewrite(t, path, "ttl: 3s", "ttl: 4s")
	rewrite(t, path, "group: other\nlisten: 127.0.0.1:0", "group: billing")
	rewrite(t, path, "name: goes, every: 1s", "name: goes, every: 1x, zone: Mars")
	rewrite(t, included, "name: more", "name: mo re")
	code, out = reloadWith(t, path)
	for _, want := range []string{"1x", "zone", `"mo re"`} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit code %d: %s\nwant %s", code, out, want)
		}
	}
	if err := first.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	refused := first.awaitMessage("the configuration is refused: the worker goes on with the one before")
	if text := asText(refused["error"]); !strings.Contains(text, "1x") || !strings.Contains(text, "mo re") {
		t.Error(text)
	}

	rewrite(t, path, "echo, new]", "echo, new], env: {TOKEN: {file: /no/token}}")
	rewrite(t, path, "name: goes, every: 1x, zone: Mars, exec: [echo, goes]", "name: goes, every: 1s, http: {url: {file: /no/url}, headers: {X-Token: {file: /no/token}}}")
	rewrite(t, included, "name: mo re", "name: more")
	code, out = reloadWith(t, path)
	for _, want := range []string{"variable TOKEN: ", "http.url: ", "http.headers: X-Token: ", path + ":5:"} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit code %d: %s\nwant %s", code, out, want)
		}
	}
	rewrite(t, path, ", env: {TOKEN: {file: /no/token}}", "")

	// Without, all of it does, on each worker.
	rewrite(t, path, "  - {name: goes, every: 1s, http: {url: {file: /no/url}, headers: {X-Token: {file: /no/token}}}}\n", "")
	rewrite(t, included, "name: more", "name: added")
	code, out = reloadWith(t, path)
	for _, w := range []*worker{first, second} {
		want := fmt.Sprintf("worker %d: added added; changed stays; removed goes, more\n", w.cmd.Process.Pid)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d: %s\nwant %s", code, out, want)
		}
	}
	first.await("a run of the changed job", runOf("stays", "new"))
	first.await("a run of the new job", runOf("added", "more"))
	if code, out := reloadWith(t, path); code != 0 || strings.Count(out, ": nothing has changed\n") != 2 {
		t.Errorf("exit code %d: %s", code, out)
	}
	if code := first.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	second.await("a run on the next leader", runOf("added", "more"))
	rewrite(t, path, "echo, new", "echo, newer")
	if err := second.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	second.await("a run after SIGHUP", runOf("stays", "newer"))
	if code := second.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A pipe in the place of a file is refused at once: the worker goes on, and ends.
func TestReloadOfAPipe(t *testing.T) {
	t.Parallel()
	path := configure(t, idle+"include: jobs.d/*.yaml\n")
	pipe := filepath.Join(filepath.Dir(path), "jobs.d", "pipe.yaml")
	if err := os.Mkdir(filepath.Dir(pipe), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(pipe), "more.yaml"), []byte("jobs:\n  - {name: more, manual: true, exec: [\"true\"]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := startDetached(t, "run", "--config", path)
	w.awaitMessage("started")
	if err := makeFifo(pipe); err != nil {
		t.Fatal(err)
	}
	const want = "expected a regular file, not a pipe"
	if err := w.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	refused := w.awaitMessage("the configuration is refused: the worker goes on with the one before")
	if text := asText(refused["error"]); !strings.Contains(text, want) {
		t.Error(text)
	}
	if code, out := reloadWith(t, path); code != 1 || !strings.Contains(out, want) {
		t.Errorf("exit code %d: %s", code, out)
	}
	if r := command(t, "validate", "--config", pipe); r.err == nil || !strings.Contains(r.err.Error(), want) {
		t.Errorf("validate: %+v", r)
	}
	if code := w.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if err := os.Remove(pipe); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(t.TempDir(), "args")
	if err := makeFifo(fifo); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"trigger", "backfill"} {
		args := []string{name, "idle", "--args-file", fifo, "--config", path}
		if name == "backfill" {
			args = append(args, "--from", "2001-01-01", "--to", "2001-01-02")
		}
		if r := command(t, args...); r.err == nil || !strings.Contains(r.err.Error(), want) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// A closed terminal stops a worker as SIGTERM does, however often it is told of.
func TestHangup(t *testing.T) {
	t.Parallel()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	path := configure(t, "  - name: long\n    every: 1s\n    exec: [sh, -c, 'trap \"echo told; sleep 0.2; exit 1\" TERM; echo ready; while :; do sleep 0.1; done']\n")
	cmd := exec.Command(os.Args[0], "run", "--config", path)
	cmd.Stdin, cmd.SysProcAttr = terminal, &syscall.SysProcAttr{Setsid: true, Setctty: true}
	w := startWorkerAs(t, cmd)
	w.await("ready", func(line map[string]any) bool { return line["line"] == "ready" })
	if err := w.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	w.await("told", func(line map[string]any) bool { return line["line"] == "told" })
	if err := w.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await(t, "end after SIGHUP", w.ended)
	_ = w.cmd.Wait() // the exit code says it
	if code := w.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if s := statusOf(t, path); s.State != "released" {
		t.Errorf("not released: %+v", s)
	}
}
