package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/cronlease/cronlease/lease"
)

func newMigrate() *cobra.Command {
	var t target
	command := &cobra.Command{
		Use:   "migrate",
		Short: "Create the tables or update them",
		Long: `Create the tables, or update them to what this version needs. It may be
repeated, and run while workers do. It needs the privileges for that; workers do
without.`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			db, _, err := t.open(command)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			if err := db.Migrate(command.Context()); err != nil {
				return err
			}
			_, err = fmt.Fprintln(command.OutOrStdout(), "the tables are up to date")
			return err
		},
	}
	t.addFlags(command, false)
	return command
}

// migrateAtStart migrates before a worker takes part. It repeats what fails, as
// long as waiting can mend it.
func migrateAtStart(ctx context.Context, db database, log *zap.Logger) error {
	const task = "create or update the tables"
	trouble := lease.NewTrouble(log)
	wait := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(250*time.Millisecond),
		backoff.WithMaxInterval(2*time.Second),
		backoff.WithMaxElapsedTime(0), // the default gives up after 15 minutes
	)
	for {
		err := db.Migrate(ctx)
		if err == nil {
			trouble.Worked(task)
			return nil
		}
		if ctx.Err() != nil || lease.Ends(err) {
			return err
		}
		trouble.Failed(task, err)
		select {
		case <-time.After(wait.NextBackOff()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
