package sqlitestore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/internal/migrations"
)

// migrationFiles are the steps to the newest version of the tables: the file
// that begins with 0001 leads to version 1, and so on. To change the tables, add
// a file, and never change one that was released. A new column has a default, so
// that earlier programs can insert rows. Where a table is missing, the rows that
// steps insert are inserted again, which must be harmless.
//
// The line "-- For programs from version N on." says which programs can use the
// tables after the step; without it, only those that know the step.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

// steps lead to the newest version. In cronlease_schema, the version is the least
// that a program has to know.
var steps = migrations.MustRead("sqlitestore", migrationFiles)

// The file column tells one database from another that has taken its path.
const createSchema = `
CREATE TABLE IF NOT EXISTS cronlease_schema (
  one     INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  version INTEGER NOT NULL,
  file    TEXT    NOT NULL,
  level   INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO cronlease_schema (one, version, file) VALUES (1, 0, lower(hex(randomblob(16)))) ON CONFLICT (one) DO NOTHING;`

// Migrate creates the file and its tables, or brings them to the version that
// this program needs, and makes tables, indexes and triggers that are missing. It
// may run in any number of processes at once: one works, the others wait for it.
// It writes nothing when the tables are of that version already, or of a newer one
// that this program can use. It refuses tables that it cannot use with an error
// that matches [lease.ErrSetup], and names columns that are missing. When ctx ends, either all was done or nothing.
//
// It waits for another process that writes the file: for five minutes, then it fails with an error that matches
// [lease.ErrNotReady]. Readers are not in its way, nor it in theirs.
func (s *Store) Migrate(ctx context.Context) error {
	_, err := s.MigrateSteps(ctx, patience, func(string) {}, func(error) {})
	return err
}

const (
	// patience is how long Migrate waits for another process that writes.
	patience = 5 * time.Minute
	// tellEvery is how often such a wait is told.
	tellEvery = 2 * time.Second
)

// MigrateSteps is Migrate with another patience (0: until ctx ends). It calls made, once all is done, for each step: with
// the step's name, such as "0003_locks", or what was missing and is there again. It calls held
// every two seconds while another process writes. It
// returns the level of the tables, which is the number of their newest step.
func (s *Store) MigrateSteps(ctx context.Context, patience time.Duration, made func(step string), held func(error)) (level int, err error) {
	if s.closing.Err() != nil {
		return 0, errClosed
	}
	db := sql.OpenDB(&connector{store: s, create: true})
	defer func() { err = errors.Join(err, db.Close()) }()
	wait := func(do func(context.Context) error) error {
		for began := time.Now(); ; {
			limited, cancel := context.WithTimeout(ctx, tellEvery)
			err := do(limited)
			late := limited.Err() != nil && ctx.Err() == nil
			cancel()
			if err == nil || !late {
				return err
			}
			busy := fmt.Errorf("%w: another process writes it, or has locked it", lease.ErrNotReady)
			if waited := time.Since(began); patience > 0 && waited >= patience {
				return fmt.Errorf("given up after %v: %w", waited.Round(time.Second), busy)
			}
			held(fmt.Errorf("%s: %w", s.path, busy))
		}
	}
	level, steps, err := s.migrate(ctx, db, wait)
	if err != nil {
		return 0, fmt.Errorf("sqlitestore: migrate: %w", s.explain(ctx, err))
	}
	for _, step := range steps {
		made(step)
	}
	return level, nil
}

// migrate calls wait for what other processes can hold up.
func (s *Store) migrate(ctx context.Context, db *sql.DB, wait func(func(context.Context) error) error) (level int, made []string, err error) {
	least, level, err := s.versions(ctx, db)
	switch {
	case err != nil:
		return 0, nil, err
	case least > len(steps):
		return 0, nil, fmt.Errorf("%w: %s", lease.ErrSetup, versionProblem(least, level))
	case level >= len(steps):
		if gaps, err := readGaps(ctx, db); err != nil || len(gaps) == 0 {
			return level, nil, err
		}
	}
	if err := wait(func(ctx context.Context) error { return useWAL(ctx, db) }); err != nil {
		return 0, nil, err
	}
	c, err := db.Conn(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	begin := func(ctx context.Context) error {
		_, err := c.ExecContext(ctx, "BEGIN IMMEDIATE")
		return err
	}
	if err := wait(begin); err != nil {
		return 0, nil, err
	}
	if level, made, err = upgrade(ctx, c); err != nil {
		// Not on ctx, which may have ended: an open transaction keeps all others out.
		_, undo := c.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return 0, nil, errors.Join(err, undo)
	}
	return level, made, nil
}

// upgrade returns the level of the tables and what it has made.
func upgrade(ctx context.Context, c *sql.Conn) (level int, made []string, err error) {
	if _, err := c.ExecContext(ctx, createSchema); err != nil {
		return 0, nil, err
	}
	// The table may be older than levels.
	const hasLevel = "SELECT count(*) FROM pragma_table_info('cronlease_schema') WHERE name = 'level'"
	var columns int
	if err := c.QueryRowContext(ctx, hasLevel).Scan(&columns); err != nil {
		return 0, nil, err
	}
	if columns == 0 {
		if _, err := c.ExecContext(ctx, "ALTER TABLE cronlease_schema ADD COLUMN level INTEGER NOT NULL DEFAULT 0"); err != nil {
			return 0, nil, err
		}
	}
	if err := c.QueryRowContext(ctx, "SELECT max(version, level) FROM cronlease_schema").Scan(&level); err != nil {
		return 0, nil, err
	}
	for i := level; i < len(steps); i++ {
		if _, err := c.ExecContext(ctx, steps[i].Text); err != nil {
			return 0, nil, fmt.Errorf("to version %d: %w", i+1, err)
		}
		const update = "UPDATE cronlease_schema SET version = max(version, ?1), level = ?2"
		if _, err := c.ExecContext(ctx, update, steps[i].Least, i+1); err != nil {
			return 0, nil, fmt.Errorf("to version %d: %w", i+1, err)
		}
		made = append(made, steps[i].Name)
	}
	mended, err := repair(ctx, c)
	if err != nil {
		return 0, nil, err
	}
	_, err = c.ExecContext(ctx, "COMMIT")
	return max(level, len(steps)), append(made, mended...), err
}

// useWAL switches the file to WAL mode, in which readers do not wait for writers;
// the mode is kept in the file. SQLite does not wait for locks here, so this does.
func useWAL(ctx context.Context, db *sql.DB) error {
	const again = 10 * time.Millisecond
	for {
		var mode string
		err := db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
		var e *sqlite.Error
		busy := errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_BUSY
		switch {
		case err != nil && !busy:
			return err
		case err == nil && mode != "wal":
			return fmt.Errorf("%w: the file cannot have a write-ahead log (its journal mode is %s): put it on a local disk", lease.ErrSetup, mode)
		case err == nil:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(again):
		}
	}
}

// versions reads the least version that a program has to know, and the newest step
// that was made, see [migrations.Step]; both are 0 when there are no tables.
func (s *Store) versions(ctx context.Context, db *sql.DB) (least, level int, err error) {
	var columns string
	err = db.QueryRowContext(ctx, "SELECT coalesce(group_concat(name), '') FROM pragma_table_info('cronlease_schema')").Scan(&columns)
	if err != nil || columns == "" {
		return 0, 0, err
	}
	query := "SELECT version, max(version, level) FROM cronlease_schema"
	if !strings.Contains(columns, "level") {
		query = "SELECT version, version FROM cronlease_schema"
	}
	err = db.QueryRowContext(ctx, query).Scan(&least, &level)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, nil
	}
	return least, level, err
}
