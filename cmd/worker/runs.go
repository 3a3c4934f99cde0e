package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/internal/runjson"
	"github.com/cronlease/cronlease/internal/spelling"
	"github.com/cronlease/cronlease/jobs"
)

// runRecord is what is printed of a run. Its JSON form is relied on.
type runRecord struct {
	runjson.Record
	// Args are the arguments, with --args.
	Args json.RawMessage `json:"args,omitempty"`
	// Output is the end of what its last attempt printed, with --output.
	Output string `json:"output,omitempty"`
}

func recordOf(r jobs.Record) runRecord { return runRecord{Record: runjson.Of(r)} }

func (r runRecord) shard() string { return fmt.Sprintf("shard %d of %d", r.Shard, r.Shards) }

// mark says beside a tick what is particular about the run.
func (r runRecord) mark() string {
	var marks []string
	switch r.Kind {
	case "trigger":
		marks = append(marks, "triggered")
	case "after", "backfill", "notice":
		marks = append(marks, r.Kind)
	case "shard":
		marks = append(marks, r.shard())
	}
	if r.HasArgs {
		marks = append(marks, "args")
	}
	if marks == nil {
		return ""
	}
	return " (" + strings.Join(marks, ", ") + ")"
}

// shown is an instant for people.
func shown(t *stamp) string {
	if t == nil {
		return "-"
	}
	return t.Format(time.RFC3339)
}

// history is worker runs.
type history struct {
	target
	job    string
	status string
	since  string
	limit  int
	args   bool
	output bool
	asJSON bool
	local  bool
}

func newRuns() *cobra.Command {
	var h history
	command := &cobra.Command{
		Use:   "runs",
		Short: "List the runs, the newest first",
		Long: `List the runs of the group's jobs, the newest first: those that are going on,
and those that are over, as long as the ledger keeps them.`,
		Example: `  worker runs --job nightly-report --since 7d
  worker runs --status failed --since 2027-01-01T00:00:00Z --json`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return h.run(command) },
	}
	h.addFlags(command, true)
	flags := command.Flags()
	flags.StringVar(&h.job, "job", "", "only runs of this job")
	flags.StringVar(&h.status, "status", "", "only runs in this state: "+strings.Join(stateNames(), ", "))
	flags.StringVar(&h.since, "since", "", "only ticks since this instant (RFC 3339), or for this long until now, such as 24h or 7d")
	flags.IntVar(&h.limit, "limit", 100, "how many runs to list at most")
	flags.BoolVar(&h.args, "args", false, "show the arguments of runs, which may hold secrets")
	flags.BoolVar(&h.output, "output", false, "show the end of what each run printed, at most 4 KiB")
	flags.BoolVar(&h.asJSON, "json", false, "print JSON")
	addLocal(command, &h.local)
	// The error is that of a flag that is not there.
	_ = command.RegisterFlagCompletionFunc("job", func(command *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return h.jobNames(command), cobra.ShellCompDirectiveNoFileComp
	})
	return command
}

func stateNames() []string {
	var all []string
	for s := jobs.Running; s <= jobs.Interrupted; s++ {
		all = append(all, s.String())
	}
	return all
}

func (h *history) filter(command *cobra.Command) (jobs.Filter, error) {
	filter := jobs.Filter{Job: h.job, Limit: h.limit}
	if h.limit < 1 {
		return filter, usagef(command, "--limit %d: must be at least 1", h.limit)
	}
	if command.Flags().Changed("job") && h.job == "" {
		return filter, usagef(command, "--job: expected a job's name")
	}
	if command.Flags().Changed("status") {
		state, err := jobs.ParseState(strings.NewReplacer("_", " ", "-", " ").Replace(h.status))
		if err != nil {
			return filter, usagef(command, "--status %q: expected one of %s", h.status, strings.Join(stateNames(), ", "))
		}
		filter.State = state
	}
	if command.Flags().Changed("since") {
		since, err := time.Parse(time.RFC3339, h.since)
		if ago, ago2 := config.ParseDuration(h.since); err != nil && ago2 == nil && ago >= 0 {
			since, err = time.Now().Add(-ago), nil
		}
		if err != nil {
			return filter, usagef(command, "--since %q: expected an instant such as 2027-01-01T00:00:00Z, or a duration such as 24h or 7d", h.since)
		}
		filter.Since = since.UTC()
	}
	return filter, nil
}

func (h *history) run(command *cobra.Command) (err error) {
	if err := checkLocal(command, h.local, h.asJSON); err != nil {
		return err
	}
	filter, err := h.filter(command)
	if err != nil {
		return err
	}
	db, group, err := h.open(command)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	g := jobs.NewGroup(db, group)
	records, err := g.Runs(command.Context(), filter)
	if err != nil {
		return err
	}
	if len(records) == 0 && h.job != "" {
		if err := h.checkName(command.Context(), g, group); err != nil {
			return err
		}
	}
	list := make([]runRecord, len(records))
	for i, r := range records {
		list[i] = recordOf(r)
		if h.args && r.HasArgs {
			// A run may have been pruned meanwhile.
			if list[i].Args, err = g.Args(command.Context(), r.Key); err != nil && !errors.Is(err, jobs.ErrNoRun) {
				return err
			}
		}
	}
	if h.output {
		if err := addOutput(command.Context(), g, records, list); err != nil {
			return err
		}
	}
	if h.asJSON {
		return json.NewEncoder(command.OutOrStdout()).Encode(list)
	}
	var in zones
	if h.local {
		snapshot, err := g.Load(command.Context())
		if err != nil {
			return err
		}
		in = zonesOf(snapshot, h.declared())
	}
	return printRuns(command.OutOrStdout(), list, in, h.args)
}

