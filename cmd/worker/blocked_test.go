//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fullPipe returns a pipe that takes not one byte more.
func fullPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Close() // a test may have closed them
		_ = w.Close()
	})
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var full error
	err = raw.Write(func(fd uintptr) bool {
		for _, part := range [][]byte{bytes.Repeat([]byte("\n"), 4096), []byte("\n")} {
			for full = nil; full == nil || errors.Is(full, syscall.EINTR); {
				_, full = syscall.Write(int(fd), part)
			}
		}
		return true
	})
	if err != nil || !errors.Is(full, syscall.EAGAIN) {
		t.Fatalf("fill a pipe: %v, %v", err, full)
	}
	return r, w
}

// calls is a server that tells of each request, for http jobs.
func calls(t *testing.T) (address string, called <-chan struct{}) {
	t.Helper()
	all := make(chan struct{}, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { all <- struct{}{} }))
	t.Cleanup(server.Close)
	return server.URL, all
}

// startProcess starts a worker whose log goes to stderr.
func startProcess(t *testing.T, stderr *os.File, args ...string) (cmd *exec.Cmd, ended <-chan struct{}) {
	t.Helper()
	cmd = exec.Command(os.Args[0], args...)
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = cmd.Wait() // the exit code says it
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // an error means that it has ended
		<-over
	})
	return cmd, over
}

func await(t *testing.T, what string, happened <-chan struct{}) {
	t.Helper()
	select {
	case <-happened:
	case <-time.After(limit):
		t.Fatalf("no %s", what)
	}
}

// stopCleanly terminates a worker, which has to end with 0 and to release its lease.
func stopCleanly(t *testing.T, cmd *exec.Cmd, ended <-chan struct{}, path string) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await(t, "end after SIGTERM", ended)
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if s := statusOf(t, path); s.State != "released" {
		t.Errorf("not released: %+v", s)
	}
}

// A log that nothing reads stops neither the jobs nor the end of the worker.
func TestBlockedLog(t *testing.T) {
	t.Parallel()
	address, called := calls(t)
	path := configure(t, fmt.Sprintf("  - {name: ping, every: 1s, http: {url: %q}}\n", address))
	_, w := fullPipe(t)
	cmd, ended := startProcess(t, w, "run", "--config", path)
	for range 3 {
		await(t, "run", called)
	}
	if s := statusOf(t, path); s.State != "held" {
		t.Errorf("while the log is blocked: %+v", s)
	}
	stopCleanly(t, cmd, ended, path)
}

// Once the log is read again, it says how many lines it lacks.
func TestBlockedLogIsReadAgain(t *testing.T) {
	t.Parallel()
	// Each job says by a pipe of their own that it has written all of its output. One alone does not fill the log.
	written := filepath.Join(t.TempDir(), "written")
	if err := makeFifo(written); err != nil {
		t.Fatal(err)
	}
	tells, err := os.OpenFile(written, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tells.Close()
	var list strings.Builder
	talkers := map[byte]bool{'1': true, '2': true, '3': true}
	for talker := range talkers {
		fmt.Fprintf(&list, "  - {name: talk-%c, every: 1s, exec: [sh, -c, 'yes 01234567890123456789 | head -n 8000; echo %c >%s']}\n", talker, talker, written)
	}
	path := configure(t, list.String())
	r, w := fullPipe(t)
	startProcess(t, w, "run", "--config", path)
	_ = w.Close() // the worker has it
	if err := tells.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	for said := make([]byte, 1); len(talkers) > 0; delete(talkers, said[0]) {
		if _, err := tells.Read(said); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewReader(r); ; {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatalf("no line that says how many were dropped: %v", err)
		}
		var entry struct {
			Level, Msg string
			Dropped    int
		}
		if len(text) > 1 && json.Unmarshal(text, &entry) != nil {
			t.Errorf("logged what is no JSON: %.200s", text)
		}
		if entry.Msg == lostLines {
			if entry.Dropped == 0 || entry.Level != "warn" {
				t.Errorf("logged %s", text)
			}
			return
		}
	}
}

// A worker survives when the reader of its log goes away.
func TestClosedLog(t *testing.T) {
	t.Parallel()
	address, called := calls(t)
	path := configure(t, fmt.Sprintf("  - {name: ping, every: 1s, http: {url: %q}}\n", address))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd, ended := startProcess(t, w, "run", "--config", path)
	if err := errors.Join(r.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		await(t, "run", called)
	}
	stopCleanly(t, cmd, ended, path)
}

// A failing worker ends even if its last log lines cannot be written.
func TestBlockedError(t *testing.T) {
	t.Parallel()
	_, w := fullPipe(t)
	cmd, ended := startProcess(t, w, "run", "--config", "/no/such.yaml")
	await(t, "end", ended)
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d", code)
	}
}

// Under nohup a worker goes on.
func TestNohup(t *testing.T) {
	t.Parallel()
	path := configure(t, "  - {name: tick, every: 1s, exec: [\"true\"]}\n")
	w := startWorkerAs(t, exec.Command("sh", "-c", `trap "" HUP; exec "$0" "$@"`, os.Args[0], "run", "--config", path))
	w.awaitMessage("run succeeded")
	if err := w.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	sent := time.Now()
	w.await("a run after SIGHUP", func(line map[string]any) bool {
		at, err := time.Parse(time.RFC3339Nano, asText(line["tick"]))
		return err == nil && line["msg"] == "run succeeded" && at.After(sent)
	})
	if code := w.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
