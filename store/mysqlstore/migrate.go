package mysqlstore

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/internal/migrations"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
)

// schema is the tables: what makes them, and what checks them.
type schema struct {
	conns  *mysqlconn.Pool
	sql    *schemaQueries
	tables tables

	mu     sync.Mutex // guards what follows
	proven string     // the server whose shared locks hold up writers
}

// migrationFiles are the steps to the newest version of the tables: the file
// that begins with 0001 leads to version 1, and so on. To change the tables,
// add a file, and never change one that was released.
//
// A statement ends with a semicolon at the end of a line, and {name} stands for
// the quoted name of the table "name" with its prefix (see [tables]). Servers
// commit each DDL statement by itself, so a step may be cut off between two, and
// all steps are repeated where a table is missing: each statement must be harmless
// when it is repeated. Where the dialects have no IF NOT EXISTS, one statement adds
// or drops one column or key, and that it is there or gone already is no error. A
// new column has a default, so that earlier programs can insert rows. An ALTER of a
// table says LOCK=NONE, so that a server refuses what would keep writers waiting.
//
// The line "-- For programs from version N on." says which programs can use the
// tables after the step; without it, only those that know the step.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

// steps lead to the newest version. In the table schema, the newest version is the
// least that a program has to know.
var steps = migrations.MustRead("mysqlstore", migrationFiles)

// patience is how long Migrate tries a step while another session has the table.
const patience = 5 * time.Minute

// Migrate creates the tables or brings them to the version that this program
// needs, and makes tables and keys that are missing, as after a restore of some
// tables. It may run in any number of replicas at once: one works, the others
// wait for it. It does nothing, and needs no privileges for DDL, when the
// tables are of that version already, or of a newer one that this program can
// use. It refuses tables that it cannot use with an error that matches
// [lease.ErrSetup], and names columns that are missing. When ctx ends, a statement may still be
// carried out; another Migrate goes on from there.
//
// A step waits for open transactions on its table, and all other statements on that table wait
// behind it. So it waits for a second, lets the others pass, and tries again. After
// five minutes it fails with an error that matches [lease.ErrNotReady] and names the session that
// is in the way.
func (s *schema) Migrate(ctx context.Context) error {
	_, err := s.MigrateSteps(ctx, patience, func(string) {}, func(error) {})
	return err
}

// MigrateSteps is Migrate with another patience (0: until ctx ends). It calls made for each step once it is done: with the
// step's name, such as "0003_locks", or what was missing and is there again. It calls held
// whenever something is in the way and it is about to try again. It
// returns the level of the tables, which is the number of their newest step.
func (s *schema) MigrateSteps(ctx context.Context, patience time.Duration, made func(step string), held func(error)) (level int, err error) {
	ctx, cancel := s.conns.Bind(ctx)
	defer cancel()
	m := &migration{schema: s, patience: patience, made: made, held: held}
	level, err = m.run(ctx)
	switch {
	case err == nil:
		return level, nil
	case s.conns.Stopped():
		err = mysqlconn.ErrClosed
	case ctx.Err() != nil && m.inTheWay != nil:
		err = fmt.Errorf("%w: %w", ctx.Err(), m.inTheWay)
	case ctx.Err() != nil:
		err = ctx.Err()
	}
	return 0, fmt.Errorf("migrate: %w", s.conns.Explain(err))
}

// versions reads the least version that a program has to know, and the newest
// step that was made; see [migrations.Step].
func (s *schema) versions(ctx context.Context, c *conn) (least, level int, err error) {
	err = c.QueryRow(ctx, s.sql.version.Render()).Scan(&least, &level)
	if mysqlerr.Number(err) == mysqlerr.UnknownColumn { // tables from before levels
		err = c.QueryRow(ctx, s.sql.oldVersion.Render()).Scan(&least, &level)
	}
	return least, level, err
}

// migrated reports whether there is nothing to do, and the level of the tables.
func (s *schema) migrated(ctx context.Context, c *conn) (level int, done bool, err error) {
	least, level, err := s.versions(ctx, c)
	switch {
	case mysqlerr.Number(err) == mysqlerr.NoSuchTable, mysqlerr.Number(err) == mysqlerr.CommandDenied:
		// Both may be what an account sees before the tables are there.
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case least > len(steps):
		return 0, false, newerError(least, level)
	case level < len(steps):
		return level, false, nil
	}
	gaps, err := s.gaps(ctx, c)
	return level, len(gaps) == 0, err
}

// checkVersion refuses tables that this program cannot use, or that hold no locks.
func (s *schema) checkVersion(ctx context.Context, c *conn) error {
	least, level, err := s.versions(ctx, c)
	switch {
	case err != nil:
		return err
	case least > len(steps):
		return newerError(least, level)
	case level < len(steps):
		return olderError(level)
	}
	rows, err := c.Query(ctx, s.sql.engines.Render())
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var table, engine string
		if err := rows.Scan(&table, &engine); err != nil {
			return err
		}
		if !strings.EqualFold(engine, "InnoDB") {
			return fmt.Errorf("%w: table %s has the engine %s: ALTER TABLE %s ENGINE=InnoDB", lease.ErrSetup, table, engine, table)
		}
	}
	return rows.Err()
}

// newerError is of tables that this program cannot use.
func newerError(least, level int) error {
	return fmt.Errorf("%w: the tables are of version %d, for programs that know version %d, and this one knows versions up to %d: update the program",
		lease.ErrSetup, level, least, len(steps))
}

func olderError(level int) error {
	return fmt.Errorf("%w: the tables are of version %d, and this program needs %d: run Migrate (worker migrate)",
		lease.ErrNotReady, level, len(steps))
}
