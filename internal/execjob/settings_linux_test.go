package execjob_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/execjob"
)

// output runs a program with these settings and returns what it prints.
func output(t *testing.T, s execjob.Settings, args ...string) (string, error) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	err := execjob.New(args, execjob.Options{Grace: limit, Log: zap.New(core), Settings: s})(t.Context(), run)
	var lines []string
	for _, entry := range logs.All() {
		lines = append(lines, fmt.Sprint(entry.ContextMap()["line"]))
	}
	return strings.Join(lines, "\n"), err
}

func TestFolderAndUmask(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	program := filepath.Join(folder, "report")
	if err := os.WriteFile(program, []byte("#!/bin/sh\npwd; umask\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	mask := 0o027
	got, err := output(t, execjob.Settings{Dir: folder, Umask: &mask}, "./report")
	if want := folder + "\n0027"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	none := filepath.Join(folder, "none")
	for dir, want := range map[string]string{none: "start sh: dir: stat " + none + ": no such file", program: "start sh: dir: " + program + " is no folder"} {
		if _, err := output(t, execjob.Settings{Dir: dir}, "sh"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	const all = "ulimit -v; ulimit -f; ulimit -n; ulimit -t; ulimit -Ht; echo $CRONLEASE_JOB"
	limits := execjob.Limits{Memory: 64 << 20, FileSize: 1 << 20, OpenFiles: 33, CPU: 1500 * time.Millisecond}
	got, err := output(t, execjob.Settings{Limits: limits}, "sh", "-c", all)
	if want := "65536\n2048\n33\n2\n3\nreport"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	var exit *execjob.ExitError
	_, err = output(t, execjob.Settings{Limits: execjob.Limits{CPU: time.Second}}, "sh", "-c", "while :; do :; done")
	if !errors.As(err, &exit) || exit.Signal != syscall.SIGXCPU.String() {
		t.Errorf("got %v, want the signal of a CPU limit", err)
	}
	// The program's own arguments stay what they are.
	got, err = output(t, execjob.Settings{Limits: execjob.Limits{OpenFiles: 50}}, "sh", "-c", `echo "$0" "$@"; ulimit -n 60`, "--help", "-x", "")
	if !errors.As(err, &exit) || !strings.Contains(got+"\n", "--help -x \n") { // before or after the error
		t.Errorf("got %q, %v", got, err)
	}
}

// A program under limits is stopped as any other one.
func TestStopUnderLimits(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, time.Second} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), after, errLost)
		begun := time.Now()
		err := execjob.New([]string{"sleep", "1000"}, execjob.Options{
			Grace: limit, Log: zap.NewNop(), Settings: execjob.Settings{Limits: execjob.Limits{OpenFiles: 50}},
		})(ctx, run)
		cancel()
		if !errors.Is(err, errLost) || time.Since(begun) > limit/2 {
			t.Errorf("after %v: got %v in %v", after, err, time.Since(begun))
		}
	}
}

func TestUser(t *testing.T) {
	t.Parallel()
	if err := execjob.CheckUser("nobody"); err != nil {
		_, started := output(t, execjob.Settings{User: "nobody"}, "true")
		if started == nil || !strings.Contains(started.Error(), "CAP_SETUID, CAP_SETGID and CAP_KILL") {
			t.Errorf("without privileges: %v", started)
		}
		t.Skip("as root this test shows more:", err)
	}
	const who = `id -u; id -g; id -G; echo "$HOME $USER $LOGNAME $SHELL" >/dev/stderr`
	for user, want := range map[string]string{
		"nobody":    "65534\n65534\n65534\n/nonexistent nobody nobody ",
		"65534:7":   "65534\n7\n7\n/nonexistent nobody nobody ",
		"4711:4712": "4711\n4712\n4712\n/ 4711 4711 ",
	} {
		for _, limits := range []execjob.Limits{{}, {OpenFiles: 40, Memory: 256 << 20}} {
			got, err := output(t, execjob.Settings{User: user, Limits: limits}, "sh", "-c", who)
			// The two outputs are read one beside the other.
			if sorted(got) != sorted(want) || err != nil {
				t.Errorf("%s, %+v: got %q, %v, want %q", user, limits, got, err, want)
			}
		}
	}
	for user, want := range map[string]string{
		"no-such-user":         "start sh: user no-such-user: user: unknown user no-such-user",
		"nobody:no-such-group": "user nobody:no-such-group: group: unknown group no-such-group",
		"4711":                 "user 4711: user: unknown userid 4711: expected a group behind it, as in 4711:100",
	} {
		if _, err := output(t, execjob.Settings{User: user}, "sh"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", user, err, want)
		}
		if err := execjob.CheckUser(user); err == nil || !strings.HasSuffix(want, err.Error()) { // as a worker finds at its start
			t.Errorf("%s: checked as %v, want %s", user, err, want)
		}
	}
	folder := t.TempDir() // which only this user can enter
	if err := os.Chmod(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := output(t, execjob.Settings{User: "nobody", Dir: folder}, "sh")
	if want := "as user nobody in dir " + folder + ": permission denied"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func sorted(lines string) string {
	all := strings.Split(lines, "\n")
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// What runs as another user, and its children, are stopped and killed too.
func TestStopOfAnotherUser(t *testing.T) {
	t.Parallel()
	if err := execjob.CheckUser("nobody"); err != nil {
		t.Skip(err)
	}
	// The other user has to get there, which TMPDIR may not allow.
	folder, err := os.MkdirTemp("/tmp", "cronlease-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	fifo := filepath.Join(folder, "fifo")
	script := `trap "" TERM; (setsid sh -c "trap '' TERM; echo begun >&9; sleep 1000") & sleep 1000; sleep 1000`
	args := shell(t, script, fifo)
	for _, path := range []string{fifo, folder} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	result := make(chan error, 1)
	go func() {
		result <- execjob.New(args, execjob.Options{Grace: 200 * time.Millisecond, Log: zap.NewNop(), Settings: execjob.Settings{User: "nobody"}})(ctx, run)
	}()
	f := &fixture{t: t, pipe: listen(t, fifo), result: result}
	f.lines = bufio.NewReader(f.pipe)
	f.line()
	cancel(errLost)
	if err := f.wait(); !errors.Is(err, errLost) || !strings.Contains(err.Error(), "killed, because") {
		t.Errorf("got %v", err)
	}
}
