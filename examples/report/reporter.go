package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// parts is how many the report has.
const parts = 10

// part is one of a report that was written.
type part struct{ replica, number int }

// Reporter is one replica.
type Reporter struct {
	number  int
	dsn     string
	due     time.Time // the same for all replicas, like a tick of a cron expression
	written chan<- part
	store   *mysqlstore.Store
}

// Run contends for the group until ctx ends, and writes the report if it leads.
func (r *Reporter) Run(ctx context.Context) (err error) {
	if r.store, err = mysqlstore.Open(r.dsn); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.store.Close()) }()
	s, err := scheduler.New(r.store, "reports")
	if err != nil {
		return err
	}
	err = s.Add(jobs.Job{
		Name:     "yearly",
		Schedule: jobs.At(r.due),
		Timeout:  time.Hour,
		// The report can be continued, so the next leader does that.
		Recover: jobs.RecoverRerun,
		Do:      r.write,
	})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// write writes the parts that are not there yet. Each is stored in a fenced
// transaction, so a leader that was replaced, and does not know it yet, adds
// nothing to what its successor writes.
func (r *Reporter) write(ctx context.Context, run jobs.Run) error {
	var done int
	err := r.store.DB().QueryRowContext(ctx, `SELECT COUNT(*) FROM example_report WHERE tick = ?`, run.Tick.UnixMicro()).Scan(&done)
	if err != nil {
		return err
	}
	for number := done + 1; number <= parts; number++ {
		err := fence.Do(ctx, r.store.DB(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO example_report (tick, part, attempt, token) VALUES (?, ?, ?, ?)`,
				run.Tick.UnixMicro(), number, run.Attempt, run.Token)
			return err
		})
		if err != nil {
			return err
		}
		select {
		case r.written <- part{r.number, number}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
