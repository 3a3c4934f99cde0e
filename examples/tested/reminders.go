// Package tested is a job with its tests, which need no server: see
// docs/testing.md.
package tested

import (
	"context"
	"database/sql"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/jobs"
)

// Reminders writes a reminder for each unpaid invoice, each night.
type Reminders struct{ DB *sql.DB }

// Job declares it.
func (r *Reminders) Job() jobs.Job {
	return jobs.Job{
		Name:     "reminders",
		Schedule: jobs.Cron("0 0 2 * * *").In("Europe/Berlin"),
		Do:       r.write,
	}
}

func (r *Reminders) write(ctx context.Context, run jobs.Run) error {
	return fence.Do(ctx, r.DB, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO reminder (invoice, tick, token) SELECT id, ?, ? FROM invoice WHERE NOT paid",
			run.Tick.UnixMicro(), run.Token)
		return err
	})
}
