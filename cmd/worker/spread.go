package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/jobs"
)

// spreading is what spread prints. Its JSON form is relied on.
type spreading struct {
	Group  string `json:"group"`
	Spread bool   `json:"spread"`
	// Leads: a worker of that mode leads.
	Leads bool `json:"leads"`
}

func newSpread() *cobra.Command {
	var c control
	var wait time.Duration
	command := &cobra.Command{
		Use:   "spread on|off",
		Short: "Spread the runs of the group over its workers, or not",
		Long: `Switch the group while it is at work: with on, its runs are spread over the
workers that have spread: true in their configuration; with off, the leader
runs all jobs. No run is cancelled, lost or doubled by that. Workers of the
other mode do not lead from then on, and say so in their health: start workers
of the new mode before, and stop the others after it.

The present leader waits until the runs of the group have ended. The command
waits for a worker of the new mode that leads.`,
		Example: `  worker spread on`,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] != "on" && args[0] != "off" {
				return usagef(command, "expected on or off")
			}
			return nil
		},
	}
	c.command(command, func(command *cobra.Command, _ database, group jobs.Group, args []string) error {
		result := spreading{Group: c.group, Spread: args[0] == "on"}
		before, err := group.Load(command.Context())
		if err != nil {
			return err
		}
		if err := group.SetSpread(command.Context(), result.Spread); err != nil {
			return err
		}
		// The last term is of that mode, too, if another switch is taken back that has not happened yet.
		if was := before.Opened; was.Token != 0 && was.Assigns() == result.Spread {
			result.Leads = true
		} else if result.Leads, err = opened(command.Context(), group, before.Opened.Token, result.Spread, wait); err != nil {
			return err
		}
		how := "the leader runs all jobs"
		if result.Spread {
			how = "its runs are spread over its workers"
		}
		if !result.Leads {
			return errors.Join(c.tell(command, result, "%s is switched: %s, once a worker of that mode leads", c.group, how),
				fmt.Errorf("no worker of that mode has begun to lead within %v: is one there, and are the runs of before over? See worker status", wait))
		}
		return c.tell(command, result, "%s: %s", c.group, how)
	})
	command.Flags().DurationVar(&wait, "wait", time.Minute, "how long to wait for a worker of the new mode that leads")
	command.ValidArgs, command.ValidArgsFunction = []string{"on", "off"}, nil
	return command
}

// opened waits until a later term has opened the ledger in that mode.
func opened(ctx context.Context, group jobs.Group, before uint64, spread bool, wait time.Duration) (bool, error) {
	for until := time.Now().Add(wait); ; {
		now, err := group.Load(ctx)
		switch {
		case err != nil && time.Now().After(until):
			return false, fmt.Errorf("the switch is made, and whether a worker of that mode leads cannot be read: %w", err)
		case err != nil: // the database may be away for a moment
		case now.Opened.Spread != spread:
			return false, errors.New("the group has been switched back meanwhile: see worker audit")
		case now.Opened.Token > before:
			return true, nil
		}
		if time.Now().After(until) {
			return false, nil
		}
		if err := retry.Sleep(ctx, 100*time.Millisecond); err != nil {
			return false, err
		}
	}
}
