package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/jobs/cron"
)

// next is worker next.
type next struct {
	dialect string
	zone    string
	dst     string
	from    string
	count   int
	until   string
	except  []string
	job     string
	config  string
	local   bool
}

func newNext() *cobra.Command {
	var n next
	command := &cobra.Command{
		Use:   "next EXPRESSION | --job JOB",
		Short: "Print when a cron expression or a job is due",
		Long: `Print the next instants at which a cron expression is due, or with --job a job
of the configuration file, in UTC or with --local in the schedule's zone, one a
line, and "never" where there is no further one. It needs no database. Behind the ticks of a job with jitter stands
when their runs start.

An expression that is none is an error that points at the field, with exit
code 2.`,
		Example: `  worker next "0 2 * * *"
  worker next --zone Europe/Berlin --local --count 3 "0 0 2 * * MON-FRI"
  worker next --except 12-24..01-06 --except "* * * * SUN" "0 2 * * *"
  worker next --dialect quartz --from 2027-01-01T00:00:00Z "0 0 2 ? * 6L"
  worker next --job nightly-report --config billing.yaml`,
		Args: func(command *cobra.Command, args []string) error {
			switch {
			case n.job != "" && len(args) > 0:
				return usagef(command, "unexpected argument %q: give an expression or --job", args[0])
			case n.job != "":
				return n.checkFlags(command)
			case len(args) == 0:
				return usagef(command, `expected a cron expression, such as "0 2 * * *"`)
			case len(args) > 1:
				return usagef(command, "unexpected argument %q: write the expression as one argument, in quotes", args[1])
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error { return n.run(command, strings.Join(args, "")) },
	}
	flags := command.Flags()
	flags.StringVar(&n.dialect, "dialect", "", "spring, quartz or unix (default: five fields are unix, six are spring)")
	flags.StringVar(&n.zone, "zone", "UTC", "time zone of the expression, by its IANA name")
	flags.StringVar(&n.dst, "dst", "once", "when clocks change: once, or native to do what the dialect's own engine does")
	flags.StringVar(&n.from, "from", "", "print what is due after this instant, in RFC 3339 (default: now)")
	flags.IntVar(&n.count, "count", 5, "how many instants to print at most")
	flags.StringVar(&n.until, "until", "", "nothing is due from this instant on, in RFC 3339")
	flags.StringArrayVar(&n.except, "except", nil, "leave out days such as 12-24..12-26, or what a cron expression matches; may be repeated")
	flags.StringVar(&n.job, "job", "", "a job of the configuration file, instead of an expression")
	flags.StringVar(&n.config, "config", defaultConfig, "configuration file, for --job")
	addLocal(command, &n.local)
	_ = command.RegisterFlagCompletionFunc("job", func(command *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return (&target{config: n.config}).jobNames(command), cobra.ShellCompDirectiveNoFileComp
	})
	return command
}

// checkFlags refuses flags that describe an expression beside --job.
func (n *next) checkFlags(command *cobra.Command) error {
	for _, flag := range []string{"dialect", "zone", "dst", "until", "except"} {
		if command.Flags().Changed(flag) {
			return usagef(command, "--%s is for an expression: the configuration file has that of a job", flag)
		}
	}
	return nil
}

// ofJob returns a job of the configuration file, and its group.
func (n *next) ofJob(command *cobra.Command) (jobs.Job, string, error) {
	c, err := loadConfig(command, n.config)
	if err != nil {
		return jobs.Job{}, "", err
	}
	for _, job := range c.Jobs {
		if job.Name != n.job {
			continue
		}
		if _, relative := job.Schedule.(jobs.Relative); relative {
			return jobs.Job{}, "", fmt.Errorf("job %s: its ticks depend on what the database has: see worker jobs", n.job)
		}
		if parent := followed(job.Schedule); parent != "" {
			return jobs.Job{}, "", fmt.Errorf("job %s: it is due each time when %s has succeeded", n.job, parent)
		}
		if _, notifier := job.Schedule.(jobs.NotifySchedule); notifier {
			return jobs.Job{}, "", fmt.Errorf("job %s: it is due %s", n.job, jobs.InWords(job.Schedule))
		}
		return job.Job, c.Group, nil
	}
	return jobs.Job{}, "", fmt.Errorf("no job %q in %s", n.job, n.config)
}

// ofExpression is ofJob for an expression with flags.
func (n *next) ofExpression(command *cobra.Command, expression string) (job jobs.Job, err error) {
	dialect, err := cron.ParseDialect(n.dialect)
	if err != nil {
		return job, usagef(command, "--dialect %q: expected spring, quartz or unix", n.dialect)
	}
	dst, err := cron.ParseDST(n.dst)
	if err != nil {
		return job, usagef(command, "--dst %q: expected once or native", n.dst)
	}
	c := jobs.Calendar{Except: n.except}
	if command.Flags().Changed("until") {
		if c.Until, err = time.Parse(time.RFC3339, n.until); err != nil || c.Until.IsZero() {
			return job, usagef(command, "--until %q: expected an instant such as 2027-01-01T00:00:00Z", n.until)
		}
	}
	schedule := jobs.Cron(expression).In(n.zone).Dialect(dialect).DST(dst)
	var bad *cron.Error
	switch err := schedule.Err(); {
	case errors.As(err, &bad):
		return job, usagef(command, "%s", pointAt(bad))
	case err != nil:
		return job, usagef(command, "--%v", err)
	}
	job.Schedule = jobs.Within(schedule, c)
	if s, ok := job.Schedule.(interface{ Err() error }); ok && s.Err() != nil {
		return job, usagef(command, "--%v", s.Err())
	}
	return job, nil
}

func (n *next) run(command *cobra.Command, expression string) (err error) {
	at := time.Now()
	if command.Flags().Changed("from") {
		if at, err = time.Parse(time.RFC3339, n.from); err != nil {
			return usagef(command, "--from %q: expected an instant such as 2027-01-01T00:00:00Z", n.from)
		}
	}
	if n.count < 1 {
		return usagef(command, "--count %d: must be at least 1", n.count)
	}
	var job jobs.Job
	var group string
	if n.job != "" {
		job, group, err = n.ofJob(command)
	} else {
		job, err = n.ofExpression(command, expression)
	}
	if err != nil {
		return err
	}
	shown := zones{}
	if n.local {
		shown.add(job.Name, job.Schedule)
	}
	for range n.count {
		if err := command.Context().Err(); err != nil {
			return err
		}
		at = job.Schedule.Next(at)
		line := "never"
		if !at.IsZero() {
			line = shown.in(job.Name, at).Format(time.RFC3339)
		}
		if job.Jitter > 0 && !at.IsZero() {
			line += "  starts at " + shown.in(job.Name, at.Add(job.Delay(group, at))).Format("2006-01-02T15:04:05.000Z07:00")
		}
		if _, err := fmt.Fprintln(command.OutOrStdout(), line); err != nil {
			return err
		}
		if at.IsZero() {
			break
		}
	}
	return nil
}

// pointAt says what is wrong with an expression, and marks the place below it.
func pointAt(bad *cron.Error) string {
	what := bad.Field
	if bad.Text != "" {
		what += fmt.Sprintf(" %q", bad.Text)
	}
	// One character for one: what a terminal would act on would also move the mark.
	plain := func(s string) string {
		return strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return ' '
			}
			return r
		}, s)
	}
	before := bad.Expression[:min(bad.Offset, len(bad.Expression))]
	return fmt.Sprintf("%s: %s\n  %s\n  %s%s", what, bad.Reason, plain(bad.Expression),
		strings.Repeat(" ", utf8.RuneCountInString(before)), strings.Repeat("^", max(1, utf8.RuneCountInString(bad.Text))))
}

// behindDashes moves the expressions of worker next that begin with a hyphen,
// such as "-1 * * * *", to where they are not taken for flags.
func behindDashes(args []string) []string {
	if len(args) == 0 || args[0] != "next" {
		return args
	}
	var flags, expressions []string
	for i, arg := range args {
		switch {
		case arg == "--":
			expressions = append(expressions, args[i+1:]...)
			return append(append(flags, "--"), expressions...)
		case strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.ContainsAny(arg, " \t"):
			expressions = append(expressions, arg)
		default:
			flags = append(flags, arg)
		}
	}
	if len(expressions) == 0 {
		return args
	}
	return append(append(flags, "--"), expressions...)
}
