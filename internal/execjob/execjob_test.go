//go:build linux

package execjob_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/execjob"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
)

// limit is how long anything may take that is expected to happen.
const limit = 30 * time.Second

// workerCommand makes the test program run a job, as a worker that can be killed.
const workerCommand = "test-worker"

// trustedCommand is the same, in a term that is always trusted for so long.
const (
	trustedCommand = "test-trusted"
	trusted        = 2 * time.Second
	trustedGrace   = 500 * time.Millisecond
)

// always is a term that is always trusted for so long.
func always(context.Context) keeper.Trust { return keeper.Trust{Left: trusted} }

// canary is in the environment of every worker here, and must not be in a job's.
const canary = "canary-of-a-secret"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case execjob.GuardCommand:
			if err := execjob.Guard(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		case execjob.LimitCommand:
			fmt.Fprintln(os.Stderr, execjob.Limit(os.Args[2:]))
			os.Exit(1)
		case headlessCommand:
			beHeadless()
		case namespaceCommand:
			if err := takeNumber(os.Args[2]); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			os.Exit(0)
		case initCommand:
			if err := runInit(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		case workerCommand:
			fmt.Println(execjob.New(os.Args[2:], execjob.Options{Grace: time.Hour, Log: zap.NewNop()})(context.Background(), run))
			os.Exit(1)
		case trustedCommand:
			o := execjob.Options{Grace: trustedGrace, Trust: always, Log: zap.NewNop()}
			fmt.Println(execjob.New(os.Args[2:], o)(context.Background(), run))
			os.Exit(1)
		}
	}
	os.Setenv("CRONLEASE_TEST_DSN", canary)
	os.Setenv("DATABASE_URL", canary)
	goleak.VerifyTestMain(m)
}

var run = jobs.Run{
	Group: "billing", Job: "report", Owner: "worker/host/1/abc", Token: 1767225600000001, Attempt: 2, Missed: 335,
	LastAttempt: true, Previous: jobs.Previous{State: jobs.TimedOut, Error: "too\x00 slow"},
	Tick: time.Date(2027, 1, 1, 1, 0, 0, 0, time.FixedZone("CET", 3600)),
}

var errLost = errors.New("the lease is lost")

// fixture is a run of a shell script that has a pipe to the test as its file 9,
// and one for its processes among themselves as its file 8.
// Each process of the job holds it, so that the test sees its end exactly when
// none of them is left.
type fixture struct {
	t      *testing.T
	fifo   string
	cancel func()
	result chan error
	logs   *observer.ObservedLogs
	pipe   *os.File
	lines  *bufio.Reader
}

func shell(t *testing.T, script, fifo string) []string {
	t.Helper()
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"sh", "-c", `mkfifo "$1.go"; exec 8<>"$1.go" 9>"$1"; ` + script, "sh", fifo}
}

// listen opens the pipe, which waits for the job to do so too.
func listen(t *testing.T, fifo string) *os.File {
	t.Helper()
	pipe, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pipe.Close() })
	if err := pipe.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	return pipe
}

func start(t *testing.T, grace time.Duration, script string) *fixture {
	t.Helper()
	return startTrusted(t, grace, nil, script)
}

func startTrusted(t *testing.T, grace time.Duration, trust func(context.Context) keeper.Trust, script string) *fixture {
	t.Helper()
	fifo := filepath.Join(t.TempDir(), "fifo")
	core, logs := observer.New(zapcore.DebugLevel)
	do := execjob.New(shell(t, script, fifo), execjob.Options{Grace: grace, Trust: trust, Log: zap.New(core)})
	ctx, cancel := context.WithCancelCause(t.Context())
	f := &fixture{t: t, fifo: fifo, cancel: func() { cancel(errLost) }, result: make(chan error, 1), logs: logs}
	go func() { f.result <- do(ctx, run) }()
	f.pipe = listen(t, fifo)
	f.lines = bufio.NewReader(f.pipe)
	return f
}

// line returns the next line that the job sends.
func (f *fixture) line() string {
	f.t.Helper()
	line, err := f.lines.ReadString('\n')
	if err != nil {
		f.t.Fatalf("the job says no more: %v", err)
	}
	return strings.TrimSpace(line)
}

