package mysqlstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
)

// Check implements [lease.Checker]. It changes nothing and needs no privileges
// beyond those of the other methods. It refuses a server that is too old or
// takes no writes, session settings that cannot be made safe, tables that are
// missing, of another version, not of InnoDB or without the needed grants, and
// a pool that is too small. Each of these errors matches [lease.ErrSetup] and
// names the setting and its cure. That none of several hosts takes writes is
// another kind of error: it may be over soon.
func (s *Store) Check(ctx context.Context) error {
	if err := s.checkPool(); err != nil {
		return err
	}
	err := s.onLook(ctx, "check database", true, func(ctx context.Context, one *session) error {
		// What the session was told when it was opened may be old news.
		now, err := readServer(ctx, one.conn)
		if err != nil {
			return err
		}
		if err := now.check(); err != nil {
			if s.several && now.readOnly() != "" {
				return readOnlyError(now.readOnly()) // there is another host to ask
			}
			return err
		}
		if err := s.checkSchema(ctx, one); err != nil {
			return err
		}
		return s.checkGrants(ctx, one)
	})
	if err != nil {
		return err
	}
	// The connection for heartbeats is there from now on.
	return s.onBeats(ctx, "check database", func(ctx context.Context, one *session) error {
		_, err := one.exec(ctx, fill(s.sql.release, "", "", uint64(0)))
		return err
	})
}

func (s *Store) checkSchema(ctx context.Context, one *session) error {
	version, err := one.count(ctx, s.sql.version)
	if err != nil {
		return err
	}
	if newest := len(migrations); version != newest {
		return versionError(version, newest)
	}
	rows, err := one.conn.QueryContext(ctx, s.sql.engines)
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

func versionError(version, newest int) error {
	if version > newest {
		return fmt.Errorf("%w: the tables are of version %d, and this program knows versions up to %d: update the program",
			lease.ErrSetup, version, newest)
	}
	return fmt.Errorf("%w: the tables are of version %d, and this program needs %d: run Migrate (worker migrate)",
		lease.ErrSetup, version, newest)
}

// checkGrants runs statements on a group that cannot exist, whose name is
// empty: the server checks tables, columns, grants and read_only first.
func (s *Store) checkGrants(ctx context.Context, one *session) error {
	if _, _, err := readRows(ctx, one, fill(s.sql.read, "", "")); err != nil {
		return err
	}
	const none = uint64(0)
	for _, statement := range []string{
		fill(s.sql.insertDeleted, none, "", ""),
		fill(s.sql.insertFence, "", ""),
		fill(s.sql.acquire, "", none, "", none, none, none, "", none, none, none),
	} {
		if _, err := one.exec(ctx, statement); err != nil {
			return err
		}
	}
	return s.checkLedger(ctx, one)
}

// checkLedger leaves DELETE out: only pruning needs it, and says so.
func (s *Store) checkLedger(ctx context.Context, one *session) error {
	var (
		none jobs.Holder
		key  = jobs.Key{Job: "none", Tick: time.Unix(0, 0)}
	)
	for _, statement := range []string{
		s.declareStatement(none, []jobs.Declared{{}}),
		s.claimStatement(none, jobs.ClaimID{}, []jobs.Claim{{Key: key}}),
		s.moveStatement(none, []jobs.Move{{Key: key}}, nil),
		fill(s.runs.pauseJob, false, "", ""),
		fill(s.runs.trigger, 0, "", ""),
		fill(s.runs.cancel, "", "", 0, 0),
	} {
		if _, err := one.exec(ctx, statement); err != nil {
			return err
		}
	}
	_, err := s.load(ctx, one, "")
	return err
}