// addOutput adds what the runs have printed.
func addOutput(ctx context.Context, g jobs.Group, records []jobs.Record, list []runRecord) error {
	for i, r := range records {
		if r.Attempt == 0 {
			continue
		}
		output, err := g.Output(ctx, r.Key)
		if err != nil && !errors.Is(err, jobs.ErrNoRun) { // it may have been pruned meanwhile
			return err
		}
		list[i].Output = strings.ToValidUTF8(string(output), "\uFFFD")
	}
	return nil
}

// checkName tells a job without runs from one that there is not.
func (h *history) checkName(ctx context.Context, g jobs.Group, group string) error {
	snapshot, err := g.Load(ctx)
	if err != nil {
		return err
	}
	if all := allJobs(snapshot, h.declared()); !slices.Contains(all, h.job) {
		return noJob(all, group, h.job)
	}
	return nil
}

// noJob says that there is no such job, and which there are.
func noJob(all []string, group, name string) error {
	const most = 10
	near := spelling.Near(all, name)
	for _, list := range [][]string{all, near} {
		for i, n := range list {
			list[i] = printable(n)
		}
	}
	var choice string
	switch {
	case len(all) == 0:
		choice = "no job of the group has ever been led"
	case len(near) > 0:
		choice = "did you mean " + strings.Join(near, ", ") + "?"
	case len(all) > most:
		choice = "there are " + strings.Join(all[:most], ", ") + ", ..."
	default:
		choice = "there are " + strings.Join(all, ", ")
	}
	return fmt.Errorf("%w: %q in group %q: %s", jobs.ErrNoJob, name, group, choice)
}

func printRuns(out io.Writer, list []runRecord, in zones, args bool) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "no runs")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "TICK\tJOB\tSTATE\tATTEMPT\tOWNER\tTOKEN\tSTARTED\tTOOK\tMISSED\tERROR") // Flush tells of errors
	if args {
		fmt.Fprint(table, "\tARGS")
	}
	fmt.Fprintln(table)
	for _, r := range list {
		tick, state, took, token := in.in(r.Job, r.Tick.Time).Format(time.RFC3339Nano), r.State, "-", "-"
		tick += r.mark()
		if r.CancelAsked && (r.State == jobs.Running.String() || r.State == jobs.Waiting.String()) {
			state += ", cancel asked"
		}
		if r.TookSeconds != nil {
			took = time.Duration(*r.TookSeconds * float64(time.Second)).Round(time.Millisecond).String()
		}
		if r.Token > 0 {
			token = strconv.FormatUint(r.Token, 10)
		}
		missed := "-"
		if r.Missed > 0 {
			missed = strconv.Itoa(r.Missed)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s", tick, printable(r.Job), state, r.Attempt, printable(shortOwner(r.Owner)), token, shown(in.stampIn(r.Job, r.Started)), took, missed, oneLine(r.Error))
		if args {
			fmt.Fprint(table, "\t"+oneLine(cmp.Or(string(r.Args), "-")))
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	var err error
	for _, r := range list {
		if r.Output == "" {
			continue
		}
		shard := ""
		if r.Shards > 0 {
			shard = ", " + r.shard()
		}
		_, failed := fmt.Fprintf(out, "\nOutput of %s%s, tick %s:\n", printable(r.Job), shard, in.in(r.Job, r.Tick.Time).Format(time.RFC3339Nano))
		err = errors.Join(err, failed)
		for line := range strings.Lines(printableText(r.Output)) {
			_, failed = fmt.Fprintf(out, "  %s\n", strings.TrimSuffix(line, "\n"))
			err = errors.Join(err, failed)
		}
	}
	return err
}

// shortOwner leaves out what tells two starts of one process apart: the token
// beside it does.
func shortOwner(owner string) string {
	if owner == "" {
		return "-"
	}
	if i := strings.LastIndexByte(owner, '/'); i > 0 {
		return owner[:i]
	}
	return owner
}

// printable is a name from the database for people. Other programs may have
// written it, so that it may hold what a terminal takes for commands: then it is
// quoted, and that is escaped.
func printable(name string) string {
	for _, r := range name {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return strconv.QuoteToASCII(name)
		}
	}
	return name
}

// printableText is a text for people, such as an error, in which the database or
// a job may have put anything: what a terminal may take for a command is escaped.
func printableText(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			out.WriteRune(r)
		} else {
			out.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return out.String()
}

// oneLine is what a table has room for: the first lines in one, since what an error says often
// begins with the second.
func oneLine(s string) string {
	const most = 100
	line := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) { // what a terminal may take for a command, or for nothing
			return ' '
		}
		return r
	}, strings.Trim(s, "\n"))
	if runes := []rune(line); len(runes) > most {
		line = string(runes[:most]) + "..."
	}
	return line
}
