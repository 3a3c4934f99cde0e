package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/lease"
)

// unready is a database whose migrations fail one by one.
type unready struct {
	database
	busy int // for so many seconds
	errs []error
}

func (u *unready) Migrate(context.Context) error { return errors.ErrUnsupported }

func (u *unready) MigrateSteps(ctx context.Context, patience time.Duration, _ func(string), held func(error)) (int, error) {
	for began := time.Now(); u.busy > 0; u.busy-- {
		if patience > 0 && time.Since(began) >= patience {
			return 0, errBusy
		}
		held(errBusy)
		time.Sleep(time.Second) //nolint:forbidigo // of a bubble
	}
	if len(u.errs) == 0 {
		return 10, nil
	}
	err := u.errs[0]
	u.errs = u.errs[1:]
	return 0, err
}

var errBusy = fmt.Errorf("%w: session 7 has the table", lease.ErrNotReady)

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

// While a session is in the way, that is said at once, and then once a minute: by the command and at the start of a worker.
func TestMigrationTellsWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		if err := migrateAtStart(t.Context(), &unready{busy: 150}, zap.New(core)); err != nil {
			t.Error(err)
		}
		if n := logs.Len(); n != 4 { // at 0, 60 and 120 s, and the end
			t.Errorf("%d lines: %v", n, logs.All())
		}
		run := func(busy int, wait time.Duration) (out, stderr string, err error) {
			var o, e strings.Builder
			command := newMigrate()
			command.SetContext(t.Context())
			command.SetOut(&o)
			command.SetErr(&e)
			err = migrate(command, &unready{busy: busy}, wait)
			return o.String(), e.String(), err
		}
		if out, stderr, err := run(150, 0); err != nil || out != "up to date, level 10\n" || strings.Count(stderr, "waiting: ") != 3 || !strings.Contains(stderr, "session 7") {
			t.Errorf("printed %q and %q: %v", out, stderr, err)
		}
		if out, _, err := run(150, 10*time.Second); !errors.Is(err, errBusy) || out != "" {
			t.Errorf("after its patience: printed %q, %v", out, err)
		}
		if _, _, err := run(0, -time.Second); err == nil || !strings.Contains(err.Error(), "--wait") {
			t.Errorf("--wait -1s: %v", err)
		}
	})
}