// write writes to the pipe that the job's processes have among themselves.
func (f *fixture) write(text string) error {
	pipe, err := os.OpenFile(f.fifo+".go", os.O_RDWR, 0) // which does not wait for a reader
	if err != nil {
		return err
	}
	_, err = io.WriteString(pipe, text)
	return errors.Join(err, pipe.Close())
}

// wait returns the run's error, and checks that nothing of the job is left when
// there is one.
func (f *fixture) wait() error {
	f.t.Helper()
	select {
	case err := <-f.result:
		f.dead()
		return err
	case <-time.After(limit):
		f.t.Fatal("the run does not return")
		return nil
	}
}

func (f *fixture) dead() {
	f.t.Helper()
	raw, err := f.pipe.SyscallConn()
	if err != nil {
		f.t.Fatal(err)
	}
	buffer := make([]byte, 1<<16)
	if err := raw.Read(func(fd uintptr) bool {
		for {
			n, err := syscall.Read(int(fd), buffer)
			if n <= 0 {
				if err != nil {
					f.t.Errorf("a process of the job is alive (%v)", err)
				}
				return true
			}
		}
	}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) output() string {
	var text strings.Builder
	for _, entry := range f.logs.FilterMessage("output").All() {
		fmt.Fprintln(&text, entry.ContextMap()["line"])
	}
	return text.String()
}

func wantCancelled(t *testing.T, err error, how string) {
	t.Helper()
	if !errors.Is(err, errLost) || !strings.Contains(err.Error(), how) {
		t.Errorf("got %v, want %s, because %v", err, how, errLost)
	}
}

func TestCancelKillsWhatIgnoresIt(t *testing.T) {
	t.Parallel()
	const grace = time.Second
	f := start(t, grace, `trap "" TERM; sleep 600 & echo ready >&9; wait`)
	f.line()
	began := time.Now()
	f.cancel()
	wantCancelled(t, f.wait(), "killed, because it had not stopped 950ms after SIGTERM")
	if took := time.Since(began); took < grace*9/10 || took > grace+limit/2 {
		t.Errorf("it took %v, with a grace of %v", took, grace)
	}
}

func TestCancelLetsStop(t *testing.T) {
	t.Parallel()
	f := start(t, limit, `trap "echo bye >&9; exit 0" TERM; sh -c 'echo ready >&9; exec sleep 600' & wait`)
	f.line()
	began := time.Now()
	f.cancel()
	if got := f.line(); got != "bye" {
		t.Errorf("got %q", got)
	}
	wantCancelled(t, f.wait(), "stopped (exit status 0)")
	if took := time.Since(began); took > limit/2 {
		t.Errorf("it took %v, all of its grace", took)
	}
}

func TestCancelReachesStopped(t *testing.T) {
	t.Parallel()
	f := start(t, limit, `echo ready >&9; kill -STOP $$`)
	f.line()
	f.cancel()
	wantCancelled(t, f.wait(), "stopped (ended by signal: terminated)")
}

func TestEveryMemberHasTheGrace(t *testing.T) {
	t.Parallel()
	// A shell that a signal reaches right before it reads goes on to read.
	f := start(t, limit, `sh -c 'trap "echo cleaned >&9; exit 0" TERM; echo ready >&9; while :; do sleep 0.1; done' & wait`)
	f.line()
	f.cancel() // the outer shell ends at once
	if got := f.line(); got != "cleaned" {
		t.Errorf("got %q", got)
	}
	wantCancelled(t, f.wait(), "stopped (ended by signal: terminated)")
}

func TestNothingEscapes(t *testing.T) {
	t.Parallel()
	const stay = `trap "" TERM HUP INT; echo ready >&9; echo ready >&8; while :; do sleep 600; done`
	for name, test := range map[string]struct {
		script string // starts processes that say that they are ready
		ready  int
	}{
		"new session": {`setsid sh -c '` + stay + `' &`, 1},
		"daemon":      {`(setsid sh -c '` + stay + `' &)`, 1},
		"generations": {`setsid sh -c 'setsid sh -c "setsid sleep 600 & setsid sleep 600 & echo ready >&9; echo ready >&8; wait" & wait' &`, 1},
		"many":        {`for i in 1 2 3 4 5 6 7 8; do (setsid sh -c '` + stay + `' &); done`, 8},
	} {
		t.Run(name+", cancelled", func(t *testing.T) {
			t.Parallel()
			f := start(t, 200*time.Millisecond, test.script+"\nsleep 600")
			for range test.ready {
				f.line()
			}
			f.cancel()
			wantCancelled(t, f.wait(), "killed")
		})
		t.Run(name+", by itself", func(t *testing.T) {
			t.Parallel()
			f := start(t, limit, test.script+strings.Repeat("\nread x <&8", test.ready)+"\nexit 3")
			var exit *execjob.ExitError
			if err := f.wait(); !errors.As(err, &exit) || exit.Code != 3 {
				t.Errorf("got %v, want exit status 3", err)
			}
		})
	}
}

func TestLeftBehindIsKilled(t *testing.T) {
	t.Parallel()
	f := start(t, limit, `trap "" TERM; sleep 600 & echo ready >&9; exit 0`)
	if err := f.wait(); err != nil {
		t.Errorf("got %v, want success", err)
	}
}

func TestWorkerKilled(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"group":       `trap "" TERM; sleep 600 & echo ready >&9; wait`,
		"new session": `setsid sh -c 'trap "" TERM; echo ready >&9; sleep 600' & wait`,
		"daemon":      `(setsid sh -c 'trap "" TERM; echo ready >&9; sleep 600' &); sleep 600`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fifo := filepath.Join(t.TempDir(), "fifo")
			worker := exec.Command(os.Args[0], append([]string{workerCommand}, shell(t, script, fifo)...)...)
			if err := worker.Start(); err != nil {
				t.Fatal(err)
			}
			pipe := listen(t, fifo)
			lines := bufio.NewReader(pipe)
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if err := worker.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = worker.Wait() // it was killed
			if rest, err := io.ReadAll(lines); err != nil {
				t.Errorf("the job survives its worker: %v, %q", err, rest)
			}
		})
	}
}

