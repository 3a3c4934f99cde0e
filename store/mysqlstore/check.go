package mysqlstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
)

// Check implements [store.Checker]. It changes nothing and needs no privileges
// beyond those of the other methods. It refuses a server that is too old or
// takes no writes, or whose shared locks hold up no writer, session settings that cannot be made safe, tables that are
// missing, of another version, not of InnoDB or without the needed grants, and
// a pool that is too small. Each of these errors matches [lease.ErrSetup] and
// names the setting and its cure; a server that takes no writes or gives the
// account too few connections, a refused login, and tables, grants or a database
// that are missing match [lease.ErrNotReady] too. Where connections are few,
// Check lowers the limits of the store's own pools. If none of several hosts takes
// writes, the error matches neither, because that may be over soon.
func (s *Store) Check(ctx context.Context) error {
	if err := s.conns.CheckSize(); err != nil {
		return err
	}
	err := s.conns.Do(ctx, mysqlconn.Readings, mysqlconn.Read, "check database", func(ctx context.Context, c *conn) error {
		if err := s.conns.CheckServer(ctx, c); err != nil {
			return err
		}
		if err := s.checkSchema(ctx, c); err != nil {
			return err
		}
		if err := s.checkGrants(ctx, c); err != nil {
			return err
		}
		// Last: without a grant on it, a table looks as if it were not there.
		gaps, err := s.gaps(ctx, c)
		switch {
		case err != nil:
			return err
		case len(gaps) > 0:
			return gapsError(gaps)
		}
		return s.proveLocks(ctx, c)
	})
	if err != nil {
		return err
	}
	// The connection for heartbeats is there from now on.
	return s.conns.Do(ctx, mysqlconn.Heartbeats, mysqlconn.Write, "check database", func(ctx context.Context, c *conn) error {
		return c.Exec(ctx, s.sql.release.Render("", "", uint64(0)))
	})
}

func (s *Store) checkSchema(ctx context.Context, c *conn) error {
	least, level, err := s.versions(ctx, c)
	switch {
	case err != nil:
		return err
	case least > len(migrations):
		return newerError(least, level)
	case level < len(migrations):
		return olderError(level)
	}
	rows, err := c.Query(ctx, s.schemaSQL.engines.Render())
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
		lease.ErrSetup, level, least, len(migrations))
}

func olderError(level int) error {
	return fmt.Errorf("%w: the tables are of version %d, and this program needs %d: run Migrate (worker migrate)",
		lease.ErrNotReady, level, len(migrations))
}

// checkGrants runs statements on a group that cannot exist, whose name is
// empty: the server checks tables, columns, grants and read_only first.
func (s *Store) checkGrants(ctx context.Context, c *conn) error {
	if _, _, err := readRows(ctx, c, s.sql.read.Render("", "")); err != nil {
		return err
	}
	const none = uint64(0)
	for _, statement := range []string{
		s.sql.insertDeleted.Render(none, "", ""),
		s.sql.insertFence.Render("", ""),
		s.sql.acquire.Render("", none, "", none, none, none, "", none, none, none),
	} {
		if err := c.Exec(ctx, statement); err != nil {
			return err
		}
	}
	if err := s.checkLedger(ctx, c); err != nil {
		return err
	}
	for _, statement := range s.schemaSQL.probes {
		if err := c.Exec(ctx, statement.Render()); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) checkLedger(ctx context.Context, c *conn) error {
	var (
		none store.Holder
		key  = jobs.Key{Job: "none", Tick: time.Unix(0, 0)}
	)
	for _, statement := range []string{
		s.declareStatement(none, []store.Declared{{}}),
		s.claimStatement(none, store.ClaimID{}, []store.Claim{{Key: key}}),
		s.moveStatement(none, []store.Move{{Key: key}}, nil),
		s.runs.pauseJob.Render("", ""),
		s.runs.trigger.Render(0, "", ""),
		s.runs.cancel.Render("", "", 0, 0),
	} {
		if err := c.Exec(ctx, statement); err != nil {
			return err
		}
	}
	_, err := s.load(ctx, c, "")
	return err
}
