//go:build linux

// Command soak runs worker processes with many jobs for an hour, or for the given time, and checks that nothing grows:
// goroutines, heap, descriptors, connections, rows. docs/soak.md says what runs and when a figure counts as flat.
//
//	make soak                  an hour, on a MariaDB and a MySQL of its own
//	make soak SOAKTIME=2m      a look at the tool
//
// It takes its servers from the environment, as the tests do: test/withdb starts them. The exit code is 1 when a
// figure is not flat, a tick is missing or doubled, or a worker is in trouble, and 130 when a signal ended it before its
// time and nothing of that was seen.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cronlease/cronlease/internal/dbserver"
)

const (
	exitGrows       = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// errGrows says that the report shows something that must not be.
var errGrows = errors.New("something is not as it has to be: see the report")

func main() {
	if os.Getenv(workerVariable) != "" {
		// They end with their standard input; a signal to the group is for the one that started them.
		signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		if err := work(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "soak: worker:", err)
			os.Exit(exitGrows)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends it as it is
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run does all of it and returns the exit code. What it measures goes to out.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.SetOutput(errs)
	total := flags.Duration("time", time.Hour, "how long to run")
	seed := flags.Uint64("seed", 0, "draws which attempts fail, and who wants which lock; 0: by chance")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage // flags has printed it
	case flags.NArg() > 0:
		fmt.Fprintf(errs, "soak: unexpected argument %q\n", flags.Arg(0))
		return exitUsage
	case *total < minTotal:
		fmt.Fprintf(errs, "soak: -time %v: must be at least %v\n", *total, minTotal)
		return exitUsage
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	dsns := given()
	if len(dsns) == 0 {
		fmt.Fprintf(errs, "soak: no database: run `make soak`, or set %s\n", dbserver.GivenVariable)
		return exitUsage
	}
	p := newPlan(*total)
	fmt.Fprintf(out, "soak: %v with %d workers and %d jobs on each server, seed %d\n", p.total, workers, jobCount, *seed)
	err := soakAll(ctx, dsns, p, *seed, out)
	switch {
	case err != nil:
		fmt.Fprintf(errs, "soak: %v\n", err)
		return exitGrows
	case ctx.Err() != nil:
		return exitInterrupted
	}
	return 0
}

// given returns the data source names of the servers in the environment.
func given() []string {
	if dsn := os.Getenv(dbserver.GivenVariable); dsn != "" {
		return []string{dsn}
	}
	var dsns []string
	for _, kind := range []string{dbserver.MariaDB, dbserver.MySQL} {
		if dsn := os.Getenv(dbserver.DSNVariableOf(kind)); dsn != "" {
			dsns = append(dsns, dsn)
		}
	}
	return dsns
}

// soakAll runs the plan on all servers at the same time, and then prints a report for each.
func soakAll(ctx context.Context, dsns []string, p plan, seed uint64, out io.Writer) error {
	// One that is in trouble ends the others: there is something to look at.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reports := make([]string, len(dsns))
	errs := make([]error, len(dsns))
	lines := &lockedWriter{out: out}
	var all sync.WaitGroup
	for i, dsn := range dsns {
		all.Go(func() {
			reports[i], errs[i] = soak(ctx, dsn, p, seed, lines)
			if errs[i] != nil && !errors.Is(errs[i], errGrows) {
				cancel()
			}
		})
	}
	all.Wait()
	for _, report := range reports {
		fmt.Fprint(out, report)
	}
	return errors.Join(errs...)
}

// lockedWriter keeps lines whole that several goroutines write.
type lockedWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}