func TestGuardKilled(t *testing.T) {
	t.Parallel()
	f := start(t, limit, `trap "" TERM; sleep 600 & echo $PPID >&9; wait`)
	guard, err := strconv.Atoi(f.line())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case err = <-f.result:
	case <-time.After(limit):
		t.Fatal("the run does not return")
	}
	if err == nil || !strings.Contains(err.Error(), "the guard of the job was killed") {
		t.Errorf("got %v", err)
	}
	if _, err := io.ReadAll(f.lines); err != nil {
		t.Errorf("the job survives its guard: %v", err)
	}
}

// A guard can be killed before it has told the worker what it has started.
func TestGuardKilledAtOnce(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0) // waits for no writer
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	do := execjob.New([]string{"sh", "-c", `exec 9>"$0"; kill -KILL $PPID; sleep 600`, fifo}, execjob.Options{Grace: limit, Log: zap.NewNop()})
	for range 50 {
		if err := do(t.Context(), run); err == nil || !strings.Contains(err.Error(), "the guard of the job was killed") {
			t.Errorf("got %v", err)
		}
		if err := pipe.SetReadDeadline(time.Now().Add(limit)); err != nil {
			t.Fatal(err)
		}
		// Until no process of the job holds its end.
		if rest, err := io.ReadAll(pipe); err != nil {
			t.Fatalf("the job survives its guard: %v, %q", err, rest)
		}
	}
}

// A shell with job control gives each of its jobs a process group.
func TestGuardKilledBesideOtherGroups(t *testing.T) {
	t.Parallel()
	// Not every sh has job control without a terminal.
	f := start(t, limit, `exec bash -c 'set -m; trap "" TERM; sleep 600 & echo $PPID >&9; wait'`)
	guard, err := strconv.Atoi(f.line())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(f.lines); err != nil {
		t.Errorf("the job survives its guard: %v", err)
	}
	if err := f.wait(); err == nil || !strings.Contains(err.Error(), "what left its session may still run") {
		t.Errorf("got %v", err)
	}
}

