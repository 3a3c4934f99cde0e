//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
)

// patience is how long a test waits for what should come soon.
const patience = 2 * time.Minute

// asProgram makes the test program behave as the program itself.
const asProgram = "CRONLEASE_WITHDB_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// withdb is a started program. It, its guard and its command hold the other end of out: that ends with the last of them.
type withdb struct {
	cmd *exec.Cmd
	out io.Reader
	tmp string
}

// self is this program, to be run with environment. It finds the system's MariaDB alone, which is the quickest one to
// start; if the system itself has MySQL, it finds both.
func self(t *testing.T) (program string, environment []string, tmp string) {
	t.Helper()
	empty := t.TempDir()
	return all(t, dbserver.VariableOf(dbserver.MySQL)+"=", "CRONLEASE_MYSQL_DIR="+empty,
		dbserver.VariableOf(dbserver.NewMariaDB)+"=", "CRONLEASE_MARIADB_NEW_DIR="+empty)
}

// all is this program, to be run with environment, which finds all servers. It does not see the variables that give
// servers to the tests of the project: they are not meant here.
func all(t *testing.T, more ...string) (program string, environment []string, tmp string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "CRONLEASE_TEST_") {
			environment = append(environment, variable)
		}
	}
	tmp = t.TempDir()
	environment = append(environment, asProgram+"=1", "TMPDIR="+tmp)
	return program, append(environment, more...), tmp
}

func startWithdb(t *testing.T, name string, environment []string, tmp string, args ...string) *withdb {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = environment
	cmd.Stdout, cmd.Stderr = writer, writer
	err = cmd.Start()
	writer.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close() })
	if err := reader.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &withdb{cmd: cmd, out: reader, tmp: tmp}
}

func startSelf(t *testing.T, args ...string) *withdb {
	t.Helper()
	program, environment, tmp := self(t)
	return startWithdb(t, program, environment, tmp, args...)
}

// end waits for the end of the program, its guard and its command, and checks that nothing is left.
func (w *withdb) end(t *testing.T) (code int, out string) {
	t.Helper()
	all, err := io.ReadAll(w.out)
	if err != nil {
		t.Fatalf("wait for the end: %v; so far:\n%s", err, all)
	}
	err = w.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	left, err := os.ReadDir(w.tmp)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		t.Errorf("left in the temporary folder: %s", entry.Name())
	}
	return w.cmd.ProcessState.ExitCode(), string(all)
}

// tell is a command that prints where the servers are, then "ready", and goes on.
const tell = `echo "$CRONLEASE_TEST_MARIADB_DSN"; echo "$CRONLEASE_TEST_MARIADB_NEW_DSN"; echo "$CRONLEASE_TEST_MYSQL_DSN"; echo ready; `

// ready reads up to "ready" and returns the servers' addresses.
func (w *withdb) ready(t *testing.T) (addrs []string) {
	t.Helper()
	var text []byte
	for !bytes.HasSuffix(text, []byte("\nready\n")) {
		buffer := make([]byte, 1)
		if _, err := w.out.Read(buffer); err != nil {
			t.Fatalf("%v after\n%s", err, text)
		}
		text = append(text, buffer...)
	}
	for line := range strings.Lines(string(text)) {
		if _, rest, found := strings.Cut(strings.TrimSpace(line), "root@tcp("); found {
			addrs = append(addrs, strings.TrimSuffix(rest, ")/"))
		}
	}
	if len(addrs) == 0 {
		t.Fatalf("no server in\n%s", text)
	}
	return addrs
}

// gone waits until the servers have ended.
func gone(t *testing.T, addrs []string) {
	t.Helper()
	for _, addr := range addrs {
		dbtest.Refused(t, addr)
	}
}

func TestCommandGetsServersAndEverythingEndsWithIt(t *testing.T) {
	t.Parallel()
	program, environment, tmp := all(t)
	w := startWithdb(t, program, environment, tmp, "--",
		"sh", "-c", tell+`mktemp >/dev/null; test -x "$CRONLEASE_MARIADBD" && exit 7`)
	addrs := w.ready(t)
	want := 0
	for _, kind := range dbserver.Kinds() {
		if _, err := dbserver.Find(t.Context(), kind); err == nil {
			want++
		}
	}
	if len(addrs) != want {
		t.Errorf("%d servers, want %d", len(addrs), want)
	}
	if code, out := w.end(t); code != 7 {
		t.Errorf("exit code %d, want the command's 7\n%s", code, out)
	}
	gone(t, addrs)
}

