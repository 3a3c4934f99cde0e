package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
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
