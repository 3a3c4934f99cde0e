package kit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/subprocess"
	"github.com/cronlease/cronlease/lease"
)

// patience bounds each wait for an event.
const patience = time.Minute

// root is the repository's folder.
const root = "../.."

// built is the folder of the program that the tests run: built by the command of the Dockerfile.
var built string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if built, err = os.MkdirTemp("", "cronlease-kit-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(built)
	code := m.Run()
	if err := goleak.Find(goleak.IgnoreCurrent()); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// buildCommand is the command of the Dockerfile that builds the worker, with /out in the place of the folder.
func buildCommand(t testing.TB) string {
	t.Helper()
	line := regexp.MustCompile(`(?m)^RUN (.* go build .*)$`).FindStringSubmatch(read(t, "deploy/Dockerfile"))
	if line == nil {
		t.Fatal("the Dockerfile builds nothing")
	}
	return line[1]
}

var build sync.Once

// worker is the program.
func worker(t testing.TB) string {
	t.Helper()
	program := filepath.Join(built, "worker")
	build.Do(func() {
		// With the flags of scripts/test, so that only the program itself is compiled and linked once more.
		line := strings.ReplaceAll(buildCommand(t), "/out/worker", program)
		c := exec.Command("sh", "-c", line)
		c.Dir, c.Env = root, append(os.Environ(), "RELEASE=v0.0.7", "GOFLAGS=")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("build: %v\n%s", err, out)
		}
	})
	if _, err := os.Stat(program); err != nil {
		t.Fatal(err)
	}
	return program
}

// command runs a command of the worker that ends by itself.
func command(t testing.TB, env []string, args ...string) (string, error) {
	t.Helper()
	program := worker(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	return string(out), err
}

// replica is a running worker.
type replica struct {
	t     testing.TB
	cmd   *exec.Cmd
	addr  string
	log   *bytes.Buffer
	ended chan struct{}
}

// start starts a worker with the arguments, which listens on an address of its own.
func start(t testing.TB, env []string, args ...string) *replica {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	r := &replica{t: t, addr: addr, cmd: exec.Command(worker(t), append(args, "--listen", addr)...), log: &bytes.Buffer{}, ended: make(chan struct{})}
	r.cmd.Env = append(os.Environ(), env...)
	r.cmd.Stderr = r.log
	if err := subprocess.Go(r.cmd, func() {
		_ = r.cmd.Wait() // the state says it
		close(r.ended)
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // it may have ended
		<-r.ended
		if t.Failed() {
			t.Logf("log of the worker at %s:\n%s", addr, r.log)
		}
	})
	return r
}

// pid is the number of the process.
func (r *replica) pid() string { return strconv.Itoa(r.cmd.Process.Pid) }

// get asks the worker over HTTP.
func (r *replica) get(path string) (status int, body string) {
	r.t.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + r.addr + path)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Error(err)
	}
	return answer.StatusCode, string(text)
}

// stop sends SIGTERM, and fails the test unless the worker ends well within the time.
func (r *replica) stop(within time.Duration) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.t.Fatal(err)
	}
	select {
	case <-r.ended:
		if code := r.cmd.ProcessState.ExitCode(); code != 0 {
			r.t.Errorf("exit code %d", code)
		}
	case <-time.After(within):
		r.t.Errorf("it has not ended within %v", within)
	}
}

// eventually waits for what sends no event.
func eventually(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !happened(); <-time.After(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// graceful fails the test unless a grace period is longer than a worker with that configuration may take to stop.
func graceful(t testing.TB, period time.Duration, configuration string) {
	t.Helper()
	drain := regexp.MustCompile(`(?m)^drain: (\S+)`).FindStringSubmatch(configuration)
	if drain == nil {
		t.Fatal("no drain")
	}
	least, err := time.ParseDuration(drain[1])
	if err != nil {
		t.Fatal(err)
	}
	timing, err := lease.Timing{}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	// As docs/operating.md says.
	if least += 2 * timing.TTL; period < least {
		t.Errorf("grace period %v: the worker may take %v to stop", period, least)
	}
}
