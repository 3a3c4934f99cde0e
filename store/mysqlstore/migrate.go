package mysqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strings"
)

// migrationFiles are the steps to the newest version of the tables: the file
// that begins with 0001 leads to version 1, and so on. To change the tables,
// add a file, and never change one that was released.
//
// A statement ends with a semicolon at the end of a line, and {name} stands for
// the quoted name of the table "name" with its prefix (see tableNames). Servers
// commit each DDL statement by itself, so a step may be cut off between two: each
// statement must be harmless when it is repeated.
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
			panic(fmt.Sprintf("mysqlstore: migration %s: the name must begin with %s", entry.Name(), want))
		}
		text, err := migrationFiles.ReadFile("migrations/" + entry.Name())
		if err != nil {
			panic(err)
		}
		steps = append(steps, string(text))
	}
	return steps
}

// statements returns the statements of a migration, without comments.
func statements(migration, prefix string) []string {
	var lines []string
	for line := range strings.Lines(migration) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			lines = append(lines, line)
		}
	}
	names := tableNames(prefix)
	var all []string
	for statement := range strings.SplitSeq(strings.Join(lines, ""), ";\n") {
		if statement = strings.TrimSpace(statement); statement != "" {
			all = append(all, names.Replace(statement))
		}
	}
	return all
}

// Migrate creates the tables or brings them to the version that this program
// needs. It may run in any number of replicas at once: one works, the others
// wait for it. It does nothing, and needs no privileges for DDL, when the
// tables are of that version already, and refuses tables of a newer one with an
// error that matches [lease.ErrSetup]. When ctx ends, a statement may still be
// carried out; another Migrate goes on from there.
func (s *Store) Migrate(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	err := s.migrate(ctx)
	switch {
	case err == nil:
		return nil
	case s.closing.Err() != nil:
		err = errClosed
	case ctx.Err() != nil:
		err = ctx.Err()
	}
	return fmt.Errorf("migrate: %w", s.explain(err))
}

func (s *Store) migrate(ctx context.Context) error {
	one, err := openSession(ctx, s.pins, settings{lockWait: migrateLockWait})
	if err != nil {
		return err
	}
	defer one.discard() // and with it goes the lock
	if done, err := s.migrated(ctx, one); done || err != nil {
		return err
	}
	if err := one.server.check(); err != nil {
		return err
	}

	// The lock belongs to the connection that all statements use: it cannot be
	// lost without the statements failing. Where GET_LOCK does not reach (two
	// nodes of a cluster), statements that may be repeated are what remains.
	if err := lockMigrations(ctx, one, lockName(one.server.database, s.prefix, "migrate\x00")); err != nil {
		return err
	}
	if _, err := one.exec(ctx, s.sql.createSchema); err != nil {
		return fmt.Errorf("create table %s: %w", s.sql.schema, err)
	}
	for {
		version, err := one.count(ctx, s.sql.version)
		if err != nil {
			return err
		}
		if version == len(migrations) {
			return nil
		}
		if version > len(migrations) {
			return versionError(version, len(migrations))
		}
		for _, statement := range statements(migrations[version], s.prefix) {
			if _, err := one.exec(ctx, statement); err != nil {
				return fmt.Errorf("to version %d: %w", version+1, err)
			}
		}
		if _, err := one.exec(ctx, fill(s.sql.insertVersion, version+1)); err != nil {
			return fmt.Errorf("to version %d: %w", version+1, err)
		}
	}
}

// migrated reports whether there is nothing to do.
func (s *Store) migrated(ctx context.Context, one *session) (bool, error) {
	version, err := one.count(ctx, s.sql.version)
	switch {
	case number(err) == noSuchTable, number(err) == commandDenied:
		// Both may be what an account sees before the tables are there.
		return false, nil
	case err != nil:
		return false, err
	case version > len(migrations):
		return false, versionError(version, len(migrations))
	}
	return version == len(migrations), nil
}

func lockMigrations(ctx context.Context, one *session, name string) error {
	for {
		var got sql.NullInt64
		err := one.conn.QueryRowContext(ctx, fill(getLock, name, 5)).Scan(&got)
		switch {
		case err != nil:
			return fmt.Errorf("wait for other migrations: %w", err)
		case got.Int64 == 1:
			return nil
		case !got.Valid:
			return errors.New("wait for other migrations: the server has no GET_LOCK to give")
		}
	}
}
