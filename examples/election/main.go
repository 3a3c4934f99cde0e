// Command election keeps one leader among the processes that share a file, with
// no jobs and no scheduler. Start it twice with the same file, and stop the one
// that leads:
//
//	go run ./examples/election /tmp/leader.db
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: election FILE")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string, out io.Writer) error {
	store, err := sqlitestore.Open(file)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		return err
	}
	return election.Run(ctx, store, "indexer", func(ctx context.Context, term election.Term) error {
		fmt.Fprintf(out, "leading under token %d\n", term.Token())
		<-ctx.Done() // the work: until the term ends
		fmt.Fprintf(out, "stopped: %v\n", context.Cause(ctx))
		return nil
	})
}
