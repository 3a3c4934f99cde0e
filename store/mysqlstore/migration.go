package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/internal/migrations"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

const (
	// migrateLockWait is how long a statement waits for a table, and others on that table wait
	// behind it: less than their own lock waits.
	migrateLockWait = 1 * time.Second
	// shortestPause and longestPause are between two attempts: the others have the table
	// for most of the time.
	shortestPause = 3 * time.Second
	longestPause  = 15 * time.Second
)

// migration is one call of [schema.MigrateSteps].
type migration struct {
	*schema
	c        *conn
	patience time.Duration // for each statement; 0: until the context ends
	made     func(step string)
	held     func(error)
	inTheWay error // of the last statement, while it is tried
}

func (m *migration) run(ctx context.Context) (level int, err error) {
	if m.c, err = m.conns.Open(ctx, migrateLockWait); err != nil {
		return 0, err
	}
	defer m.c.Discard() // and with it goes the lock
	if level, done, err := m.migrated(ctx, m.c); done || err != nil {
		return level, err
	}
	if err := m.c.Server.Check(); err != nil {
		return 0, err
	}

	// The lock belongs to the connection that all statements use: it cannot be
	// lost without the statements failing. Where GET_LOCK does not reach (two
	// nodes of a cluster), statements that may be repeated are what remains.
	if err := m.lock(ctx, lockName("cronlease:", m.c.Server.Database, m.tables.prefix, "migrate\x00")); err != nil {
		return 0, err
	}
	for _, statement := range []string{m.sql.createSchema.Render(), m.sql.addLevel.Render()} {
		if err := m.exec(ctx, statement); err != nil {
			return 0, fmt.Errorf("make the table %s: %w", m.tables.quoted("schema"), err)
		}
	}
	for {
		least, level, err := m.versions(ctx, m.c)
		switch {
		case err != nil:
			return 0, err
		case least > len(steps):
			return 0, newerError(least, level)
		case level >= len(steps):
			if level, done, err := m.migrated(ctx, m.c); done || err != nil {
				return level, err
			}
			return level, m.repair(ctx)
		}
		if err := m.upgrade(ctx, level, least); err != nil {
			return 0, fmt.Errorf("to version %d: %w", level+1, err)
		}
		m.made(steps[level].Name)
	}
}

// lockMigrations waits, and says which session has the lock.
var lockMigrations = sqltext.Parse(`SELECT GET_LOCK(?, 5), IS_USED_LOCK(?)`)

// lock waits until no other migration works on these tables.
func (m *migration) lock(ctx context.Context, name string) error {
	// The server waits: no pause is needed.
	return m.try(ctx, retry.Forever(time.Millisecond, time.Millisecond), func() error {
		var got, by sql.NullInt64
		err := m.c.QueryRow(ctx, lockMigrations.Render(name, name)).Scan(&got, &by)
		switch {
		case err != nil:
			return fmt.Errorf("wait for other migrations: %w", err)
		case got.Int64 == 1:
			return nil
		case !got.Valid:
			return errors.New("wait for other migrations: the server has no GET_LOCK to give")
		}
		return &busyError{fmt.Sprintf("another migration works on the tables, in session %d", by.Int64)}
	})
}

// upgrade makes the next step and writes it down.
func (m *migration) upgrade(ctx context.Context, level, least int) error {
	next := steps[level]
	if err := m.runStep(ctx, next); err != nil {
		return err
	}
	if next.Least > least {
		if err := m.exec(ctx, m.sql.insertVersion.Render(next.Least)); err != nil {
			return err
		}
	}
	return m.exec(ctx, m.sql.setLevel.Render(level+1))
}

func (m *migration) runStep(ctx context.Context, step migrations.Step) error {
	for _, statement := range step.Statements() {
		statement = m.tables.replace(statement)
		if err := m.exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// exec runs a statement, which may be done already.
func (m *migration) exec(ctx context.Context, statement string) error {
	return m.try(ctx, retry.Forever(shortestPause, longestPause), func() error {
		err := m.c.Exec(ctx, statement)
		switch mysqlerr.Number(err) {
		case mysqlerr.DuplicateColumn, mysqlerr.DuplicateKeyName, mysqlerr.CannotDrop:
			return nil
		case mysqlerr.LockWaitTimeout:
			return m.blocked(ctx, statement)
		}
		return err
	})
}

// try repeats what fails because others are in the way, with pauses in which they go on.
func (m *migration) try(ctx context.Context, pause backoff.BackOff, attempt func() error) error {
	for began := time.Now(); ; {
		err := attempt()
		var busy *busyError
		if !errors.As(err, &busy) {
			if err == nil {
				m.inTheWay = nil
			}
			return err
		}
		m.inTheWay = err
		if waited := time.Since(began); m.patience > 0 && waited >= m.patience {
			return fmt.Errorf("given up after %v: %w", waited.Round(time.Second), err)
		}
		m.held(err)
		if err := retry.Sleep(ctx, pause.NextBackOff()); err != nil {
			return err
		}
	}
}

// repair makes what the tables lack, by running all steps again, whose statements
// are harmless when repeated, and by adding keys. A column of a table that is
// there it does not make: its values are lost, and only a backup has them.
func (m *migration) repair(ctx context.Context) error {
	missing, err := m.gaps(ctx, m.c)
	if err != nil {
		return err
	}
	for i, step := range steps {
		if err := m.runStep(ctx, step); err != nil {
			return fmt.Errorf("repeat the step to version %d: %w", i+1, err)
		}
	}
	gaps, err := m.gaps(ctx, m.c)
	if err != nil {
		return err
	}
	for _, g := range gaps {
		if g.cure == "" {
			continue
		}
		if err := m.exec(ctx, g.cure); err != nil {
			return fmt.Errorf("%s: %s: %w", g, g.cure, err)
		}
	}
	if gaps, err = m.gaps(ctx, m.c); err != nil {
		return err
	}
	for _, g := range missing {
		if !slices.Contains(gaps, g) {
			m.made("mended: " + g.String())
		}
	}
	if len(gaps) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s: restore the table from a backup, or, to begin with an empty one, drop it and run Migrate (worker migrate)",
		lease.ErrSetup, joinGaps(gaps))
}
