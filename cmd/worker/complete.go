package main

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/jobs"
)

// completeJob completes a job's name as the first argument.
func (t *target) completeJob(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return t.jobNames(command), cobra.ShellCompDirectiveNoFileComp
}

// jobNames are the jobs of the file or, with --database, those that a leader has
// had. There are none where they cannot be read in the time that a shell may wait.
func (t *target) jobNames(command *cobra.Command) []string {
	if t.database == "" {
		c, err := config.Load(t.config, os.LookupEnv)
		if err != nil {
			return nil
		}
		all := make([]string, len(c.Jobs))
		for i, job := range c.Jobs {
			all[i] = job.Name
		}
		slices.Sort(all)
		return all
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(command.Context()), 2*time.Second)
	defer cancel()
	db, group, err := t.open(command)
	if err != nil {
		return nil
	}
	defer func() { _ = db.Close() }() // a completion shows no errors
	snapshot, err := jobs.NewGroup(db, group).Load(ctx)
	if err != nil {
		return nil
	}
	return allJobs(snapshot, nil)
}