func TestMissingMySQLIsToldLoudly(t *testing.T) {
	t.Parallel()
	w := startSelf(t, "--", "true")
	code, out := w.end(t)
	if code != 0 || !strings.Contains(out, "NO MYSQL") && !strings.Contains(out, "mysql on ") {
		t.Errorf("exit code %d, want 0 and a word on MySQL\n%s", code, out)
	}
}

func TestWhatTheCommandLeavesIsKilled(t *testing.T) {
	t.Parallel()
	// The child that is left holds the output open: without the kill, end would wait for it.
	w := startSelf(t, "--", "sh", "-c", tell+`sleep 1000 & exit 0`)
	addrs := w.ready(t)
	if code, out := w.end(t); code != 0 {
		t.Errorf("exit code %d, want 0\n%s", code, out)
	}
	gone(t, addrs)
}

func TestSignalsReachTheCommand(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			w := startSelf(t, "--", "sh", "-c", fmt.Sprintf(`trap 'exit 9' %d; `, signal)+tell+`sleep 1000 & wait`)
			addrs := w.ready(t)
			if err := w.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if code, out := w.end(t); code != 9 {
				t.Errorf("exit code %d, want 9 of the command's trap\n%s", code, out)
			}
			gone(t, addrs)
		})
	}
}

func TestExitCodeOfACommandThatASignalEnds(t *testing.T) {
	t.Parallel()
	w := startSelf(t, "--", "sh", "-c", tell+`exec sleep 1000`)
	addrs := w.ready(t)
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, out := w.end(t); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d, want 143\n%s", code, out)
	}
	gone(t, addrs)
}

func TestSignalWhileServersStart(t *testing.T) {
	t.Parallel()
	w := startSelf(t, "--", "echo", "started")
	// It comes at some point of the start: before the program catches signals, or while the servers are on their way.
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, out := w.end(t); code == 0 || strings.Contains(out, "started") {
		t.Errorf("exit code %d after a signal at the start\n%s", code, out)
	}
}

func TestEverythingEndsWhenItIsKilled(t *testing.T) {
	t.Parallel()
	w := startSelf(t, "--", "sh", "-c", tell+`sleep 1000`)
	addrs := w.ready(t)
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	w.end(t)
	gone(t, addrs)
}

func TestCommandThatDoesNotExist(t *testing.T) {
	t.Parallel()
	if code, out := startSelf(t, "--", "/no/such/command").end(t); code != exitTrouble {
		t.Errorf("exit code %d, want %d\n%s", code, exitTrouble, out)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--"}, {"-no-such-flag"}} {
		if code, out := startSelf(t, args...).end(t); code != exitTrouble || !strings.Contains(out, "usage:") {
			t.Errorf("%q: exit code %d\n%s", args, code, out)
		}
	}
}

func TestGivenServerIsTheOnlyOne(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, database dbtest.Database) {
		program, environment, tmp := self(t)
		environment = append(environment, dbserver.GivenVariable+"="+database.DSN)
		w := startWithdb(t, program, environment, tmp, "--",
			"sh", "-c", `echo "[$CRONLEASE_TEST_DSN$CRONLEASE_TEST_MARIADB_DSN$CRONLEASE_TEST_MYSQL_DSN]"`)
		code, out := w.end(t)
		if code != 0 || !strings.Contains(out, "["+database.DSN+"]") || strings.Contains(out, "started") {
			t.Errorf("exit code %d, want 0 and the given server alone\n%s", code, out)
		}
	})
}

func TestGivenServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	program, environment, tmp := self(t)
	environment = append(environment, dbserver.GivenVariable+"=root@tcp(127.0.0.1:1)/")
	w := startWithdb(t, program, environment, tmp, "--", "echo", "started")
	if code, out := w.end(t); code != exitTrouble || strings.Contains(out, "started") {
		t.Errorf("exit code %d, want %d and no command\n%s", code, exitTrouble, out)
	}
}
