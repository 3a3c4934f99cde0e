package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/internal/jsontime"
	"github.com/cronlease/cronlease/jobs"
)

// backfilled is what backfill prints. Its JSON form is relied on.
type backfilled struct {
	Group  string `json:"group"`
	Job    string `json:"job"`
	ID     uint64 `json:"id"`
	DryRun bool   `json:"dry_run"`
	Count  int    `json:"count"`
	First  *stamp `json:"first"`
	Last   *stamp `json:"last"`
	// Ticks are listed with --dry-run only.
	Ticks []stamp `json:"ticks,omitempty"`
}

func newBackfill() *cobra.Command {
	var (
		c        control
		args     argsFlags
		from, to string
		every    string
		dry      bool
		b        jobs.Backfill
	)
	command := &cobra.Command{
		Use:   "backfill JOB",
		Short: "Run a job for each of its ticks in a past span",
		Long: `Run a job once for each tick of its schedule from --from on and before --to, in
their order and one at a time: each starts when the one before has ended, and with
--every not before so long after its start. The ticks of the schedule go on
meanwhile. There may be at most 10,000 ticks.

The leader goes on with it after a takeover, waits while the job is paused, and goes
on after a run that fails. worker cancel JOB --backfill ends it. A request that may
have failed can be repeated with --id, for 10 minutes: what is there is not run twice.`,
		Example: `  worker backfill nightly-report --from 2027-01-01T00:00:00Z --to 2027-02-01T00:00:00Z --dry-run
  worker backfill import --from 7d --every 10s --args '{"mode": "repair"}'`,
		Args: oneJob,
	}
	c.command(command, func(command *cobra.Command, _ database, group jobs.Group, names []string) (err error) {
		ctx, name := command.Context(), names[0]
		if b.Args, err = args.read(command); err != nil {
			return err
		}
		if b.From, err = pastInstant(command, "from", from); err != nil {
			return err
		}
		if _, err := time.Parse(time.RFC3339, from); b.ID != 0 && err != nil {
			return usagef(command, "--id %d: --from must be the instant of the request that is repeated", b.ID)
		}
		if command.Flags().Changed("to") {
			if b.To, err = pastInstant(command, "to", to); err != nil {
				return err
			}
		}
		if command.Flags().Changed("every") {
			if b.Every, err = config.ParseDuration(every); err != nil || b.Every <= 0 {
				return usagef(command, "--every %q: expected a duration such as 10s", every)
			}
		}
		if err := c.checkDeclared(ctx, group, name); err != nil {
			return err
		}
		do := group.Backfill
		if dry {
			do = group.PlanBackfill
		}
		done, err := do(ctx, name, b)
		if err != nil {
			if done.ID != 0 {
				return fmt.Errorf("%w\nit may have been asked for: repeat it with --id %d --from %s", err, done.ID, b.From.Format(time.RFC3339Nano))
			}
			return err
		}
		return c.tellBackfill(command, name, done, dry)
	})
	flags := command.Flags()
	flags.StringVar(&from, "from", "", "beginning of the span, an instant (RFC 3339) or so long ago, such as 7d")
	flags.StringVar(&to, "to", "", "end of the span, which does not belong to it (default: now)")
	flags.StringVar(&every, "every", "", "least time from one start to the next, such as 10s")
	flags.BoolVar(&dry, "dry-run", false, "only list the ticks")
	flags.Uint64Var(&b.ID, "id", 0, "repeat the request with this ID")
	args.add(command)
	return command
}

// pastInstant reads a flag that is an instant, or how long ago it was.
func pastInstant(command *cobra.Command, flag, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if ago, agoErr := config.ParseDuration(text); err != nil && agoErr == nil && ago >= 0 {
		at, err = time.Now().Add(-ago), nil
	}
	if err != nil {
		return at, usagef(command, "--%s %q: expected an instant such as 2027-01-01T00:00:00Z, or a duration such as 24h or 7d", flag, text)
	}
	return at.UTC(), nil
}

func (c *control) tellBackfill(command *cobra.Command, name string, done jobs.Backfilled, dry bool) error {
	b := backfilled{Group: c.group, Job: name, ID: done.ID, DryRun: dry, Count: len(done.Ticks)}
	if n := len(done.Ticks); n > 0 {
		b.First, b.Last = jsontime.Of(done.Ticks[0]), jsontime.Of(done.Ticks[n-1])
	}
	if dry {
		b.ID = 0
		for _, tick := range done.Ticks {
			b.Ticks = append(b.Ticks, stamp{Time: tick})
		}
	}
	switch {
	case b.Count == 0:
		return c.tell(command, b, "%s: no ticks in that span", name)
	case dry:
		var err error
		if !c.asJSON {
			for _, tick := range done.Ticks {
				_, failed := fmt.Fprintln(command.OutOrStdout(), tick.Format(time.RFC3339Nano))
				err = errors.Join(err, failed)
			}
		}
		return errors.Join(err, c.tell(command, b, "%s: %d ticks", name, b.Count))
	}
	return c.tell(command, b, "%s: %d ticks are run, from %s to %s, as backfill %d", name, b.Count, shown(b.First), shown(b.Last), b.ID)
}

// cancelBackfills is worker cancel --backfill.
func (c *control) cancelBackfills(command *cobra.Command, group jobs.Group, name string) error {
	n, err := group.CancelBackfills(command.Context(), name)
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("%w: %s has no backfill that is not over", jobs.ErrNoRun, name)
	}
	return c.tell(command, map[string]any{"group": c.group, "job": name, "backfills": n}, "%s: backfills that end: %d", name, n)
}
