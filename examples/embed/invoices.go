package main

import (
	"context"
	"database/sql"
	"time"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/jobs"
)

// Invoices is the part of the service that writes invoices.
type Invoices struct{ db *sql.DB }

// Jobs declares when its methods run, beside them, as @Scheduled would.
func (i *Invoices) Jobs() []jobs.Job {
	return []jobs.Job{
		{
			Name:     "invoices.monthly",
			Schedule: jobs.Cron("0 0 2 1 * *").In("Europe/Berlin"),
			Timeout:  time.Hour,
			Do:       i.monthly,
		},
		{
			Name:     "invoices.heartbeat",
			Schedule: jobs.Every(time.Second),
			Timeout:  10 * time.Second,
			Do:       i.heartbeat,
		},
	}
}

// monthly writes last month's invoices.
func (i *Invoices) monthly(ctx context.Context, run jobs.Run) error {
	return i.record(ctx, run)
}

// heartbeat shows that the service's jobs are alive.
func (i *Invoices) heartbeat(ctx context.Context, run jobs.Run) error {
	return i.record(ctx, run)
}

// record notes a run under its tick and its term's token, unless another replica
// leads by then.
func (i *Invoices) record(ctx context.Context, run jobs.Run) error {
	return fence.Do(ctx, i.db, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO invoice_run (job, tick, token) VALUES (?, ?, ?)",
			run.Job, run.Tick.UnixMicro(), run.Token)
		return err
	})
}
