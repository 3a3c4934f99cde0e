package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/cmd/worker/internal/httpjob"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/jobs/cron"
)

func newValidate() *cobra.Command {
	var path string
	command := &cobra.Command{
		Use:   "validate",
		Short: "Check the configuration file, without a database",
		Long: `Check the configuration file and those that it includes as worker run does at
its start, and warn of schedules that are never due or may have been written
for another dialect of cron. Nothing is connected to, and no job's files are read. The variables that the file uses have to be set.`,
		Example: `  worker validate
  PASSWORD=any worker validate --config billing.yaml`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			c, err := loadConfig(command, path)
			if err != nil {
				return err
			}
			db, err := openDatabase(c.Database)
			if err != nil {
				return c.Wrap("database", err)
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			if _, err := (&runner{label: "worker"}).scheduler(c, parts{db, pool(db), pool(db), httpjob.NewClient(version()), zap.NewNop(), c.Lease.Grace}); err != nil {
				return err
			}
			for _, warning := range append(neverDue(c, time.Now()), otherDialect(c, time.Now())...) {
				fmt.Fprintf(command.ErrOrStderr(), "worker: warning: %v\n", warning)
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "%s: good, jobs: %d\n", path, len(c.Jobs))
			return err
		},
	}
	command.Flags().StringVar(&path, "config", defaultConfig, "configuration file")
	return command
}

// neverDue returns a warning for each job whose schedule has no tick any more.
func neverDue(c *config.Config, now time.Time) (warnings []error) {
	for _, job := range c.Jobs {
		if !jobs.NeverDue(job.Schedule, now) {
			continue
		}
		key, why := "cron", "no such day comes any more"
		switch base := jobs.Base(job.Schedule); {
		case base == job.Schedule:
		case jobs.NeverDue(base, now):
		case job.Placed("until"):
			key, why = "until", "no tick is left before that"
		default:
			key, why = "except", "that leaves out every tick"
		}
		warnings = append(warnings, job.Wrap(key, fmt.Errorf("job %s is never due: %s; write manual: true if that is meant", job.Name, why)))
	}
	return warnings
}

// otherDialect returns a warning for each cron expression without a dialect that Quartz
// reads, too, but as other days: 2 is Monday there.
func otherDialect(c *config.Config, now time.Time) (warnings []error) {
	for _, job := range c.Jobs {
		schedule, ok := jobs.Base(job.Schedule).(jobs.CronSchedule)
		if !ok || job.Placed("dialect") {
			continue
		}
		quartz := schedule.Dialect(cron.Quartz)
		if quartz.Err() != nil {
			continue
		}
		if ours, theirs := schedule.Next(now), quartz.Next(now); !ours.Equal(theirs) {
			warnings = append(warnings, job.Wrap("cron", fmt.Errorf("job %s: this is read as Spring's, and is due next on %s; "+
				"Quartz counts the days of a week from Sunday as 1, and would run it on %s: write the day's name, or dialect: spring or quartz",
				job.Name, ours.Format("Monday, 2006-01-02"), theirs.Format("Monday, 2006-01-02"))))
		}
	}
	return warnings
}