// Without a worker that could kill it, the job still dies with its guard.
func TestGuardKilledBesideStoppedWorker(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	worker := exec.Command(os.Args[0], append([]string{workerCommand}, shell(t, `trap "" TERM; echo $PPID >&9; read x <&8`, fifo)...)...)
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = worker.Process.Kill()
		_ = worker.Wait() // it was killed
	}()
	lines := bufio.NewReader(listen(t, fifo))
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	guard, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(worker.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("not stopped: %v %v", status, err)
	}
	if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(lines); err != nil {
		t.Errorf("the job survives its guard: %v", err)
	}
}

func TestGuardHearsOnlyItsWorker(t *testing.T) {
	t.Parallel()
	f := start(t, limit, `for s in TERM INT HUP QUIT; do kill -$s $PPID; done; echo ready >&9`)
	f.line()
	if err := f.wait(); err != nil {
		t.Errorf("got %v, want success", err)
	}
}

// A paused worker can stop nothing: the guard does when the trust is over.
func TestPausedWorker(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"stops":       `trap "exit 0" TERM; echo ready >&9; while :; do read x <&8; done`,
		"ignores it":  `trap "" TERM; sleep 600 & echo ready >&9; wait`,
		"new session": `setsid sh -c 'trap "" TERM; echo ready >&9; sleep 600' & wait`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fifo := filepath.Join(t.TempDir(), "fifo")
			worker := exec.Command(os.Args[0], append([]string{trustedCommand}, shell(t, script, fifo)...)...)
			var said strings.Builder
			worker.Stdout = &said
			if err := worker.Start(); err != nil {
				t.Fatal(err)
			}
			pipe := listen(t, fifo)
			lines := bufio.NewReader(pipe)
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			paused := time.Now()
			if err := worker.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			var status syscall.WaitStatus
			if _, err := syscall.Wait4(worker.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
				t.Fatalf("not stopped: %v %v", status, err)
			}
			if rest, err := io.ReadAll(lines); err != nil {
				_ = worker.Process.Kill()
				t.Errorf("the job goes on beside its paused worker: %v, %q", err, rest)
			}
			if took, most := time.Since(paused), trusted+trustedGrace+limit/2; took > most {
				t.Errorf("it took %v, want %v at most", took, most)
			}
			if err := worker.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			_ = worker.Wait() // it always fails
			if !strings.Contains(said.String(), keeper.ErrCutShort.Error()) {
				t.Errorf("the worker said %q", &said)
			}
		})
	}
}

// fakeTerm is a term that a test renews.
type fakeTerm struct {
	mu      sync.Mutex // guards what follows
	end     time.Time
	spare   time.Duration
	renewed chan struct{}
}

func newTerm() *fakeTerm {
	return &fakeTerm{end: time.Now().Add(trusted), renewed: make(chan struct{})}
}

// trust is [execjob.Options].Trust.
func (f *fakeTerm) trust(context.Context) keeper.Trust {
	f.mu.Lock()
	defer f.mu.Unlock()
	return keeper.Trust{Left: max(0, time.Until(f.end)), Spare: f.spare, Renewed: f.renewed}
}

// renew renews the term, which may be left untold. spare is as in [keeper.Trust].
func (f *fakeTerm) renew(spare time.Duration, tell bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end, f.spare = time.Now().Add(limit), spare
	if tell {
		close(f.renewed)
		f.renewed = make(chan struct{})
	}
}

// before waits until so long before the trust deadline.
func (f *fakeTerm) before(d time.Duration) {
	f.mu.Lock()
	end := f.end
	f.mu.Unlock()
	<-time.After(time.Until(end) - d)
}

// A heartbeat that is answered in the last moment keeps the program running.
func TestVouched(t *testing.T) {
	t.Parallel()
	for _, last := range []time.Duration{20 * time.Millisecond, 60 * time.Millisecond, 100 * time.Millisecond, 140 * time.Millisecond, 180 * time.Millisecond} {
		t.Run(last.String(), func(t *testing.T) {
			t.Parallel()
			term := newTerm()
			// The guard listens for a fiftieth of the grace more, which is for busy machines.
			f := startTrusted(t, limit, term.trust, `echo ready >&9; read x <&8; exit 3`)
			f.line()
			term.before(last)
			term.renew(last, true)
			<-time.After(last + time.Second)
			if err := f.write("go\n"); err != nil {
				t.Fatal(err)
			}
			var exit *execjob.ExitError
			if err := f.wait(); !errors.As(err, &exit) || exit.Code != 3 {
				t.Errorf("got %v, want exit status 3", err)
			}
		})
	}
}

