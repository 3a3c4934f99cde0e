// Command worker runs the jobs of a configuration file on whichever of its
// replicas leads. See worker --help.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/cronlease/cronlease/internal/execjob"
)

func main() {
	if !isSupported {
		fmt.Fprintln(os.Stderr, "worker: this program needs Linux, macOS or another Unix system; the library runs here too, in a program of your own")
		os.Exit(1)
	}
	if len(os.Args) > 1 && os.Args[1] == execjob.LimitCommand {
		// Before any signal is caught: one that stops the job must end this process.
		fmt.Fprintf(os.Stderr, "worker: %v\n", execjob.Limit(os.Args[2:]))
		os.Exit(1)
	}
	hideSecrets()
	ctx, stop := signal.NotifyContext(stopOnHangup(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for a clean stop; a second one ends the process.
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		// The process ends also when nothing reads this.
		last := newSink(escaping{to: os.Stderr}, sinkSize, func(int) []byte { return nil })
		fmt.Fprintf(last, "worker: %s\n", printableText(err.Error()))
		last.Close(flushFor)
	}
	os.Exit(exitCode(err))
}

// hangups has SIGHUP, for worker run to read its configuration again; nil where it does
// not.
var hangups chan os.Signal

// reloadsOnHangup reports whether SIGHUP is for worker run to read its configuration
// again: it has no terminal, so that nothing else sends it.
func reloadsOnHangup() bool {
	if len(os.Args) < 2 || os.Args[1] != "run" {
		return false
	}
	terminal, err := os.Open("/dev/tty")
	if err == nil {
		_ = terminal.Close()
	}
	return err != nil
}

// stopOnHangup returns a context that ends with SIGHUP, which is sent when a
// terminal is closed. It may come twice then, from the kernel and from the shell,
// and so a second one does nothing. Where it is ignored, as under nohup, it
// stays so. A worker without a terminal reads its configuration again instead.
func stopOnHangup() context.Context {
	if signal.Ignored(syscall.SIGHUP) {
		return context.Background()
	}
	if reloadsOnHangup() {
		hangups = make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		return context.Background()
	}
	ctx, cancel := context.WithCancel(context.Background())
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	go func() {
		<-hangup
		cancel()
	}()
	return ctx
}

// exitCode is 0 for success, 2 for a wrong command line, 3 where status finds no
// leader, 4 where it finds that the leader leaves ticks that are due, 5 where doctor
// finds a problem, and 1 for all else.
func exitCode(err error) int {
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return 2
	case errors.Is(err, errNoLeader):
		return 3
	case errors.Is(err, errNotClaimed), errors.Is(err, errPausedItself):
		return 4
	case errors.Is(err, errUnwell):
		return 5
	default:
		return 1
	}
}
