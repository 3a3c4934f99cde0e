package main

import (
	"github.com/spf13/cobra"

	"github.com/cronlease/cronlease/jobs"
)

// forgotten is what worker forget prints. Its JSON form is relied on.
type forgotten struct {
	Group string `json:"group"`
	Job   string `json:"job"`
}

func newForget() *cobra.Command {
	var c control
	return c.command(&cobra.Command{
		Use:   "forget JOB",
		Short: "Delete a job that no worker has, with its history",
		Long: `Delete a job that was removed, with its history, its pauses and its runs that
wait. It is refused while a worker has the job, or does a run of it; a worker that
has died counts for 10 minutes here. If the job ever comes back, it is new.`,
		Example: `  worker forget nightly-report`,
		Args:    oneJob,
	}, func(command *cobra.Command, _ database, group jobs.Group, args []string) error {
		if err := group.Forget(command.Context(), args[0]); err != nil {
			return err
		}
		return c.tell(command, forgotten{c.group, args[0]}, "%s: forgotten", printable(args[0]))
	})
}
