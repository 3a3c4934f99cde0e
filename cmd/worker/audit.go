package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/internal/jsontime"
	"github.com/cronlease/cronlease/jobs"
)

// acting is the context of a command that changes something: the audit names the user of
// this machine.
func acting(command *cobra.Command) context.Context {
	name := "uid " + strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = cmp.Or(u.Username, name)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return jobs.WithActor(command.Context(), jobs.Actor{Name: name + "@" + host, Via: jobs.ViaCLI})
}

// audited is what worker audit prints of an action. Its JSON form is relied on: keys are
// added, but never renamed or removed.
type audited struct {
	ID uint64 `json:"id"`
	At stamp  `json:"at"`
	// Actor is empty when it is not known. Via is cli, page, api, scheduler, or what an
	// embedder has chosen.
	Actor  string `json:"actor"`
	Via    string `json:"via"`
	Action string `json:"action"`
	// Job is empty for the whole group. Tick is null, and Trigger 0, if it was not about
	// one run.
	Job     string `json:"job"`
	Tick    *stamp `json:"tick"`
	Trigger uint64 `json:"trigger"`
	Note    string `json:"note"`
	// Result is done, unchanged or refused.
	Result string `json:"result"`
}

// auditing is worker audit.
type auditing struct {
	target
	job, since string
	limit      int
	asJSON     bool
}

func newAudit() *cobra.Command {
	var a auditing
	command := &cobra.Command{
		Use:   "audit",
		Short: "List who paused, triggered, cancelled and so on, the newest first",
		Long: `List what was asked of the group, the newest first: each pause, resume, trigger,
backfill, cancel, forget and resign, when it was, by whom, through which way (cli,
page, api, scheduler), and its result: done, unchanged (it was so before) or refused.
A user of the command line is that of the operating system; nothing proves it.`,
		Example: `  worker audit --since 7d
  worker audit --job nightly-report --json`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return a.run(command) },
	}
	a.addFlags(command, true)
	flags := command.Flags()
	flags.StringVar(&a.job, "job", "", "only what is about this job")
	flags.StringVar(&a.since, "since", "", "only since this instant (RFC 3339), or for this long until now, such as 24h or 7d")
	flags.IntVar(&a.limit, "limit", 100, "how many to list at most")
	flags.BoolVar(&a.asJSON, "json", false, "print JSON")
	// The error is that of a flag that is not there.
	_ = command.RegisterFlagCompletionFunc("job", func(command *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.jobNames(command), cobra.ShellCompDirectiveNoFileComp
	})
	return command
}

func (a *auditing) run(command *cobra.Command) (err error) {
	if a.limit < 1 {
		return usagef(command, "--limit %d: must be at least 1", a.limit)
	}
	if command.Flags().Changed("job") && a.job == "" {
		return usagef(command, "--job: expected a job's name")
	}
	var since time.Time
	if command.Flags().Changed("since") {
		since, err = time.Parse(time.RFC3339, a.since)
		if ago, agoErr := config.ParseDuration(a.since); err != nil && agoErr == nil && ago >= 0 {
			since, err = time.Now().Add(-ago), nil
		}
		if err != nil {
			return usagef(command, "--since %q: expected an instant such as 2027-01-01T00:00:00Z, or a duration such as 24h or 7d", a.since)
		}
	}
	db, group, err := a.open(command)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	entries, err := readAudit(command.Context(), jobs.NewGroup(db, group), a.job, since, a.limit)
	if err != nil {
		return err
	}
	list := make([]audited, len(entries))
	for i, e := range entries {
		list[i] = audited{
			ID: e.ID, At: stamp{Time: e.At.UTC()}, Actor: e.Name, Via: string(e.Via), Action: string(e.Action), Job: e.Job, Tick: jsontime.Of(e.Tick), Trigger: e.Trigger,
			Note: e.Note, Result: string(e.Result),
		}
	}
	if a.asJSON {
		return json.NewEncoder(command.OutOrStdout()).Encode(list)
	}
	return printAudit(command.OutOrStdout(), list)
}

// readAudit reads up to limit entries, page by page, until one is older than since.
func readAudit(ctx context.Context, group jobs.Group, job string, since time.Time, limit int) ([]jobs.AuditEntry, error) {
	const most = 1000
	var all []jobs.AuditEntry
	filter := jobs.AuditFilter{Job: job}
	for len(all) < limit {
		filter.Limit = min(most, limit-len(all))
		page, err := group.Audit(ctx, filter)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			if e.At.Before(since) {
				return all, nil
			}
			all = append(all, e)
		}
		if len(page) < filter.Limit {
			break
		}
		filter.Before = page[len(page)-1].ID
	}
	return all, nil
}

func printAudit(out io.Writer, list []audited) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "nothing was asked of the group")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TIME\tWHO\tVIA\tACTION\tJOB\tRUN\tRESULT\tNOTE") // Flush tells of errors
	for _, e := range list {
		job, run := "(group)", "-"
		if e.Job != "" {
			job = printable(e.Job)
		}
		if e.Tick != nil {
			run = e.Tick.Format(time.RFC3339Nano)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.At.Format(time.RFC3339), printable(cmp.Or(e.Actor, "-")), printable(e.Via),
			printable(e.Action), job, run, printable(e.Result), oneLine(cmp.Or(e.Note, "-")))
	}
	return table.Flush()
}
