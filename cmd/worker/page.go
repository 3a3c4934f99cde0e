package main

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/cmd/worker/internal/web"
	"github.com/cronlease/cronlease/scheduler"
)

// setListen puts the address of the command line into the configuration.
func (r *runner) setListen(c *config.Config) error {
	if r.listen == "" {
		return nil
	}
	c.Listen.Address = r.listen
	if err := c.Listen.Check(); err != nil {
		return fmt.Errorf("--listen %q: %w", r.listen, err)
	}
	return nil
}

// servePage serves the page, health and metrics, if the worker shall listen. The page has a
// store of its own, so that it never takes a connection from the jobs.
func servePage(c *config.Config, s *scheduler.Scheduler, log *zap.Logger, mounts ...web.Mount) (stop func(), err error) {
	if c.Listen.Address == "" {
		return func() {}, nil
	}
	db, err := openDatabase(c.Database)
	if err != nil {
		return nil, c.Wrap("database", err)
	}
	log = log.Named("page")
	server, err := web.Start(c.Listen, s, db, log, mounts...)
	if err != nil {
		_ = db.Close() // nothing was read
		return nil, c.Wrap("listen", fmt.Errorf("the page cannot be served: %w", err))
	}
	log.Info("the page is served", zap.String("address", server.Address()))
	return func() {
		if err := server.Close(); err != nil {
			log.Warn("the page did not end well", zap.Error(err))
		}
		if err := db.Close(); err != nil {
			log.Warn("the page's connections did not end well", zap.Error(err))
		}
	}, nil
}
