package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/lease"
)

// unready is a database whose migrations fail one by one.
type unready struct {
	database
	errs []error
}

func (u *unready) Migrate(context.Context) error {
	if len(u.errs) == 0 {
		return nil
	}
	err := u.errs[0]
	u.errs = u.errs[1:]
	return err
}

func TestMigrationAtStartWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	readOnly := fmt.Errorf("%w: read_only is on", lease.ErrNotReady)
	newer := fmt.Errorf("%w: tables of a newer version", lease.ErrSetup)
	away := errors.New("connection refused")
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		if err := migrateAtStart(t.Context(), &unready{errs: []error{readOnly, readOnly, away, readOnly}}, zap.New(core)); err != nil {
			t.Error(err)
		}
		if n := logs.Len(); n != 3 { // not ready, away, available again
			t.Errorf("%d lines: %v", n, logs.All())
		}
		if err := migrateAtStart(t.Context(), &unready{errs: []error{away, newer}}, zap.NewNop()); !keeper.Ends(err) {
			t.Errorf("tables of a newer version: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := migrateAtStart(ctx, &unready{errs: []error{away}}, zap.NewNop()); err == nil {
			t.Error("no error after its context ended")
		}
	})
}
