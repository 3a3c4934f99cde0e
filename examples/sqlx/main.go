// Command sqlx is a job that writes with sqlx, in a transaction that is stored
// only while its replica leads.
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
	"time"

	"github.com/jmoiron/sqlx"
	"go.uber.org/zap"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sqlx DSN")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logger := zap.Must(zap.NewProduction())
	db, err := open(os.Args[1])
	if err == nil {
		defer db.Close()
		err = run(ctx, db, logger)
	}
	if err != nil {
		logger.Fatal("sqlx", zap.Error(err))
	}
}

func run(ctx context.Context, db *sqlx.DB, logger *zap.Logger) error {
	store, err := mysqlstore.New(db.DB)
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
	dunning := &Dunning{db: db}
	err = s.Add(
		jobs.Job{Name: "dunning", Schedule: jobs.Every(time.Second), Timeout: time.Minute, Do: dunning.Do},
		jobs.Job{Name: "dunning.forget", Schedule: jobs.Every(time.Hour), Timeout: time.Minute, Do: dunning.Forget},
	)
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// Invoice is a row of the table invoice.
type Invoice struct {
	ID       int64 `db:"id"`
	Amount   int64 `db:"amount"`
	Reminded bool  `db:"reminded"`
}

// Dunning reminds of invoices that are not paid.
type Dunning struct{ db *sqlx.DB }

// Do notes a reminder for each open invoice, all of them or none.
func (d *Dunning) Do(ctx context.Context, run jobs.Run) error {
	return fence.Do(ctx, d.db.DB, func(tx *sql.Tx) error {
		x := &sqlx.Tx{Tx: tx, Mapper: d.db.Mapper}
		var open []Invoice
		if err := x.SelectContext(ctx, &open, "SELECT id, amount, reminded FROM invoice WHERE NOT reminded"); err != nil {
			return err
		}
		for _, invoice := range open {
			if _, err := x.NamedExecContext(ctx, "UPDATE invoice SET reminded = TRUE WHERE id = :id", invoice); err != nil {
				return err
			}
			if _, err := x.ExecContext(ctx, "INSERT INTO reminder (invoice, token) VALUES (?, ?)", invoice.ID, run.Token); err != nil {
				return err
			}
		}
		return nil
	})
}