// A program that is stopped although its term goes on has not failed, and the error
// says what kept the news of the heartbeat.
func TestCutShort(t *testing.T) {
	t.Parallel()
	for why, spare := range map[string]time.Duration{
		"answered 3ms before: the database or the network hung":                       3 * time.Millisecond,
		"answered 1.2s before: this process was paused, or the machine is overloaded": 1200 * time.Millisecond,
	} {
		t.Run(spare.String(), func(t *testing.T) {
			t.Parallel()
			term := newTerm()
			f := startTrusted(t, time.Second, term.trust, `echo ready >&9; while :; do read x <&8; done`)
			f.line()
			term.renew(spare, false)
			if err := f.wait(); !errors.Is(err, keeper.ErrCutShort) || !strings.Contains(err.Error(), why) {
				t.Errorf("got %v, want %q", err, why)
			}
		})
	}
}

func TestTrustEnds(t *testing.T) {
	t.Parallel()
	term := newTerm()
	f := startTrusted(t, limit, term.trust, `trap "echo bye >&9; exit 0" TERM; while :; do read x <&8; done`)
	if got := f.line(); got != "bye" {
		t.Errorf("got %q", got)
	}
	if early := time.Until(term.end); early > 0 {
		t.Errorf("stopped %v before the trust ended", early)
	}
	f.cancel() // the context ends a moment later than the trust
	wantCancelled(t, f.wait(), "stopped (exit status 0)")
}

func TestTrustOverAtStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	o := execjob.Options{Grace: time.Second, Log: zap.NewNop(), Trust: func(context.Context) keeper.Trust { cancel(errLost); return keeper.Trust{} }}
	err := execjob.New([]string{"/no/such/program"}, o)(ctx, run)
	wantCancelled(t, err, "not started: ")
	// So short that it is over before the guard has begun.
	ctx, cancel = context.WithCancelCause(t.Context())
	left := time.Duration(1)
	o.Trust = func(context.Context) keeper.Trust {
		cancel(errLost)
		defer func() { left = 0 }()
		return keeper.Trust{Left: left}
	}
	err = execjob.New([]string{"sh", "-c", "exit 3"}, o)(ctx, run)
	wantCancelled(t, err, "not started: ")
}

func TestStoppedGuard(t *testing.T) {
	t.Parallel()
	f := start(t, limit, `kill -STOP $PPID; echo ready >&9; sleep 600`)
	f.line()
	f.cancel()
	wantCancelled(t, f.wait(), "stopped (ended by signal: terminated)")
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, jobs.ErrTimeout)
	defer cancel()
	err := execjob.New([]string{"sleep", "600"}, execjob.Options{Grace: time.Second, Log: zap.NewNop()})(ctx, run)
	if !errors.Is(err, jobs.ErrTimeout) {
		t.Errorf("got %v, want %v", err, jobs.ErrTimeout)
	}
}

func TestNotStarted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errLost)
	if err := execjob.New([]string{"sleep", "600"}, execjob.Options{Grace: time.Second, Log: zap.NewNop()})(ctx, run); !errors.Is(err, errLost) {
		t.Errorf("got %v, want %v", err, errLost)
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	runnable := filepath.Join(t.TempDir(), "runnable")
	if err := os.WriteFile(runnable, []byte("hello"), 0o700); err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{
		"/no/such/program": "no such file or directory",
		"no-such-program":  "executable file not found",
		plain:              "permission denied",
		runnable:           "exec format error",
		t.TempDir():        "is a directory",
	} {
		err := execjob.New([]string{program}, execjob.Options{Grace: time.Second, Log: zap.NewNop()})(t.Context(), run)
		if err == nil || !strings.Contains(err.Error(), "start "+program) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want start %s: %s", err, program, want)
		}
	}
}

