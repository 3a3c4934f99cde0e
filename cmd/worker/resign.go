package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// handOver is how long worker resign waits for the next leader, once the asked
// one has stepped down. It takes moments while another worker runs.
const handOver = 3 * time.Second

func newResign() *cobra.Command {
	var t target
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "resign",
		Short: "Ask the leader to step down and wait until it has",
		Long: `Ask the leader to step down and wait until it has: its running jobs end, or are
cancelled after its drain, the lease is released, and another worker takes over.`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if timeout < 0 {
				return usagef(command, "--timeout %v: must not be negative", timeout)
			}
			db, group, err := t.open(command)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			drain := time.Duration(0)
			if t.file != nil {
				drain = t.file.Drain
			}
			return resign(command, db, group, timeout, drain)
		},
	}
	t.addFlags(command, true)
	command.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait (default: twice the TTL, and the file's drain)")
	return command
}

func resign(command *cobra.Command, db database, group string, timeout, drain time.Duration) error {
	out := command.OutOrStdout()
	asked, err := election.AskResign(acting(command), db, group)
	switch {
	case errors.Is(err, election.ErrNotLeading):
		_, err := fmt.Fprintf(out, "nobody leads %s: nothing to do\n", group)
		return err
	case err != nil && !errors.Is(err, store.ErrChanged): // changed: that term is over already
		return err
	}
	if timeout == 0 {
		timeout = 2*asked.TTL + drain
	}
	now, err := awaitEnd(command.Context(), db, asked, timeout, func() { tellUnfinished(command, db, asked) })
	if err != nil {
		return err
	}
	if now.Token == asked.Token {
		_, err = fmt.Fprintf(out, "%s stepped down (token %d); nobody has taken over yet\n", printable(asked.Owner), asked.Token)
	} else {
		_, err = fmt.Fprintf(out, "%s stepped down (token %d); %s leads %s now (token %d)\n", printable(asked.Owner), asked.Token, printable(now.Owner), group, now.Token)
	}
	return err
}

// tellUnfinished says which runs the leader has not ended.
func tellUnfinished(command *cobra.Command, db database, asked election.Leadership) {
	const most = 20
	runs, err := jobs.NewGroup(db, asked.Group).Runs(command.Context(), jobs.Filter{State: jobs.Running, Limit: most})
	if err != nil {
		return // resign goes on, and says what it cannot do
	}
	for _, r := range runs {
		if r.Token == asked.Token {
			fmt.Fprintf(command.ErrOrStderr(), "%s waits for %s, tick %s, attempt %d, started %s\n",
				printable(asked.Owner), printable(r.Job), r.Tick.Format(time.RFC3339Nano), r.Attempt, r.Started.Format(time.RFC3339))
		}
	}
}

// awaitEnd waits until the asked term is over, and then a moment for the next. When that
// takes longer than a second, it calls late.
func awaitEnd(ctx context.Context, leases store.Leases, asked election.Leadership, timeout time.Duration, late func()) (election.Leadership, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	soon := time.After(time.Second)
	var next <-chan time.Time // ends the wait for the next leader
	for {
		now, err := election.Leader(ctx, leases, asked.Group)
		switch {
		case err == nil && now.Token != asked.Token:
			return now, nil
		case err == nil && now.Released && next == nil:
			next = time.After(handOver)
		}
		select {
		case <-look.C:
		case <-soon:
			if next == nil {
				late()
			}
		case <-next:
			return asked, nil
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return asked, context.Cause(ctx)
			}
			if next != nil {
				return asked, nil
			}
			return asked, errors.Join(fmt.Errorf("%s has not stepped down after %v (token %d): its jobs may still be stopping, or it is not running any more; worker status tells",
				printable(asked.Owner), timeout, asked.Token), err)
		}
	}
}
