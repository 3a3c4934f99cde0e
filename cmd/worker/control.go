package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
)

// control is a command that changes something in the database, and wakes the leader.
type control struct {
	target
	asJSON bool
}

// command returns the command; do carries it out.
func (c *control) command(command *cobra.Command, do func(command *cobra.Command, db database, group jobs.Group, args []string) error) *cobra.Command {
	command.RunE = func(command *cobra.Command, args []string) (err error) {
		db, group, err := c.open(command)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		c.group = group
		command.SetContext(acting(command))
		err = do(command, db, jobs.NewGroup(db, group), args)
		if errors.Is(err, jobs.ErrNoJob) && len(args) > 0 && c.isEverywhere(args[0]) {
			return fmt.Errorf("%w: %q runs everywhere: each worker runs it by itself, the database does not know it, and it cannot be controlled", jobs.ErrNoJob, args[0])
		}
		return err
	}
	c.addFlags(command, true)
	command.ValidArgsFunction = c.completeJob
	command.Flags().BoolVar(&c.asJSON, "json", false, "print JSON")
	return command
}

// tell prints the text, or the value as JSON.
func (c *control) tell(command *cobra.Command, value any, format string, args ...any) error {
	if c.asJSON {
		return json.NewEncoder(command.OutOrStdout()).Encode(value)
	}
	_, err := fmt.Fprintf(command.OutOrStdout(), format+"\n", args...)
	return err
}

func oneJob(command *cobra.Command, args []string) error {
	switch {
	case len(args) == 0 || args[0] == "":
		return usagef(command, "expected a job's name: worker jobs lists them")
	case len(args) > 1:
		return usagef(command, "unexpected argument %q: one job at a time", args[1])
	}
	return nil
}

// pausing is what pause and resume print. Its JSON form is relied on.
type pausing struct {
	Group string `json:"group"`
	// Job is empty for the whole group.
	Job    string `json:"job"`
	Paused bool   `json:"paused"`
}

func newPause() *cobra.Command {
	return newPausing(&cobra.Command{
		Use:   "pause [JOB]",
		Short: "Pause a job, or all of the group",
		Long: `Pause a job or, without a name, the whole group. What runs goes on, and no tick
is run until worker resume: those of the meantime are recorded as skipped. A
paused job can still be triggered.`,
		Example: `  worker pause nightly-report
  worker pause`,
	}, "paused", func(group jobs.Group) func(context.Context, string) error { return group.Pause })
}

func newResume() *cobra.Command {
	var skip bool
	command := newPausing(&cobra.Command{
		Use:   "resume [JOB]",
		Short: "Undo worker pause",
		Long: `Resume a job or, without a name, the group. A job runs when neither it nor the
group is paused. Ticks of the paused time are not made up for. Those that were
missed before it go through the misfire policy or, with --skip-missed, are
recorded as skipped: after a restored backup, most of them have run already.`,
		Example: `  worker resume nightly-report
  worker resume
  worker resume --skip-missed`,
	}, "resumed", func(group jobs.Group) func(context.Context, string) error {
		if skip {
			return group.ResumeSkipping
		}
		return group.Resume
	})
	command.Flags().BoolVar(&skip, "skip-missed", false, "also skip the ticks that were missed before the pause")
	return command
}

func newPausing(command *cobra.Command, done string, set func(jobs.Group) func(context.Context, string) error) *cobra.Command {
	var c control
	command.Args = func(command *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return oneJob(command, args)
	}
	return c.command(command, func(command *cobra.Command, _ database, group jobs.Group, args []string) error {
		result := pausing{Group: c.group, Paused: done == "paused"}
		what := "the whole group " + c.group
		if len(args) > 0 {
			result.Job, what = args[0], args[0]
		}
		if result.Paused {
			if err := checkShards(command.Context(), group, result.Job); err != nil {
				return err
			}
		}
		if err := set(group)(command.Context(), result.Job); err != nil {
			return err
		}
		return c.tell(command, result, "%s: %s", what, done)
	})
}

