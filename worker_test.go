package cronlease_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbserver"
)

// workerProgram is the worker, built once.
var workerProgram string

func buildWorker(folder string) (string, error) {
	program := filepath.Join(folder, "worker")
	build := exec.Command("go", "build", "-o", program, "./cmd/worker")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	return program, build.Run()
}

// runWorker runs a command of the worker that ends by itself.
func runWorker(t testing.TB, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, workerProgram, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("worker %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// worker is a running worker process.
type worker struct {
	cluster *cluster
	cmd     *exec.Cmd
	killed  atomic.Bool
	ended   chan struct{}
	code    int // after ended
}

// event is a line of a worker's log.
type event struct {
	worker *worker
	at     time.Time

	TS    json.RawMessage `json:"ts"`
	Level string          `json:"level"`
	Msg   string          `json:"msg"`
	Owner string          `json:"owner"`
	Token uint64          `json:"token"`
	Job   string          `json:"job"`
	Cause string          `json:"cause"`
}

func startWorker(c *cluster, config string) *worker {
	c.t.Helper()
	w := &worker{cluster: c, cmd: exec.Command(workerProgram, "run", "--config", config, "--log-level", "debug"), ended: make(chan struct{})}
	dbserver.EndWithParent(w.cmd)
	stderr, err := w.cmd.StderrPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	started := make(chan error)
	go w.live(stderrLines(stderr), started)
	if err := <-started; err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		w.kill()
		<-w.ended
		if c.t.Failed() {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, e := range c.events {
				if e.worker == w {
					c.t.Logf("%d %s %s %s token=%d job=%s cause=%q", w.cmd.Process.Pid, e.at.Format("05.000"), e.Level, e.Msg, e.Token, e.Job, e.Cause)
				}
			}
		}
	})
	return w
}

func stderrLines(r interface{ Read([]byte) (int, error) }) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	return s
}

// live starts the process, reads its log and waits for its end. The process
// dies with the thread that started it, so the thread is kept.
func (w *worker) live(lines *bufio.Scanner, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := w.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	for lines.Scan() {
		e := event{worker: w}
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			e.at = timestamp(e.TS)
			w.cluster.record(e)
		}
	}
	err = w.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		w.code = exit.ExitCode()
	}
	close(w.ended)
}

// timestamp reads zap's time, in seconds since 1970 or as RFC 3339.
func timestamp(raw json.RawMessage) time.Time {
	if s, err := strconv.ParseFloat(string(raw), 64); err == nil {
		return time.UnixMicro(int64(s * 1e6))
	}
	var text string
	_ = json.Unmarshal(raw, &text)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.000Z0700"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	return time.Now()
}

// token is the newest one that this worker led under.
func (w *worker) token() uint64 {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	var token uint64
	for _, e := range w.cluster.events {
		if e.worker == w && e.Msg == "leading" {
			token = max(token, e.Token)
		}
	}
	return token
}

func (w *worker) waitFor(msg string, match func(event) bool) event {
	w.cluster.t.Helper()
	return w.cluster.wait(msg, func(e event) bool { return e.worker == w && e.Msg == msg && match(e) })
}

func (w *worker) signal(s syscall.Signal) {
	w.cluster.t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		w.cluster.t.Fatal(err)
	}
}

func (w *worker) kill() {
	w.killed.Store(true)
	_ = w.cmd.Process.Kill()
}

func (w *worker) terminate() {
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
}

func (w *worker) hasEnded() bool {
	select {
	case <-w.ended:
		return true
	default:
		return w.killed.Load()
	}
}

// wait waits for the process to end and returns its exit code.
func (w *worker) wait() int {
	w.cluster.t.Helper()
	select {
	case <-w.ended:
		return w.code
	case <-time.After(patience):
		w.cluster.t.Fatalf("worker %d has not ended within %v", w.cmd.Process.Pid, patience)
		return -1
	}
}
