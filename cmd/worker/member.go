package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/cmd/worker/internal/httpjob"
	"github.com/cronlease/cronlease/scheduler"
)

// member is a worker's part in one group: what a configuration file says.
type member struct {
	path      string
	config    *config.Config
	parts     parts
	scheduler *scheduler.Scheduler
	log       *zap.Logger // names the group and the owner
	reloads   *reloader
}

// members are those of one process, each of another group.
type members []*member

// members reads the configuration files.
func (r *runner) members(command *cobra.Command) (all members, err error) {
	groups, addresses := map[string]string{}, map[string]string{}
	var wrong []error
	for _, path := range r.configs {
		c, err := loadConfig(command, path)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		if len(r.configs) > 1 && r.listen != "" {
			return nil, usagef(command, "--listen is for one --config: of several, each file has an address of its own")
		}
		if err := r.setListen(c); err != nil {
			return nil, usagef(command, "%v", err)
		}
		switch other, taken := groups[c.Group]; {
		case taken && other == path:
			wrong = append(wrong, fmt.Errorf("%s is given twice: give each file once", path))
		case taken:
			wrong = append(wrong, c.Wrap("group", fmt.Errorf("%s has the group %q, too: a worker takes part in a group once", other, c.Group)))
		}
		if other, taken := addresses[c.Listen.Address]; taken && c.Listen.Address != "" {
			wrong = append(wrong, c.Wrap("listen", fmt.Errorf("%s has the address %s, too: each page has one of its own", other, c.Listen.Address)))
		}
		groups[c.Group], addresses[c.Listen.Address] = path, path
		all = append(all, &member{path: path, config: c})
	}
	for _, m := range all {
		wrong = append(wrong, checkMachine(m.config))
	}
	return all, errors.Join(wrong...)
}

// run takes part in all groups until ctx ends, or one of them cannot be taken part in.
func (all members) run(ctx context.Context, migrate bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(all))
	var wait sync.WaitGroup
	for i, m := range all {
		wait.Go(func() {
			if errs[i] = m.run(ctx, migrate); errs[i] != nil {
				cancel()
			}
			if errs[i] != nil && len(all) > 1 {
				errs[i] = fmt.Errorf("group %q: %w", m.config.Group, errs[i])
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// endDrain ends the drains, and reports whether there was one.
func (all members) endDrain() (was bool) {
	for _, m := range all {
		was = m.scheduler.EndDrain() || was
	}
	return was
}

func (m *member) run(ctx context.Context, migrate bool) error {
	stopped := func() { m.log.Info("stopped") }
	if tables, ok := m.parts.db.(withTables); ok && (migrate || m.config.Database.Kind() == config.SQLite) {
		switch err := migrateAtStart(ctx, tables, m.log); {
		case err != nil && ctx.Err() != nil: // it was stopped while it waited
			stopped()
			return nil //nolint:nilerr // it did not fail
		case err != nil:
			return m.config.Wrap("database", err)
		}
	}
	m.log.Info("started", zap.String("version", version()), zap.String("config", m.path), zap.Stringer("database", m.config.Database),
		zap.Int("jobs", len(m.config.Jobs)), zap.Int("pid", os.Getpid()))
	if err := m.scheduler.Run(ctx); err != nil {
		return err
	}
	stopped()
	return nil
}

// shared is what the members of a process share.
type shared struct {
	runner    *runner
	log       *zap.Logger
	client    *httpjob.Client
	metrics   served
	observed  bool // a member serves the metrics, which are those of all
	options   []scheduler.Option
	databases stores
	killers   stores // over which statements are ended, and that no job can use up
	pages     stores // so that a page never takes a connection from the jobs
}

// prepare makes all that a member needs, until stop is called: its scheduler, its page, and
// what reads its configuration again.
func (p *shared) prepare(m *member) (stop func(), err error) {
	c := m.config
	db, err := p.databases.of(c.Database)
	if err != nil {
		return nil, c.Wrap("database", err)
	}
	m.parts = parts{db: db, pool: pool(db), client: p.client, log: p.log, grace: c.Lease.Grace}
	if c.Database.Kind() == config.MySQL {
		db, err := p.killers.of(c.Database)
		if err != nil {
			return nil, c.Wrap("database", err)
		}
		m.parts.killers = killers(db)
	}
	options := p.options
	if p.observed {
		options = append(options[:len(options):len(options)], scheduler.WithEvents(p.metrics.Observe))
	}
	if m.scheduler, err = p.runner.scheduler(c, m.parts, options...); err != nil {
		return nil, err
	}
	m.log = p.log.With(zap.String("group", c.Group), zap.String("owner", m.scheduler.Owner()))
	stopPage := func() {}
	if p.observed {
		p.metrics.Watch(c.Group, m.scheduler.Health)
	}
	if c.Listen.Address != "" {
		if stopPage, err = p.servePage(m); err != nil {
			return nil, err
		}
	}
	m.reloads = &reloader{runner: p.runner, path: m.path, parts: m.parts, scheduler: m.scheduler, log: m.log, now: c}
	stopReloads := m.reloads.listen(m.log)
	return func() {
		stopReloads()
		stopPage()
	}, nil
}

func (p *shared) close() error {
	return errors.Join(p.pages.close(), p.killers.close(), p.databases.close())
}