func newTrigger() *cobra.Command {
	var c control
	var args argsFlags
	var wait bool
	command := &cobra.Command{
		Use:   "trigger JOB",
		Short: "Run a job now, once, beside its schedule",
		Long: `Run a job now, once, beside its schedule, also when it is paused. The leader
starts it at once. With --wait it is waited for, and an outcome
other than success is an error.

The run can have arguments, a JSON value of at most 64 KiB: an exec job gets them
in CRONLEASE_ARGS, an http job as its body, a statement of an sql job as args.
Other users of this machine can read what --args says: give secrets with
--args-file.`,
		Example: `  worker trigger nightly-report --wait
  worker trigger import --args '{"from": "2027-01-01"}'
  generate | worker trigger import --args-file -`,
		Args: oneJob,
	}
	c.command(command, func(command *cobra.Command, db database, group jobs.Group, names []string) error {
		ctx, name := command.Context(), names[0]
		value, err := args.read(command)
		if err != nil {
			return err
		}
		if err := errors.Join(c.checkDeclared(ctx, group, name), checkShards(ctx, group, name)); err != nil {
			return err
		}
		key, err := group.TriggerWith(ctx, name, value)
		if err != nil {
			return err
		}
		record := jobs.Record{Key: key, State: jobs.Waiting, HasArgs: value != nil}
		if !wait {
			note := ""
			if leader, err := election.Leader(ctx, db, c.group); err == nil && !leader.Held() {
				note = "; nobody leads the group now, so it waits for the next leader"
			}
			return c.tell(command, recordOf(record), "%s: triggered, with the tick %s%s", key.Job, key.Tick.Format(time.RFC3339Nano), note)
		}
		record, err = awaitRun(ctx, group, key, func(text string) { fmt.Fprintln(command.ErrOrStderr(), text) })
		if err != nil {
			return err
		}
		if record.State == jobs.Succeeded || c.asJSON {
			err = c.tell(command, recordOf(record), "%s: %s", key.Job, record.State)
		}
		if record.State != jobs.Succeeded {
			err = errors.Join(err, fmt.Errorf("%s: %s: %s", key.Job, record.State, record.Error))
		}
		return err
	})
	args.add(command)
	command.Flags().BoolVar(&wait, "wait", false, "wait until the run is over")
	return command
}

// startsWithin is how long trigger --wait is silent about a run that has not
// started.
const startsWithin = 10 * time.Second

// checkShards refuses a job that has the shards of another one, which starts them.
func checkShards(ctx context.Context, group jobs.Group, name string) error {
	if !strings.HasSuffix(name, jobs.ShardsOf("")) {
		return nil
	}
	snapshot, err := group.LoadOf(ctx, []string{name})
	if err != nil {
		return err
	}
	s, _ := jobs.ParseSchedule(snapshot.Jobs[name].Schedule)
	if manual, ok := s.(jobs.ManualSchedule); ok && manual.ShardsOf() != "" {
		return fmt.Errorf("%q has the shards of job %q, which starts them: name that one", name, manual.ShardsOf())
	}
	return nil
}

// checkDeclared refuses a job that the configuration file does not have any more:
// no worker with this file would ever run it.
func (c *control) checkDeclared(ctx context.Context, group jobs.Group, name string) error {
	declared := c.declared()
	if declared == nil {
		return nil
	}
	if c.isEverywhere(name) {
		return jobs.ErrNoJob // command says more
	}
	snapshot, err := group.Load(ctx)
	if err != nil {
		return err
	}
	_, known := snapshot.Jobs[name]
	_, has := declared[name]
	switch {
	case known && has:
		return nil
	case has:
		return fmt.Errorf("%w: no leader has had %q of group %q yet: it can be triggered once a worker with %s leads", jobs.ErrNoJob, name, c.group, c.config)
	case known:
		return fmt.Errorf("%w (the database knows it, %s does not have it)", noJob(slices.Sorted(maps.Keys(declared)), c.group, name), c.config)
	}
	return noJob(slices.Sorted(maps.Keys(declared)), c.group, name)
}

