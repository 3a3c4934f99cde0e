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
)

// migrationFiles are the steps to the newest version of the tables: the file
// that begins with 0001 leads to version 1, and so on. To change the tables, add
// a file, and never change one that was released.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

var migrations = mustReadMigrations()

func mustReadMigrations() []string {
	entries, err := migrationFiles.ReadDir("migrations")
	if err != nil {
		panic(err)
	}
	var steps []string
	for i, entry := range entries {
		if want := fmt.Sprintf("%04d_", i+1); !strings.HasPrefix(entry.Name(), want) {
			panic(fmt.Sprintf("sqlitestore: migration %s: the name must begin with %s", entry.Name(), want))
		}
		text, err := migrationFiles.ReadFile("migrations/" + entry.Name())
		if err != nil {
			panic(err)
		}
		steps = append(steps, string(text))
	}
	return steps
}

// The file column tells one database from another that has taken its path.
const createSchema = `
CREATE TABLE IF NOT EXISTS cronlease_schema (
  one     INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  version INTEGER NOT NULL,
  file    TEXT    NOT NULL
) STRICT;
INSERT INTO cronlease_schema (one, version, file) VALUES (1, 0, lower(hex(randomblob(16)))) ON CONFLICT (one) DO NOTHING;`

// Migrate creates the file and its tables, or brings them to the version that
// this program needs. It may run in any number of processes at once: one works,
// the others wait for it. It writes nothing when the tables are of that version
// already, and refuses tables of a newer one with an error that matches
// [lease.ErrSetup]. When ctx ends, either all was done or nothing.
func (s *Store) Migrate(ctx context.Context) (err error) {
	if s.closing.Err() != nil {
		return errClosed
	}
	db := sql.OpenDB(&connector{store: s, create: true})
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := s.migrate(ctx, db); err != nil {
		return fmt.Errorf("sqlitestore: migrate: %w", s.explain(ctx, err))
	}
	return nil
}

func (s *Store) migrate(ctx context.Context, db *sql.DB) (err error) {
	version, err := s.version(ctx, db)
	switch {
	case err != nil:
		return err
	case version > len(migrations):
		return fmt.Errorf("%w: %s", lease.ErrSetup, versionProblem(version))
	case version == len(migrations):
		return nil
	}
	if err := useWAL(ctx, db); err != nil {
		return err
	}
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := c.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := upgrade(ctx, c); err != nil {
		// Not on ctx, which may have ended: an open transaction keeps all others out.
		_, undo := c.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return errors.Join(err, undo)
	}
	return nil
}

func upgrade(ctx context.Context, c *sql.Conn) error {
	if _, err := c.ExecContext(ctx, createSchema); err != nil {
		return err
	}
	var version int
	if err := c.QueryRowContext(ctx, "SELECT version FROM cronlease_schema").Scan(&version); err != nil {
		return err
	}
	for i := version; i < len(migrations); i++ {
		if _, err := c.ExecContext(ctx, migrations[i]); err != nil {
			return fmt.Errorf("to version %d: %w", i+1, err)
		}
		if _, err := c.ExecContext(ctx, "UPDATE cronlease_schema SET version = ?1", i+1); err != nil {
			return fmt.Errorf("to version %d: %w", i+1, err)
		}
	}
	_, err := c.ExecContext(ctx, "COMMIT")
	return err
}

// useWAL makes the file one whose readers wait for nobody; it stays so. SQLite
// does not wait for locks here, so this does.
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

// version reads the tables' version; 0 when there are none.
func (s *Store) version(ctx context.Context, db *sql.DB) (int, error) {
	var tables int
	err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'cronlease_schema'").Scan(&tables)
	if err != nil || tables == 0 {
		return 0, err
	}
	var version int
	err = db.QueryRowContext(ctx, "SELECT version FROM cronlease_schema").Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return version, err
}
