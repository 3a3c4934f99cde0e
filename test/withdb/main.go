//go:build unix

// Command withdb runs a command with database servers for its tests:
//
//	go build -C test -o ../bin/withdb ./withdb && bin/withdb -- go test ./...
//
// It starts private servers: MariaDB, a newer MariaDB and MySQL. It tells the command where they are, and ends them with
// the command. The command finds in its environment:
//
//	CRONLEASE_TEST_MARIADB_DSN, CRONLEASE_TEST_MARIADB_NEW_DSN, CRONLEASE_TEST_MYSQL_DSN   data source names of root, without a database
//	CRONLEASE_MARIADBD, CRONLEASE_MARIADBD_NEW, CRONLEASE_MYSQLD                           the server programs, to start more servers
//	TMPDIR                                                                                 a folder that is removed at the end
//
// With CRONLEASE_TEST_DSN set it starts no server; the command uses that one alone.
//
// The exit code is the command's. SIGINT, SIGTERM and SIGHUP are passed on to it. It runs in a process group of its own,
// without standard input; what is left of the group at the end is killed. All of it, the servers and the folders end
// also when withdb is killed. On Linux withdb ends when its parent does, unless told -keep.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// grace is how long the command may take to end after a signal.
const grace = 20 * time.Second

// exitTrouble is the exit code when withdb itself fails.
const exitTrouble = 125

func main() {
	var code int
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == guardArgument:
		err = guard(os.Stdin, os.Stdout)
	case len(os.Args) > 2 && os.Args[1] == gateArgument:
		err = gate(os.Args[2:])
	default:
		signals := make(chan os.Signal, 8)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		code, err = run(os.Args[1:], signals, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "withdb:", err)
		code = max(code, exitTrouble)
	}
	os.Exit(code)
}

// run does all of it and returns the exit code.
func run(args []string, signals <-chan os.Signal, out io.Writer) (code int, err error) {
	flags := flag.NewFlagSet("withdb", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprintln(out, "usage: withdb [-keep] -- COMMAND ARGUMENTS...")
		flags.PrintDefaults()
	}
	keep := flags.Bool("keep", false, "do not end when the parent process does")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0, nil
	case err != nil:
		return exitTrouble, nil // flags has printed it
	case flags.NArg() == 0:
		flags.Usage()
		return exitTrouble, nil
	}
	if !*keep {
		endWithParent()
	}
	watch, err := startGuard()
	if err != nil {
		return exitTrouble, err
	}
	defer func() { err = errors.Join(err, watch.close()) }()

	env, closeServers, err := databases(signals, watch.folder, out)
	if err != nil {
		var end signalError
		if errors.As(err, &end) {
			return end.code(), err
		}
		return exitTrouble, err
	}
	defer func() { err = errors.Join(err, closeServers()) }()
	return command(flags.Args(), env, signals, watch)
}

// databases returns what the command's environment gets. A signal ends it early, with a signalError.
func databases(signals <-chan os.Signal, folder string, out io.Writer) (env []string, closeAll func() error, err error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	finished := make(chan struct{})
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case s := <-signals:
			cancel(signalError{s})
		case <-finished:
		}
	}()
	// The servers make their folders in here too.
	if err = os.Setenv("TMPDIR", folder); err == nil {
		env, closeAll, err = provide(ctx, out)
	}
	close(finished)
	<-watching
	if end := context.Cause(ctx); end != nil {
		if err == nil {
			err = closeAll()
		}
		return nil, nil, errors.Join(end, err)
	}
	return env, closeAll, err
}

// signalError says that a signal ended the work.
type signalError struct{ signal os.Signal }

func (e signalError) Error() string { return "ended by signal: " + e.signal.String() }

// code is the exit code that shells use for that.
func (e signalError) code() int {
	if s, ok := e.signal.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return exitTrouble
}

// command runs the command to its end and returns its exit code.
func command(args, env []string, signals <-chan os.Signal, watch *watcher) (int, error) {
	cmd, err := startGated(args, env, watch)
	if err != nil {
		return exitTrouble, err
	}
	group := cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var late <-chan time.Time
	for {
		select {
		case s := <-signals:
			if s, ok := s.(syscall.Signal); ok {
				_ = syscall.Kill(-group, s) // fails only if the group has just ended
			}
			if late == nil {
				late = time.After(grace)
			}
		case <-late:
			_ = syscall.Kill(-group, syscall.SIGKILL) // fails only if the group has just ended
		case err := <-ended:
			_ = syscall.Kill(-group, syscall.SIGKILL) // what the command left; mostly nothing
			return exitCode(cmd, err), watch.setGroup(0)
		}
	}
}

func exitCode(cmd *exec.Cmd, err error) int {
	if err == nil {
		return 0
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return cmd.ProcessState.ExitCode()
}
