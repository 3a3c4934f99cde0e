package main

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/cmd/worker/internal/web"
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

// servePage serves the page, health and metrics of a member.
func (p *shared) servePage(m *member) (stop func(), err error) {
	c, log := m.config, m.log.Named("page")
	db, err := p.pages.of(c.Database)
	if err != nil {
		return nil, c.Wrap("database", err)
	}
	server, err := web.Start(c.Listen, m.scheduler, db, log, p.metrics.mount)
	if err != nil {
		return nil, c.Wrap("listen", fmt.Errorf("the page cannot be served: %w", err))
	}
	log.Info("the page is served", zap.String("address", server.Address()))
	return func() {
		if err := server.Close(); err != nil {
			log.Warn("the page did not end well", zap.Error(err))
		}
	}, nil
}
