package main

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
	_ "time/tzdata" // for machines without time zones, such as small containers

	"github.com/cronlease/cronlease/internal/keeper"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/cmd/worker/internal/httpjob"
	"github.com/cronlease/cronlease/cmd/worker/internal/sqljob"
	"github.com/cronlease/cronlease/internal/execjob"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/tracing"
)

// runner is worker run.
type runner struct {
	configs  []string
	label    string
	logLevel string
	listen   string
	migrate  bool
	untilEOF bool
}

func newRun() *cobra.Command {
	var r runner
	command := &cobra.Command{
		Use:   "run",
		Short: "Take part in the group and run its jobs while leading",
		Long: `Take part in the group and run its jobs while leading.

SIGTERM and SIGINT stop it: running jobs are cancelled, after the drain of the
configuration file if they have not finished by then, the lease is released, so that
another worker takes over at once, and it exits with 0. A second SIGTERM or SIGINT ends
the drain. SIGHUP has it read the configuration again, as worker reload does; in a
terminal, where it means that this was closed, it stops. The log goes to standard error, as JSON if that is no terminal. When nothing reads it, jobs go
on, and lines are dropped and counted.

Several --config have it take part in several groups. Files with the same database
share its connections. One that cannot be used keeps all from starting.

With --listen, or listen in the file, it serves a page, /healthz and /readyz: to
this machine alone, unless the file has logins for other users.

A SQLite file gets its tables by itself. On MySQL and PostgreSQL, create them with worker
migrate, or with --migrate if this user may. Redis and ZooKeeper have none. A worker that starts
while the database is away, read-only, without its tables, or refuses the login,
says so and waits.`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return r.run(command.Context(), command) },
	}
	flags := command.Flags()
	flags.StringArrayVar(&r.configs, "config", []string{defaultConfig}, "configuration file; several, each of another group, for a worker of several groups")
	flags.StringVar(&r.label, "label", "worker", "first part of this worker's name, as the owner of the lease")
	flags.StringVar(&r.logLevel, "log-level", "info", "least level to log: debug, info, warn or error")
	flags.StringVar(&r.listen, "listen", "", "address of the page, health and metrics, such as 127.0.0.1:8080 (default: that of the configuration file, or none)")
	flags.BoolVar(&r.migrate, "migrate", false, "create or update the tables first")
	flags.BoolVar(&r.untilEOF, "until-eof", false, "stop at the end of standard input too")
	_ = flags.MarkHidden("until-eof") // for programs that start workers, which must not outlive them
	return command
}

func (r *runner) run(ctx context.Context, command *cobra.Command) (err error) {
	log, endLog, err := newLogger(command, command.ErrOrStderr(), r.logLevel)
	if err != nil {
		return err
	}
	defer endLog()
	surviveBrokenPipes()
	members, err := r.members(command)
	if err != nil {
		return err
	}
	if os.Getpid() == 1 {
		var orphans sync.WaitGroup
		defer orphans.Wait()
		reaping, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		orphans.Go(func() { execjob.ReapOrphans(reaping) })
	}
	client := httpjob.NewClient(version())
	defer client.Close()
	provider, stopTraces := startTraces(ctx, log)
	defer stopTraces()
	p := shared{runner: r, log: log, client: client, metrics: newMetrics(log), databases: stores{}, killers: stores{}, pages: stores{}}
	p.observed = slices.ContainsFunc(members, func(m *member) bool { return m.config.Listen.Address != "" })
	if provider != nil {
		p.options = append(p.options, scheduler.WithRunContext(tracing.Runs(provider)))
	}
	defer func() { err = errors.Join(err, p.close()) }()
	for _, m := range members {
		stop, err := p.prepare(m)
		if err != nil {
			return err
		}
		defer stop()
	}
	defer reloadOnHangup(members)()

	if r.untilEOF {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // an error is an end too
			cancel()
		}()
	}
	if slices.ContainsFunc(members, func(m *member) bool { return m.config.Drain > 0 }) {
		defer endDrainBySignal(ctx, members.endDrain)()
	}
	return members.run(ctx, r.migrate)
}

// surviveBrokenPipes lets writes to a log that was closed fail, where they would
// end the process without a release of the lease. The signal is caught and not
// ignored, because the programs of jobs would inherit that.
func surviveBrokenPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// checkMachine says what this machine, or this user, cannot do for a job, and which of
// the files that a job reads at the start of each run are not as they have to be.
func checkMachine(c *config.Config) error {
	var bad []error
	for _, entry := range c.Jobs {
		if entry.User != "" {
			bad = append(bad, entry.Wrap("user", execjob.CheckUser(entry.User)))
		}
		if entry.Limits != (execjob.Limits{}) {
			bad = append(bad, entry.Wrap("limits", execjob.CheckLimits()))
		}
		for _, err := range execjob.CheckEnv(entry.Env) {
			bad = append(bad, entry.Wrap("env", err))
		}
		if entry.HTTP != nil {
			for _, err := range entry.HTTP.Check() {
				var of *httpjob.SettingError
				if errors.As(err, &of) {
					err = entry.Wrap("http."+of.Setting, of.Err)
				}
				bad = append(bad, err)
			}
		}
	}
	key, err := c.Listen.CheckFiles()
	bad = append(bad, c.Wrap("listen."+key, err))
	return errors.Join(bad...)
}

// parts are what the jobs of a worker work with.
type parts struct {
	db            database
	pool, killers *sql.DB // for statements; nil where the database runs none, and no configuration has any, or where none needs to be ended over it
	client        *httpjob.Client
	log           *zap.Logger
	grace         time.Duration
}

// job returns a job with its function.
func (p parts) job(c *config.Config, entry config.Job) jobs.Job {
	job := entry.Job
	switch {
	case entry.HTTP != nil:
		job.Do = p.client.Job(*entry.HTTP)
	case entry.SQL != nil:
		job.Do = sqljob.New(p.pool, entry.SQL, sqljob.Options{Dialect: c.Database.Dialect(), Grace: p.grace, Kill: p.killers})
	default:
		trust := keeper.TrustOf
		if c.RunsAlone(entry) { // it has no lease
			trust = nil
		}
		job.Do = execjob.New(entry.Exec, execjob.Options{Grace: p.grace, Trust: trust, Trace: traceOf, Settings: entry.Settings, Log: p.log})
	}
	return job
}

// scheduler returns a scheduler with the jobs of the configuration.
func (r *runner) scheduler(c *config.Config, p parts, more ...scheduler.Option) (*scheduler.Scheduler, error) {
	options := append([]scheduler.Option{scheduler.WithTiming(c.Lease), scheduler.WithLabel(r.label), scheduler.WithVersion(firstBytes(version())), scheduler.WithLogger(p.log),
		scheduler.WithMaxRuns(c.MaxRuns), scheduler.WithDrain(c.Drain), scheduler.WithClock(c.Clock), scheduler.WithMaxSkew(c.MaxSkew)}, more...)
	if c.Spread {
		options = append(options, scheduler.WithSpread(), scheduler.WithLabels(c.Labels))
	}
	if c.FollowerOnly {
		options = append(options, scheduler.WithFollowerOnly())
	}
	s, err := scheduler.New(p.db, c.Group, options...)
	if err != nil {
		return nil, err
	}
	var all []jobs.Job
	for _, entry := range c.Jobs {
		all = append(all, p.job(c, entry))
	}
	if err := s.Add(all...); err != nil { // together: they may follow one another
		return nil, err
	}
	return s, nil
}
