// Command embed is a service that has scheduled jobs in it: it owns its
// database pool, declares each job beside the code that the job runs, and may
// be started as often as one likes.
//
//	go run . 'user:pass@tcp(127.0.0.1:3306)/app'
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/go-sql-driver/mysql"
	"go.uber.org/zap"

	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: embed DSN")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logger := zap.Must(zap.NewProduction())
	db, err := sql.Open("mysql", os.Args[1])
	if err == nil {
		defer db.Close()
		err = createTable(ctx, db)
	}
	if err == nil {
		err = run(ctx, db, logger)
	}
	if err != nil {
		logger.Fatal("embed", zap.Error(err))
	}
}

// createTable makes the table that the jobs write to. Its key would refuse a tick
// that ran twice.
func createTable(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS invoice_run (
		job VARCHAR(100), tick BIGINT, token BIGINT UNSIGNED, PRIMARY KEY (job, tick))`)
	return err
}

// run is the service: whatever else it does, and its jobs.
func run(ctx context.Context, db *sql.DB, logger *zap.Logger) error {
	store, err := mysqlstore.New(db)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		return err
	}
	s, err := scheduler.New(store, "billing", scheduler.WithLogger(logger))
	if err != nil {
		return err
	}
	invoices := &Invoices{db: db}
	if err := s.Add(invoices.Jobs()...); err != nil {
		return err
	}
	return s.Run(ctx) // until ctx ends: the runs have ended, the lease is released
}
