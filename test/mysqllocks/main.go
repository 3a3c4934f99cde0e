// Command mysqllocks shows how six common ways to lock in MySQL and MariaDB fail, by
// trying each on a real server: processes are killed and stopped, connections cut,
// clocks put back. docs/mysql-locks.md explains what it prints.
//
//	go run -C test ./mysqllocks -dsn 'root:secret@tcp(127.0.0.1:3306)/'
//
// It works in schemas of its own, which it creates and drops. It ends with 0 if
// every failure was seen again, else with 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"text/tabwriter"

	"github.com/go-sql-driver/mysql"
)

// atATime is how many trials run at the same time; they mostly wait.
const atATime = 6

const usage = `mysqllocks: -dsn is missing: name a server on which schemas can be created, e.g.
	go run -C test ./mysqllocks -dsn 'root:secret@tcp(127.0.0.1:3306)/'`

func main() {
	if os.Getenv(processVariable) != "" {
		os.Exit(status(obey(os.Stdin, os.Stdout)))
	}
	dsn := flag.String("dsn", "", "the server: user:password@tcp(host:port)/; the user may create schemas")
	flag.Parse()
	if *dsn == "" {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(status(run(ctx, *dsn, os.Stdout)))
}

// status prints an error, and is what the program then ends with.
func status(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// run tries everything and prints it. The error names what was not as expected.
func run(ctx context.Context, dsn string, out io.Writer) error {
	server, err := parse(dsn)
	if err != nil {
		return err
	}
	// A server that cannot be reached, or denies all privileges, is one error.
	first, err := newTrial(ctx, server, kinds[0])
	if err := errors.Join(err, first.end(ctx)); err != nil {
		return fmt.Errorf("mysqllocks: %w", err)
	}
	results := try(ctx, server, plan())
	if err := ctx.Err(); err != nil {
		return err
	}
	return errors.Join(table(out, results), verdict(out, results))
}

// parse reads a DSN. The driver's own log is off: connections are broken on
// purpose.
func parse(dsn string) (*mysql.Config, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("mysqllocks: -dsn: %w", err)
	}
	config.Logger = &mysql.NopLogger{}
	return config, nil
}

// try carries out the plan, several trials at a time.
func try(ctx context.Context, server *mysql.Config, plan []result) []result {
	var all sync.WaitGroup
	free := make(chan struct{}, atATime)
	for i := range plan {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			plan[i].outcome, plan[i].err = plan[i].try(ctx, server)
		})
	}
	all.Wait()
	return plan
}

// table prints what happened.
func table(out io.Writer, results []result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WAY\tSCENARIO\tTRIED\tHAPPENED")
	for _, r := range results {
		happened := r.happened
		if r.err != nil {
			happened = "could not be tried: " + r.err.Error()
		}
		mark := "ok:"
		if r.broken {
			mark = "FAILS:"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s %s\n", r.way, r.scenario.name, r.scenario.tried, mark, happened)
	}
	return w.Flush()
}

// verdict compares with what was expected.
func verdict(out io.Writer, results []result) error {
	var expected, seen int
	var errs []error
	for _, r := range results {
		if r.expected {
			expected++
		}
		if r.expected && r.ok() {
			seen++
		}
		switch {
		case r.err != nil:
			errs = append(errs, fmt.Errorf("%s, %s: %w", r.way, r.scenario.name, r.err))
		case !r.ok() && r.expected:
			errs = append(errs, fmt.Errorf("%s, %s: was expected to fail", r.way, r.scenario.name))
		case !r.ok():
			errs = append(errs, fmt.Errorf("%s, %s: was expected not to fail", r.way, r.scenario.name))
		}
	}
	fmt.Fprintf(out, "\n%d of %d failures seen again\n", seen, expected)
	return errors.Join(errs...)
}
