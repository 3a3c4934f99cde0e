// Command start is the program of the README: one job, on a file. Start it in two
// terminals, in one folder, and stop the one that runs the job.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	store, err := sqlitestore.Open("jobs.db")
	check(err)
	defer store.Close()
	check(store.Migrate(ctx))
	s, err := scheduler.New(store, "demo")
	check(err)
	check(s.Add(jobs.Job{Name: "hello", Schedule: jobs.Every(time.Second), Do: hello}))
	check(s.Run(ctx)) // until Ctrl-C: its runs have ended, and the lease is released
}

func hello(ctx context.Context, run jobs.Run) error {
	fmt.Println("tick", run.Tick.Format(time.TimeOnly), "token", run.Token)
	return nil
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