// awaitRun waits until a run is over. It tells once if the run does not start
// for long. The database may be away for awayAtMost meanwhile, which it tells, too: the run goes on, or is recovered.
func awaitRun(ctx context.Context, group jobs.Group, key jobs.Key, tell func(string)) (jobs.Record, error) {
	again := time.NewTicker(250 * time.Millisecond)
	defer again.Stop()
	began, seen, told, away := time.Now(), time.Now(), false, false
	for {
		record, over, err := look(ctx, group, key)
		switch {
		case over:
			return record, err
		case err == nil:
			seen = time.Now()
		case time.Since(seen) > awayAtMost:
			return record, fmt.Errorf("%s was triggered, with the tick %s, and whether it is over cannot be read for %v: %w",
				key.Job, key.Tick.Format(time.RFC3339Nano), time.Since(seen).Round(time.Second), err)
		}
		if err != nil && !away {
			tell(fmt.Sprintf("%s was triggered, and whether it is over cannot be read: trying again: %v", printable(key.Job), err))
		}
		if away = err != nil; !away && !told && record.Attempt == 0 && time.Since(began) > startsWithin {
			told = true
			tell(fmt.Sprintf("%s has not started after %v: another run of it is not over, nobody leads, or the leader does not have this job", printable(key.Job), startsWithin))
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return jobs.Record{}, fmt.Errorf("%s is not over yet: %w", key.Job, context.Cause(ctx))
		}
	}
}

// awayAtMost is how long trigger --wait waits for a database that does not answer.
const awayAtMost = 2 * time.Minute

// look reads a run, and reports whether it is over.
func look(ctx context.Context, group jobs.Group, key jobs.Key) (record jobs.Record, over bool, err error) {
	snapshot, err := group.Load(ctx)
	if err != nil {
		return record, false, err
	}
	if record, open := find(snapshot.Open, key); open {
		return record, false, nil
	}
	const most = 100_000 // runs of the job since then
	records, err := group.Runs(ctx, jobs.Filter{Job: key.Job, Since: key.Tick, Limit: most})
	if err != nil {
		return record, false, err
	}
	record, ok := find(records, key)
	if !ok {
		err = fmt.Errorf("%s: the run is over, but not in the history any more", key.Job)
	}
	return record, true, err
}

func find(records []jobs.Record, key jobs.Key) (jobs.Record, bool) {
	for _, r := range records {
		if r.Job == key.Job && r.Tick.Equal(key.Tick) && r.Trigger == key.Trigger {
			return r, true
		}
	}
	return jobs.Record{}, false
}

func newCancel() *cobra.Command {
	var c control
	var tick string
	var backfill bool
	command := &cobra.Command{
		Use:   "cancel JOB",
		Short: "Cancel a run of a job",
		Long: `Cancel a run of a job: the newest that is not over or, with --tick, that of the
tick. Once the command has returned, a run that waits does not start any more, and one
that waits for another attempt gets none. One that has started is stopped when the leader
learns of the request, within milliseconds or with its next heartbeat. With --backfill,
all backfills of the job end: the run that each has is cancelled, and no other follows.`,
		Example: `  worker cancel nightly-report
  worker cancel nightly-report --backfill
  worker cancel nightly-report --tick 2027-01-01T02:00:00Z`,
		Args: oneJob,
	}
	c.command(command, func(command *cobra.Command, _ database, group jobs.Group, args []string) error {
		switch {
		case backfill && command.Flags().Changed("tick"):
			return usagef(command, "--backfill and --tick exclude each other: to cancel one run of a backfill ends it, too")
		case backfill:
			return c.cancelBackfills(command, group, args[0])
		}
		var at time.Time
		if command.Flags().Changed("tick") {
			var err error
			if at, err = time.Parse(time.RFC3339, tick); err != nil {
				return usagef(command, "--tick %q: expected an instant such as 2027-01-01T02:00:00Z", tick)
			}
		}
		snapshot, err := group.Load(command.Context())
		if err != nil {
			return err
		}
		if _, known := snapshot.Jobs[args[0]]; !known {
			return noJob(allJobs(snapshot, nil), c.group, args[0])
		}
		record := jobs.Record{Key: jobs.Key{Job: args[0], Tick: at.UTC()}}
		for _, r := range snapshot.Open { // in the order of their ticks
			if r.Job == args[0] && (at.IsZero() || r.Tick.Equal(at)) {
				record = r
			}
		}
		if record.Tick.IsZero() {
			return fmt.Errorf("%w: %s has none that is not over", jobs.ErrNoRun, args[0])
		}
		if err := group.Cancel(command.Context(), record.Key); err != nil {
			return err
		}
		record.CancelAsked = true
		return c.tell(command, recordOf(record), "%s: the run of %s is asked to stop", args[0], record.Tick.Format(time.RFC3339Nano))
	})
	command.Flags().BoolVar(&backfill, "backfill", false, "end the job's backfills")
	command.Flags().StringVar(&tick, "tick", "", "tick of the run, in RFC 3339, as worker runs prints it (default: the newest run that is not over)")
	return command
}
