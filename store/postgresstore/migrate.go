package postgresstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/internal/migrations"
	"github.com/cronlease/cronlease/store/internal/sqlledger"
)

// migrationFiles are the steps to the newest version of the tables: the file that begins with 0001 leads to version 1, and so
// on. To change the tables, add a file, and never change one that was released. {s} is the schema. All steps are one
// transaction. A new column has a default, so that earlier programs can insert rows.
//
// The line "-- For programs from version N on." says which programs can use the tables after the step; without it, only those
// that know the step.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

// steps lead to the newest version. In cronlease_schema, the version is the least that a program has to know.
var steps = migrations.MustRead("postgresstore", migrationFiles)

const (
	// patience is how long Migrate tries while another session has a table.
	patience = 5 * time.Minute
	// tryFor is how long one try waits for a table: other statements wait behind it.
	tryFor = "1s"
	// letPass is how long Migrate waits between two tries.
	letPass = time.Second
)

// Migrate creates the tables, or brings them to the version that this program needs, in one transaction. It may run in any
// number of replicas at once: one works, the others wait for it. It writes nothing when the tables are of that version
// already, or of a newer one that this program can use. It refuses tables that it cannot use with an error that matches
// [lease.ErrSetup].
//
// A step waits for open transactions on its table, and all other statements on that table wait behind it. So it waits for a
// second, lets the others pass, and tries again. After five minutes it fails with an error that matches [lease.ErrNotReady].
func (s *Store) Migrate(ctx context.Context) error {
	_, err := s.MigrateSteps(ctx, patience, func(string) {}, func(error) {})
	return err
}

// MigrateSteps is Migrate with another patience (0: until ctx ends). It calls made, once all is done, for each step with its
// name, such as "0001_tables", and held whenever something is in the way and it is about to try again. It returns the level
// of the tables, which is the number of their newest step.
func (s *Store) MigrateSteps(ctx context.Context, patience time.Duration, made func(step string), held func(error)) (level int, err error) {
	for began := time.Now(); ; {
		var names []string
		err := s.do(ctx, "migrate", func(ctx context.Context, c conn) error {
			if level, names, err = s.migrated(ctx, c); err != nil || names == nil {
				return err
			}
			first := []sqlledger.Statement{
				{Text: "SELECT set_config('lock_timeout', $1::text, true)", Args: []any{tryFor}},
				{Text: s.sql.queue, Args: []any{"migration"}},
			}
			return c.inTx(ctx, first, func(ctx context.Context) error { level, names, err = s.upgrade(ctx, c); return err })
		})
		switch {
		case err == nil:
			for _, name := range names {
				made(name)
			}
			return level, nil
		case code(err) != lockNotAvailable:
			return 0, err
		}
		busy := fmt.Errorf("%w: another session has a table, or migrates: %w", lease.ErrNotReady, err)
		if waited := time.Since(began); patience > 0 && waited >= patience {
			return 0, fmt.Errorf("given up after %v: %w", waited.Round(time.Second), busy)
		}
		held(busy)
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: %w", ctx.Err(), busy)
		case <-time.After(letPass):
		}
	}
}

// migrated returns the level of the tables, and the steps that are missing.
func (s *Store) migrated(ctx context.Context, c conn) (level int, missing []string, err error) {
	least, level, err := s.versions(ctx, c)
	if err == nil && least > len(steps) {
		err = versionProblem(least, level)
	}
	for i := level; i < len(steps); i++ {
		missing = append(missing, steps[i].Name)
	}
	return level, missing, err
}

// versions reads the least version that a program has to know, and the newest step that was made, see [migrations.Step];
// both are 0 when there are no tables.
func (s *Store) versions(ctx context.Context, c conn) (least, level int, err error) {
	err = c.QueryRowContext(ctx, texts(s.options).Replace("SELECT version, level FROM {s}cronlease_schema")).Scan(&least, &level)
	if is := code(err); is == undefinedTable || is == invalidSchema {
		return 0, 0, nil
	}
	return least, level, err
}

