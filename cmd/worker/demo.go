package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/cmd/worker/internal/demo"
	"github.com/cronlease/cronlease/store"
)

// demonstration is worker demo.
type demonstration struct {
	database  string
	lasts     time.Duration
	killEvery time.Duration
	spread    bool
}

func newDemo() *cobra.Command {
	var d demonstration
	command := &cobra.Command{
		Use:   "demo",
		Short: "Watch three workers share a lease while the leader is killed",
		Long: `Watch three workers share a lease while the leader is killed every few seconds.

The workers are processes of this machine, and their database is a SQLite file
in a temporary folder, which is removed at the end. With --database they use
MySQL, where the tables are created if they are missing, Redis or ZooKeeper, in a
group of their own.

The job ticks every second, and what falls into a takeover is caught up by the
next leader. It ends with Ctrl-C, or by itself with --for, and says what it saw:
how many ticks ran, whether any ran twice or was missed (none is expected to),
how many takeovers there were, and the longest time without a run. It fails if a
tick ran twice or is missing.

With --spread, the workers share the runs. Three more jobs have runs of some
seconds, and a follower and the leader are killed in turn: the long runs of the
other workers go on, and those of the killed one start again elsewhere.`,
		Example: `  worker demo
  worker demo --for 20s --kill-every 4s
  worker demo --spread`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return d.run(command) },
	}
	flags := command.Flags()
	flags.StringVar(&d.database, "database", "", "database instead of a SQLite file: mysql://user:password@host:3306/database,\nredis://user:password@host:6379/0 or zk://user:password@host:2181/path; ${VARIABLES} are expanded, which keeps a password out of ps")
	flags.DurationVar(&d.lasts, "for", 0, "end after this time, such as 20s (default: at Ctrl-C)")
	flags.DurationVar(&d.killEvery, "kill-every", 5*time.Second, "time between two kills; 0 for none")
	flags.BoolVar(&d.spread, "spread", false, "spread the runs over the workers")
	return command
}

func (d *demonstration) run(command *cobra.Command) (err error) {
	switch {
	case d.lasts < 0:
		return usagef(command, "--for %v: must not be negative", d.lasts)
	case d.killEvery < 0:
		return usagef(command, "--kill-every %v: must not be negative", d.killEvery)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to start replicas of it: %w", err)
	}
	folder, err := os.MkdirTemp("", "cronlease-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()

	group, text := "demo", "sqlite:"+strings.ReplaceAll(filepath.Join(folder, "lease.db"), "${", "$${")
	if d.database != "" {
		// Others may use that database, for a demo too.
		group, text = "demo-"+strings.ToLower(rand.Text()[:8]), d.database
	}
	where, err := config.ParseDatabase(text, os.LookupEnv)
	if err != nil {
		return usagef(command, "--database: %v", err)
	}
	db, err := openDatabase(where)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tables, hasTables := db.(withTables)
	if hasTables {
		err = tables.Migrate(command.Context())
	} else if checker, ok := db.(store.Checker); ok {
		err = checker.Check(command.Context())
	}
	if err != nil {
		return err
	}
	options := demo.Options{
		Program: program, Database: where, Store: db, History: db, Group: group, Folder: folder,
		For: d.lasts, KillEvery: d.killEvery, Spread: d.spread, Out: command.OutOrStdout(),
	}
	if out, ok := terminal(command.OutOrStdout()); ok {
		options.Out = out
		options.Size = func() (int, int) {
			width, height, err := term.GetSize(int(out.Fd()))
			if err != nil {
				return 80, 24
			}
			return width, height
		}
	}
	_, err = demo.Run(command.Context(), options)
	switch out := command.OutOrStdout(); {
	case d.database == "":
	case hasTables:
		fmt.Fprintf(out, "The tables, and in them the rows of the group %s, stay in %v.\n", group, where)
	default:
		fmt.Fprintf(out, "What the group %s has written stays in %v.\n", group, where)
	}
	return err
}
