package main

import (
	"context"
	"errors"
	"io"
	"os"
	_ "time/tzdata" // for machines without time zones, such as small containers

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/cmd/worker/internal/execjob"
	"github.com/cronlease/cronlease/cmd/worker/internal/httpjob"
	"github.com/cronlease/cronlease/cmd/worker/internal/sqljob"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
)

// runner is worker run.
type runner struct {
	config   string
	label    string
	logLevel string
	migrate  bool
	untilEOF bool
}

func newRun() *cobra.Command {
	var r runner
	command := &cobra.Command{
		Use:   "run",
		Short: "Take part in the group and run its jobs while leading",
		Long: `Take part in the group and run its jobs while leading.

SIGTERM and SIGINT stop it: running jobs are cancelled, the lease is released,
so that another worker takes over at once, and it exits with 0. The log goes to
standard error, as JSON if that is no terminal.

A SQLite file gets its tables by itself. On MySQL, create them with worker
migrate, or with --migrate if this user may.`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return r.run(command.Context(), command) },
	}
	flags := command.Flags()
	flags.StringVar(&r.config, "config", defaultConfig, "configuration file")
	flags.StringVar(&r.label, "label", "worker", "first part of this worker's name, as the owner of the lease")
	flags.StringVar(&r.logLevel, "log-level", "info", "least level to log: debug, info, warn or error")
	flags.BoolVar(&r.migrate, "migrate", false, "create or update the tables first")
	flags.BoolVar(&r.untilEOF, "until-eof", false, "stop at the end of standard input too")
	_ = flags.MarkHidden("until-eof") // for whoever starts workers that must not outlive it
	return command
}

func (r *runner) run(ctx context.Context, command *cobra.Command) (err error) {
	log, err := newLogger(command, command.ErrOrStderr(), r.logLevel)
	if err != nil {
		return err
	}
	c, err := loadConfig(command, r.config)
	if err != nil {
		return err
	}
	db, err := openDatabase(c.Database)
	if err != nil {
		return c.Wrap("database", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	client := httpjob.NewClient(version())
	defer client.Close()
	s, err := r.scheduler(c, db, client, log)
	if err != nil {
		return err
	}

	if r.untilEOF {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // an error is an end too
			cancel()
		}()
	}
	if r.migrate || c.Database.Kind() == config.SQLite {
		if err := db.Migrate(ctx); err != nil {
			return c.Wrap("database", err)
		}
	}
	log.Info("started", zap.String("version", version()), zap.String("config", r.config), zap.Stringer("database", c.Database),
		zap.String("group", c.Group), zap.String("owner", s.Owner()), zap.Int("jobs", len(c.Jobs)), zap.Int("pid", os.Getpid()))
	if err := s.Run(ctx); err != nil {
		return err
	}
	log.Info("stopped", zap.String("group", c.Group), zap.String("owner", s.Owner()))
	return nil
}

// scheduler returns a scheduler with the jobs of the configuration.
func (r *runner) scheduler(c *config.Config, db database, client *httpjob.Client, log *zap.Logger) (*scheduler.Scheduler, error) {
	timing, err := c.Lease.Complete()
	if err != nil {
		return nil, err
	}
	s, err := scheduler.New(db, c.Group, scheduler.WithTiming(timing), scheduler.WithLabel(r.label), scheduler.WithLogger(log),
		scheduler.WithMaxRuns(c.MaxRuns))
	if err != nil {
		return nil, err
	}
	for _, entry := range c.Jobs {
		job := entry.Job
		switch {
		case entry.HTTP != nil:
			job.Do = client.Job(entry.HTTP.Method, entry.HTTP.URL)
		case entry.SQL != nil:
			job.Do = sqljob.New(db.DB(), entry.SQL)
		default:
			job.Do = execjob.New(entry.Exec, execjob.Options{Grace: timing.Grace, TrustLeft: jobs.TrustLeft, Log: log})
		}
		if err := s.Add(job); err != nil {
			return nil, err
		}
	}
	return s, nil
}