// upgrade is called in a transaction, while no other program migrates.
func (s *Store) upgrade(ctx context.Context, c conn) (level int, made []string, err error) {
	text := texts(s.options)
	// One by one: what a pool prepares has to be there.
	create := []string{
		"CREATE TABLE IF NOT EXISTS {s}cronlease_schema (one boolean PRIMARY KEY CHECK (one), version integer NOT NULL, level integer NOT NULL)",
		"INSERT INTO {s}cronlease_schema VALUES (true, 0, 0) ON CONFLICT DO NOTHING",
	}
	if s.options.schema != "" {
		create = append([]string{"CREATE SCHEMA IF NOT EXISTS " + pgx.Identifier{s.options.schema}.Sanitize()}, create...)
	}
	for _, statement := range create {
		if _, err := c.ExecContext(ctx, text.Replace(statement)); err != nil {
			return 0, nil, err
		}
	}
	if level, made, err = s.migrated(ctx, c); err != nil {
		return 0, nil, err
	}
	for i := level; i < len(steps); i++ {
		for _, statement := range steps[i].Statements() {
			if _, err := c.ExecContext(ctx, text.Replace(statement)); err != nil {
				return 0, nil, fmt.Errorf("to version %d: %w", i+1, err)
			}
		}
		const update = "UPDATE {s}cronlease_schema SET version = greatest(version, $1::integer), level = $2::integer"
		if _, err := c.ExecContext(ctx, text.Replace(update), steps[i].Least, i+1); err != nil {
			return 0, nil, fmt.Errorf("to version %d: %w", i+1, err)
		}
	}
	return max(level, len(steps)), made, nil
}

func versionProblem(least, level int) error {
	newest := len(steps)
	switch {
	case level == 0:
		return fmt.Errorf("%w: there are no tables: run Migrate (worker migrate)", lease.ErrNotReady)
	case level < newest:
		return fmt.Errorf("%w: the tables are of version %d, and this program needs %d: run Migrate (worker migrate)", lease.ErrNotReady, level, newest)
	}
	return fmt.Errorf("%w: the tables are of version %d, for programs that know version %d, and this one knows versions up to %d: update the program",
		lease.ErrSetup, level, least, newest)
}

// minVersion is the oldest version of PostgreSQL on which the statements were run.
const minVersion = 140000

// Check implements [store.Checker]. It changes nothing, and refuses a server that is too old, read-only, or loses what it has
// confirmed, and tables that are missing or of another version. Each of these errors matches [lease.ErrSetup] and says what to
// do; what may pass by itself matches [lease.ErrNotReady] too.
func (s *Store) Check(ctx context.Context) error {
	return s.do(ctx, "check database", func(ctx context.Context, c conn) error {
		var version int
		var recovers bool
		var readOnly, synchronous, fsync string
		const query = `
SELECT current_setting('server_version_num')::integer, pg_is_in_recovery(), current_setting('transaction_read_only'),
  current_setting('synchronous_commit'), current_setting('fsync')`
		if err := c.QueryRowContext(ctx, query).Scan(&version, &recovers, &readOnly, &synchronous, &fsync); err != nil {
			return err
		}
		switch {
		case version < minVersion:
			return fmt.Errorf("%w: the server is of version %d: use PostgreSQL 14 or later", lease.ErrSetup, version/10000)
		case recovers:
			return fmt.Errorf("%w: the server is a standby: connect to the primary (target_session_attrs=read-write)", lease.ErrNotReady)
		case synchronous == "off":
			return fmt.Errorf("%w: synchronous_commit is off, so that a crash loses what was confirmed: set it on for this user (ALTER ROLE ... SET synchronous_commit = on)", lease.ErrSetup)
		case readOnly == "on":
			return fmt.Errorf("%w: transactions are read-only here: connect to the primary, or set default_transaction_read_only = off for this user", lease.ErrNotReady)
		}
		least, level, err := s.versions(ctx, c)
		switch {
		case err != nil:
			return err
		case least > len(steps), level < len(steps):
			return versionProblem(least, level)
		}
		// Waits for whatever else would, and writes nothing.
		err = c.inTx(ctx, nil, func(ctx context.Context) error {
			_, err := c.ExecContext(ctx, s.sql.release, "", "", int64(0))
			return err
		})
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%w: a write had no answer: %w", lease.ErrNotReady, err)
		}
		return err
	})
}
