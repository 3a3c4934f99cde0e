package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/internal/stream"
)

func newMigrate() *cobra.Command {
	var t target
	var wait time.Duration
	command := &cobra.Command{
		Use:   "migrate",
		Short: "Create the tables or update them",
		Long: `Create the tables, or update them to what this version needs. It may be
repeated, and run while workers do: a step that a transaction or a backup holds up waits
for a second at a time, so that workers go on, names the session, and is given up after
--wait. It needs the privileges for that; workers do without. It prints each step that it makes, and the level of the tables, which is
the number of the newest step. Redis and ZooKeeper have no tables: there it says
so, and does nothing.`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			db, _, err := t.open(command)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			tables, ok := db.(withTables)
			if !ok {
				_, err := fmt.Fprintln(command.OutOrStdout(), "nothing to migrate: this database has no tables, and what a group needs appears when it is first used")
				return err
			}
			return migrate(command, tables, wait)
		},
	}
	t.addFlags(command, false)
	command.Flags().DurationVar(&wait, "wait", 5*time.Minute, "how long a step is tried while another session has the table; 0: until it is interrupted")
	return command
}

// heldEvery is how often migrate repeats that something is in the way.
const heldEvery = time.Minute

// migrate prints what is made, also when a later step fails, and what is in the way.
func migrate(command *cobra.Command, db withTables, wait time.Duration) error {
	if wait < 0 {
		return usagef(command, "--wait %v: must not be negative", wait)
	}
	var failed error
	var told time.Time
	level, err := db.MigrateSteps(command.Context(), wait, func(step string) {
		_, err := fmt.Fprintln(command.OutOrStdout(), step)
		failed = errors.Join(failed, err)
	}, func(err error) {
		if told.IsZero() || time.Since(told) >= heldEvery {
			told = time.Now()
			_, err := fmt.Fprintln(command.ErrOrStderr(), "waiting:", err)
			failed = errors.Join(failed, err)
		}
	})
	if err == nil {
		_, err = fmt.Fprintf(command.OutOrStdout(), "up to date, level %d\n", level)
	}
	return errors.Join(err, failed)
}

// migrateAtStart migrates before a worker takes part. It repeats what fails, as
// long as waiting can mend it.
func migrateAtStart(ctx context.Context, db withTables, log *zap.Logger) error {
	const task = "create or update the tables"
	trouble := keeper.NewTrouble(stream.New(log), "", "")
	wait := retry.Forever(250*time.Millisecond, 2*time.Second)
	for {
		_, err := db.MigrateSteps(ctx, 0, func(string) {}, func(err error) { trouble.Failed(task, err) })
		if err == nil {
			trouble.Worked(task)
			return nil
		}
		if ctx.Err() != nil || keeper.Ends(err) {
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
