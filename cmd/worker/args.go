package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cronlease/cronlease/internal/plainfile"
	"github.com/cronlease/cronlease/jobs"
)

// argsFlags are the flags for the arguments of a run.
type argsFlags struct{ text, file string }

func (a *argsFlags) add(command *cobra.Command) {
	command.Flags().StringVar(&a.text, "args", "", "arguments of the run, as JSON")
	command.Flags().StringVar(&a.file, "args-file", "", "file with the arguments of the run; - is the standard input, such as a pipe")
}

// read returns the arguments, or nil for none.
func (a *argsFlags) read(command *cobra.Command) (any, error) {
	text, file := command.Flags().Changed("args"), command.Flags().Changed("args-file")
	switch {
	case text && file:
		return nil, usagef(command, "--args and --args-file exclude each other")
	case text:
		if err := jobs.CheckArgs([]byte(a.text)); err != nil {
			return nil, usagef(command, "--args: %v", err)
		}
		return json.RawMessage(a.text), nil
	case !file:
		return nil, nil
	}
	data, err := readArgs(command, a.file)
	if err != nil {
		return nil, fmt.Errorf("--args-file: %w", err)
	}
	if err := jobs.CheckArgs(data); err != nil {
		return nil, fmt.Errorf("--args-file %s: %w", a.file, err)
	}
	return json.RawMessage(data), nil
}

func readArgs(command *cobra.Command, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(command.InOrStdin(), jobs.MaxArgs+1)) // one more is too long
	}
	return plainfile.Read(name, jobs.MaxArgs)
}