func TestExit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ script, want string }{
		"status":         {`echo one; echo two >&2; exit 3`, "exit status 3; its last output:\n"},
		"nothing to say": {`exit 3`, "exit status 3"},
		"signal":         {`kill -9 $$`, "ended by signal: killed"},
		"no newline":     {`printf 'half a line'; exit 1`, "exit status 1; its last output:\nhalf a line"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, limit, test.script)
			var exit *execjob.ExitError
			err := f.wait()
			if !errors.As(err, &exit) || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	f := start(t, limit, `echo to stdout; echo to stderr >&2; printf 'with\r\nbad \377 byte\n\033[31m'; cat; ls /proc/self/fd | tr '\n' ' '`)
	if err := f.wait(); err != nil {
		t.Fatal(err)
	}
	all := f.output()
	for _, want := range []string{"to stdout\n", "to stderr\n", "with\n", "bad \uFFFD byte\n", "0 1 2 3 8 9 \n"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in %q", want, all)
		}
	}
	for _, entry := range f.logs.All() {
		fields := entry.ContextMap()
		want := "stdout"
		if fields["line"] == "to stderr" {
			want = "stderr"
		}
		if entry.Level != zapcore.InfoLevel || fields["stream"] != want || fields["group"] != "billing" || fields["job"] != "report" ||
			fields["owner"] != run.Owner || fields["token"] != run.Token || fields["attempt"] != int64(2) || fields["tick"] != run.Tick {
			t.Errorf("logged %v %v", entry.Level, fields)
		}
	}
}

func TestMuchOutput(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"one line":    `head -c 10000000 /dev/zero | tr '\0' x; echo; echo the end; exit 1`,
		"many lines":  `yes 'a line of the output' | head -c 10000000; echo the end; exit 1`,
		"empty lines": `yes '' | head -c 1000000; echo the end; exit 1`,
		"no newline":  `head -c 10000000 /dev/zero | tr '\0' x; exit 1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, limit, script)
			var exit *execjob.ExitError
			if err := f.wait(); !errors.As(err, &exit) {
				t.Fatalf("got %.100v, want exit status 1", err)
			}
			if len(exit.Output) > 4<<10 || !strings.HasSuffix(exit.Output, "the end") && name != "no newline" {
				t.Errorf("%d bytes of output in the error, which end with %q", len(exit.Output), exit.Output[max(0, len(exit.Output)-20):])
			}
			size, truncated, longest := 0, 0, 0
			for _, entry := range f.logs.All() {
				line, _ := entry.ContextMap()["line"].(string)
				size += len(line) + 100
				longest = max(longest, len(line))
				if entry.Level == zapcore.WarnLevel || entry.ContextMap()["truncated"] == true {
					truncated++
				}
			}
			if size > 2<<20 || truncated != 1 {
				t.Errorf("%d bytes logged, %d notes that something is missing", size, truncated)
			}
			if long := name == "one line" || name == "no newline"; longest > 8<<10 || long && longest != 8<<10 {
				t.Errorf("the longest line has %d bytes", longest)
			}
		})
	}
}

// A job that prints a lot in each run fills the log no faster than one that prints all of it in one run.
func TestMuchOutputOfManyRuns(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.InfoLevel)
	do := execjob.New([]string{"sh", "-c", `yes 'a line of the output' | head -c 100000`}, execjob.Options{Grace: limit, Log: zap.New(core)})
	const runs = 8 // a whole run takes about 1.1 MiB of the log
	for range runs {
		if err := do(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	size := 0
	for _, entry := range logs.FilterMessage("output").All() {
		line, _ := entry.ContextMap()["line"].(string)
		size += len(line) + 250
	}
	if notes := logs.FilterLevelExact(zapcore.WarnLevel).Len(); size > 2<<20 || notes < runs-2 || notes > runs {
		t.Errorf("%d bytes logged, %d of %d runs note that something is missing", size, notes, runs)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	f := start(t, limit, `env | sort; tr '\0' '\n' </proc/$PPID/environ; tr '\0' ' ' </proc/$PPID/cmdline; echo`)
	if err := f.wait(); err != nil {
		t.Fatal(err)
	}
	all := f.output()
	if strings.Contains(all, canary) {
		t.Errorf("a secret reaches the job or its guard:\n%s", all)
	}
	for _, want := range []string{
		"CRONLEASE_ATTEMPT=2", "CRONLEASE_LAST_ATTEMPT=true\n", "CRONLEASE_PREVIOUS_STATE=timed out\n", "CRONLEASE_PREVIOUS_ERROR=too slow\n", "CRONLEASE_GROUP=billing", "CRONLEASE_JOB=report", "CRONLEASE_OWNER=worker/host/1/abc",
		"CRONLEASE_TICK=2027-01-01T00:00:00Z", "CRONLEASE_TOKEN=1767225600000001", "CRONLEASE_MISSED=335\n", "CRONLEASE_TRIGGER=0\n", "PATH=" + os.Getenv("PATH"), "guard report",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	got := execjob.Environment([]string{
		"HOME=/h", "USER=u", "LOGNAME=u", "SHELL=/bin/sh", "LANG=C", "LANGUAGE=en", "LC_ALL=C", "LC_TIME=", "TZ=UTC", "TMPDIR=/t", "PATH=/bin",
		"PATHS=x", "CRONLEASE_TOKEN=1", "LD_PRELOAD=x", "AWS_SECRET_ACCESS_KEY=x", "lc_all=x", "=x", "",
	}, run)
	if len(got) != 11+14 {
		t.Errorf("%d variables: %q", len(got), got)
	}
	manual := run
	manual.Trigger, manual.Args = math.MaxUint64, json.RawMessage(`{"x":1}`)
	if got := execjob.Environment(nil, manual); !slices.Contains(got, "CRONLEASE_TRIGGER=18446744073709551615") || !slices.Contains(got, `CRONLEASE_ARGS={"x":1}`) {
		t.Errorf("of a manual run: %q", got)
	}
}

// The largest arguments reach a program.
func TestLargestArgs(t *testing.T) {
	t.Parallel()
	job := execjob.New([]string{"sh", "-c", `test ${#CRONLEASE_ARGS} -eq 65536`}, execjob.Options{Grace: time.Second, Trust: always, Log: zap.NewNop()})
	large := run
	large.Args = json.RawMessage(`"` + strings.Repeat("x", jobs.MaxArgs-2) + `"`)
	if err := job(t.Context(), large); err != nil {
		t.Error(err)
	}
}

// A pipe whose writer never comes does not keep a run from its end.
func TestVariableFromAPipe(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "token")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	job := execjob.New([]string{"true"}, execjob.Options{Grace: limit, Log: zap.NewNop(), Settings: execjob.Settings{Env: []execjob.Variable{{Name: "TOKEN", File: pipe}}}})
	done := make(chan error, 1)
	go func() { done <- job(t.Context(), run) }()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "variable TOKEN: "+pipe+": expected a regular file") {
			t.Errorf("got %v", err)
		}
	case <-time.After(limit):
		t.Error("the run waits for the pipe")
		// Let it go on, so that it leaves nothing behind.
		if err := os.WriteFile(pipe, nil, 0); err != nil {
			t.Error(err)
		}
		<-done
	}
}

