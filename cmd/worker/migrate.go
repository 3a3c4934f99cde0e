package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/internal/stream"
)

func newMigrate() *cobra.Command {
	var t target
	command := &cobra.Command{
		Use:   "migrate",
		Short: "Create the tables or update them",
		Long: `Create the tables, or update them to what this version needs. It may be
repeated, and run while workers do. It needs the privileges for that; workers do
without. It prints each step that it makes, and the level of the tables, which is
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
			return migrate(command.Context(), tables, command.OutOrStdout())
		},
	}
	t.addFlags(command, false)
	return command
}

// migrate prints what is made, also when a later step fails.
func migrate(ctx context.Context, db withTables, out io.Writer) error {
	var failed error
	level, err := db.MigrateSteps(ctx, func(step string) {
		_, err := fmt.Fprintln(out, step)
		failed = errors.Join(failed, err)
	})
	if err == nil {
		_, err = fmt.Fprintf(out, "up to date, level %d\n", level)
	}
	return errors.Join(err, failed)
}

// migrateAtStart migrates before a worker takes part. It repeats what fails, as
// long as waiting can mend it.
func migrateAtStart(ctx context.Context, db interface{ Migrate(context.Context) error }, log *zap.Logger) error {
	const task = "create or update the tables"
	trouble := keeper.NewTrouble(stream.New(log), "", "")
	wait := retry.Forever(250*time.Millisecond, 2*time.Second)
	for {
		err := db.Migrate(ctx)
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
