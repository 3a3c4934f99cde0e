package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
)

func newSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of the configuration file, for editors",
		Long: `Print the JSON schema of the configuration file. An editor that has it completes
keys and marks wrong ones. It knows less than worker validate does.`,
		Example: `  worker schema > worker.schema.json`,
		Args:    noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			out := json.NewEncoder(command.OutOrStdout())
			out.SetEscapeHTML(false)
			out.SetIndent("", "  ")
			return out.Encode(config.FileSchema())
		},
	}
}
