package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// place is what a check of a fenced transaction has to know of the database.
type place struct {
	schema      string // quoted
	manyWriters bool
	snapshots   bool // the server knows snapshotIsolation
}

// learn takes in what a new session says of the database.
func (s *Store) learn(from server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = &place{
		schema:      "`" + strings.ReplaceAll(from.database, "`", "``") + "`",
		manyWriters: from.manyWriters(),
		snapshots:   from.variables[snapshotIsolation] != "",
	}
}

// where returns the place. A store that holds something has had a session.
func (s *Store) where(ctx context.Context) (place, error) {
	s.mu.Lock()
	found := s.found
	s.mu.Unlock()
	if found == nil {
		if err := s.onLook(ctx, "find the database", true, func(context.Context, *session) error { return nil }); err != nil {
			return place{}, err
		}
		s.mu.Lock()
		found = s.found
		s.mu.Unlock()
	}
	return *found, nil
}

// onManyWriters reports whether the store's database is on a cluster with several
// writers, as far as a session has told.
func (s *Store) onManyWriters() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found != nil && s.found.manyWriters
}

// FenceDialect implements [store.Fences].
func (s *Store) FenceDialect() store.Dialect { return store.MySQL }

// CheckHold implements [store.Fences]: by a shared lock on the fence row, or on the
// lock's, or, on a cluster with several writers, by a change of it. The user of
// tx needs SELECT on that table, and UPDATE there.
func (s *Store) CheckHold(ctx context.Context, tx store.Querier, h lease.Hold) (bool, error) {
	where, err := s.where(ctx)
	if err != nil {
		return false, err
	}
	table, check, change, values := "fence", s.fenceSQL.checkLease, s.fenceSQL.changeLease, []any{sqltext.Raw(where.schema), h.Name, h.Owner, h.Token}
	if h.Kind == lease.HoldLock {
		table, check, change, values = "lock", s.fenceSQL.checkLock, s.fenceSQL.changeLock, []any{sqltext.Raw(where.schema), h.Name, string(h.Mark)}
	}
	setting := ""
	if where.snapshots {
		// The row may have changed since the transaction's snapshot without any
		// harm: others queue up for a lock that is held. What counts is the row
		// as it is now.
		setting = pastSnapshot
	}
	var n int64
	if where.manyWriters || s.alwaysWrite {
		var result sql.Result
		result, err = tx.ExecContext(ctx, setting+change.Render(values...))
		if err == nil {
			n, err = result.RowsAffected()
		}
	} else {
		err = tx.QueryRowContext(ctx, setting+check.Render(values...)).Scan(&n)
	}
	if err != nil {
		return false, explainCheck(err, where.schema+"."+s.tables.quoted(table))
	}
	return n == 1, nil
}

// explainCheck adds the cure to what is wrong with the caller's connection.
func explainCheck(err error, table string) error {
	var cure string
	switch mysqlerr.Number(err) {
	case mysqlerr.NoSuchTable, mysqlerr.UnknownDatabase:
		cure = "the transaction is on another server than what it is fenced with: use a pool of that one"
	case mysqlerr.CommandDenied, mysqlerr.ColumnDenied, mysqlerr.AccessDeniedToDatabase:
		cure = "the user of the transaction may not look at what it is fenced with: grant SELECT on " + table + ", and UPDATE on a cluster with several writers"
	default:
		return err
	}
	return fmt.Errorf("mysqlstore: check fence: %w: %w: %s", lease.ErrSetup, err, cure)
}