// A value in a file is read at each run.
func TestVariables(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	core, logs := observer.New(zap.InfoLevel)
	job := execjob.New([]string{"sh", "-c", "echo \"$TOKEN,$MODE,$CRONLEASE_JOB,$PATH\""}, execjob.Options{
		Grace: limit, Log: zap.New(core),
		Settings: execjob.Settings{Env: []execjob.Variable{{Name: "TOKEN", File: file}, {Name: "MODE", Value: "a b"}, {Name: "PATH", Value: "/bin:/usr/bin"}}},
	})
	if err := job(t.Context(), run); err == nil || !strings.Contains(err.Error(), "not started: variable TOKEN: open "+file) {
		t.Errorf("without a file: %v", err)
	}
	for text, want := range map[string]string{"one\n": "one", "two": "two", "three\r\n": "three", "": ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := job(t.Context(), run); err != nil {
			t.Error(err)
		}
		lines := logs.TakeAll()
		if want += ",a b,report,/bin:/usr/bin"; len(lines) != 1 || lines[0].ContextMap()["line"] != want {
			t.Errorf("%q: %v, want %s", text, lines, want)
		}
	}
	for _, bad := range []string{canary + "\x00", strings.Repeat(canary, 64<<10)} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := job(t.Context(), run); err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), canary) {
			t.Errorf("got %v", err)
		}
	}
}
