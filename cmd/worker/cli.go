package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/internal/execjob"
	"github.com/cronlease/cronlease/internal/spelling"
	"github.com/cronlease/cronlease/lease"
)

// run carries out a command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	root := newRoot()
	root.SetArgs(behindDashes(args))
	root.SetOut(escaping{to: stdout})
	root.SetErr(escaping{to: stderr})
	return root.ExecuteContext(ctx)
}

// usageError is a command line that is wrong.
type usageError struct {
	problem string
	command *cobra.Command
}

func (e *usageError) Error() string {
	return fmt.Sprintf("%s\nRun '%s --help' for usage.", e.problem, e.command.CommandPath())
}

func usagef(command *cobra.Command, format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...), command}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "worker",
		Short: "Run scheduled jobs on one of several replicas",
		Long: `Identical workers share one database. They contend for the lease of their
group; the one that holds it fires the scheduled jobs. When it dies or is
stopped, another one goes on.

Try it: worker demo`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			problem := fmt.Sprintf("unknown command %q", args[0])
			var known []string
			for _, c := range command.Commands() {
				if c.IsAvailableCommand() {
					known = append(known, c.Name())
				}
			}
			if near := spelling.Near(known, args[0]); len(near) > 0 {
				problem += ": did you mean " + strings.Join(near, " or ") + "?"
			}
			return usagef(command, "%s", problem)
		},
		RunE: func(command *cobra.Command, _ []string) error {
			return usagef(command, "expected a command: run, demo, status, doctor, top, jobs, runs, next, trigger, backfill, pause, resume, cancel, forget, audit, resign, reload, validate, schema, password, migrate or version")
		},
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error { return usagef(command, "%v", err) })
	root.AddCommand(newRun(), newDemo(), newStatus(), newDoctor(), newTop(), newResign(), newReload(), newMigrate(), newValidate(), newSchema(), newPassword(), newVersion(), newGuard(),
		newJobs(), newRuns(), newNext(), newTrigger(), newBackfill(), newPause(), newResume(), newSpread(), newCancel(), newForget(), newAudit())
	return root
}

func noArguments(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef(command, "unexpected argument %q", args[0])
	}
	return nil
}

// newGuard is what worker run starts for each exec job.
func newGuard() *cobra.Command {
	return &cobra.Command{
		Use:    execjob.GuardCommand,
		Short:  "Guard an exec job (started by worker run only)",
		Hidden: true,
		RunE:   func(*cobra.Command, []string) error { return execjob.Guard() },
	}
}

// target is the database and group that a command is about: those of a
// configuration file, or the flags'.
type target struct {
	config   string
	database string
	group    string

	file *config.Config // what open has read; nil with --database
}

const defaultConfig = "worker.yaml"

// addFlags adds the flags to a command that is complete otherwise.
func (t *target) addFlags(command *cobra.Command, withGroup bool) {
	do := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error { return t.place(do(command, args)) }
	flags := command.Flags()
	flags.StringVar(&t.config, "config", defaultConfig, "configuration file")
	flags.StringVar(&t.database, "database", "", "database, instead of a configuration file's: mysql://user:password@host:3306/database,\npostgres://user:password@host:5432/database, redis://user:password@host:6379/0, zk://user:password@host1:2181,host2:2181/path or sqlite:/path/of/file.db; ${VARIABLES} are expanded, which keeps a password out of ps")
	if withGroup {
		flags.StringVar(&t.group, "group", "", "group, with --database")
	}
}

// place adds where the file names the database, to an error that says that it is
// not what it has to be, such as a path where no file is.
func (t *target) place(err error) error {
	unfit := errors.Is(err, lease.ErrSetup) || errors.Is(err, lease.ErrNotReady) || errors.Is(err, lease.ErrDenied)
	if t.file == nil || !unfit {
		return err
	}
	return t.file.Wrap("database", err)
}

// open opens the database and returns it with the group's name.
func (t *target) open(command *cobra.Command) (database, string, error) {
	hasGroup := command.Flags().Lookup("group") != nil
	switch {
	case t.database == "" && t.group != "":
		return nil, "", usagef(command, "--group is for --database: a configuration file names its group")
	case t.database == "":
		c, err := loadConfig(command, t.config)
		if err != nil {
			return nil, "", err
		}
		db, err := openDatabase(c.Database)
		if err != nil {
			return nil, "", c.Wrap("database", err)
		}
		t.file = c
		return db, c.Group, nil
	case command.Flags().Changed("config"):
		return nil, "", usagef(command, "--config and --database exclude each other")
	case hasGroup && t.group == "":
		return nil, "", usagef(command, "--database needs --group too")
	}
	where, err := config.ParseDatabase(t.database, os.LookupEnv)
	if err != nil {
		return nil, "", usagef(command, "--database: %v", err)
	}
	db, err := openDatabase(where)
	return db, t.group, err
}

// loadConfig reads the file. If the default file is missing and none was named,
// the command line is wrong.
func loadConfig(command *cobra.Command, path string) (*config.Config, error) {
	c, err := config.Load(path, os.LookupEnv)
	if errors.Is(err, os.ErrNotExist) && !command.Flags().Changed("config") {
		return nil, usagef(command, "no %s in this folder: name a configuration file with --config", defaultConfig)
	}
	return c, err
}
