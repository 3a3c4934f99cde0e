package workertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/subprocess"
)

// workerProgram is the worker, built once.
var workerProgram string

func buildWorker(folder string) (string, error) {
	program := filepath.Join(folder, "worker")
	// The caller may be in another module, which does not have what the worker needs.
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cronlease/cronlease").Output()
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-C", strings.TrimSpace(string(root)), "-o", program, "./cmd/worker")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	return program, build.Run()
}

// Program is the path of the worker that Main has built.
func Program() string { return workerProgram }

// Run runs a command of the worker that ends by itself, and returns what it printed.
func Run(t testing.TB, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, workerProgram, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("worker %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// Worker is a running worker process.
type Worker struct {
	cluster *Cluster
	cmd     *exec.Cmd
	killed  atomic.Bool
	ended   chan struct{}
	code    int // after ended
}

// Event is a line of a worker's log.
type Event struct {
	At time.Time

	worker *Worker

	TS    json.RawMessage `json:"ts"`
	Level string          `json:"level"`
	Msg   string          `json:"msg"`
	Owner string          `json:"owner"`
	Token uint64          `json:"token"`
	Job   string          `json:"job"`
	Cause string          `json:"cause"`
}

func startWorker(c *Cluster, config string) *Worker {
	c.t.Helper()
	w := &Worker{cluster: c, cmd: exec.Command(workerProgram, "run", "--config", config, "--log-level", "debug"), ended: make(chan struct{})}
	stderr, err := w.cmd.StderrPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := subprocess.Go(w.cmd, func() { w.live(stderr) }); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		w.Kill()
		<-w.ended
		if c.t.Failed() {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, e := range c.events {
				if e.worker == w {
					c.t.Logf("%d %s %s %s token=%d job=%s cause=%q", w.PID(), e.At.Format("05.000"), e.Level, e.Msg, e.Token, e.Job, e.Cause)
				}
			}
		}
	})
	return w
}

// live reads the log and waits for the end.
func (w *Worker) live(log io.Reader) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		e := Event{worker: w}
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			e.At = timestamp(e.TS)
			w.cluster.record(e)
		}
	}
	err := w.cmd.Wait()
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

// Token is the newest one that this worker led under.
func (w *Worker) Token() uint64 {
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

// WaitFor returns the worker's first line of that message that matches.
func (w *Worker) WaitFor(msg string, match func(Event) bool) Event {
	w.cluster.t.Helper()
	return w.cluster.wait(msg, func(e Event) bool { return e.worker == w && e.Msg == msg && match(e) })
}

func (w *Worker) signal(send func(*os.Process) error) {
	w.cluster.t.Helper()
	if err := send(w.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		w.cluster.t.Fatal(err)
	}
}

// Resume lets a paused worker go on.
func (w *Worker) Resume() {
	w.cluster.t.Helper()
	w.signal(subprocess.Resume)
}

// Kill kills the process.
func (w *Worker) Kill() {
	w.killed.Store(true)
	_ = w.cmd.Process.Kill()
}

// Terminate asks the process to end.
func (w *Worker) Terminate() {
	_ = subprocess.Terminate(w.cmd.Process) // it may have ended
}

// PID is the process's number.
func (w *Worker) PID() int { return w.cmd.Process.Pid }

func (w *Worker) hasEnded() bool {
	select {
	case <-w.ended:
		return true
	default:
		return w.killed.Load()
	}
}

// Wait waits for the process to end and returns its exit code.
func (w *Worker) Wait() int {
	w.cluster.t.Helper()
	select {
	case <-w.ended:
		return w.code
	case <-time.After(Patience):
		w.cluster.t.Fatalf("worker %d has not ended within %v", w.PID(), Patience)
		return -1
	}
}
