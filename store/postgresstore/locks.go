package postgresstore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/sqlledger"
)

// lockWait is how long a write waits for its row, if it does, in milliseconds.
const lockWait = "1000"

// ReadLocks implements [store.Locks].
func (s *Store) ReadLocks(ctx context.Context, names ...string) (store.LockReading, error) {
	asked, err := json.Marshal(names)
	if err != nil || len(names) == 0 {
		return store.LockReading{}, errors.Join(errors.New("postgresstore: read locks: no names"), err)
	}
	r := store.LockReading{Rows: make([]store.LockRow, len(names))}
	err = s.do(ctx, "read locks", func(ctx context.Context, c conn) error {
		return sqlledger.Each(ctx, c, s.locking.read, []any{string(asked)}, func(rows *sql.Rows) error {
			var (
				i, now         int64
				floor, version sql.NullInt64
				queue          []byte
			)
			err := rows.Scan(&i, &now, &r.Server, &floor, &version, &queue)
			r.Now, r.Floor = sqlledger.Instant(now), uint64(floor.Int64)
			r.Rows[i] = store.LockRow{Name: names[i], Version: uint64(version.Int64), Queue: queue}
			return err
		})
	})
	return r, err
}

// WriteLocks implements [store.Locks].
func (s *Store) WriteLocks(ctx context.Context, server string, writes []store.LockWrite) ([]bool, error) {
	inserts, updates, waits := [][4]any{}, [][4]any{}, false
	for _, w := range writes {
		if err := w.Check(); err != nil {
			return nil, err
		}
		if tooLarge(w.Expect, w.Version) {
			continue // no row can have it
		}
		one := [4]any{w.Name, w.Expect, w.Version, hex.EncodeToString(w.Queue)}
		if w.Expect == 0 {
			inserts = append(inserts, one)
		} else {
			updates = append(updates, one)
		}
		waits = waits || w.Wait
	}
	written := map[string]bool{}
	read := func(rows pgx.Rows) error {
		var name string
		err := rows.Scan(&name)
		written[name] = true
		return err
	}
	err := s.writeLocks(ctx, s.locking.insert, server, inserts, read)
	if err == nil && waits {
		err = s.writeLocks(ctx, s.locking.updateOne, server, updates, read)
		if code(err) == lockNotAvailable {
			err = nil
		}
	} else if err == nil {
		err = s.writeLocks(ctx, s.locking.update, server, updates, read)
	}
	if err != nil {
		return nil, err
	}
	done := make([]bool, len(writes))
	for i, w := range writes {
		done[i] = written[w.Name]
	}
	return done, nil
}

func (s *Store) writeLocks(ctx context.Context, statement, server string, writes [][4]any, read func(pgx.Rows) error) error {
	if len(writes) == 0 {
		return nil
	}
	asked, err := json.Marshal(writes)
	if err != nil {
		return err
	}
	_, err = s.once(ctx, "write locks", read,
		sqlledger.Statement{Text: "SELECT set_config('lock_timeout', $1::text, true)", Args: []any{lockWait}},
		sqlledger.Statement{Text: statement, Args: []any{string(asked), server}})
	return err
}

// HeldLocks implements [store.Locks].
func (s *Store) HeldLocks(ctx context.Context, idle time.Duration, after string, limit int) (found []string, err error) {
	err = s.do(ctx, "list locks", func(ctx context.Context, c conn) error {
		return sqlledger.Each(ctx, c, s.locking.held, []any{after, idle.Microseconds(), limit}, func(rows *sql.Rows) error {
			var name string
			err := rows.Scan(&name)
			found = append(found, name)
			return err
		})
	})
	return found, err
}

// PruneLocks implements [store.Locks].
func (s *Store) PruneLocks(ctx context.Context, idle time.Duration, limit int) (int, error) {
	found, highest := [][2]any{}, int64(0)
	err := s.do(ctx, "prune locks", func(ctx context.Context, c conn) error {
		return sqlledger.Each(ctx, c, s.locking.idle, []any{idle.Microseconds(), limit}, func(rows *sql.Rows) error {
			var name string
			var version int64
			err := rows.Scan(&name, &version)
			found, highest = append(found, [2]any{name, version}), max(highest, version)
			return err
		})
	})
	if err != nil || len(found) == 0 {
		return 0, err
	}
	keys, err := json.Marshal(found)
	if err != nil {
		return 0, err
	}
	// The floor first, so that none of them can come back with a lower version.
	if _, err := (database{s}).Exec(ctx, "prune locks", sqlledger.Statement{Text: s.locking.raiseFloor, Args: []any{highest}}); err != nil {
		return 0, err
	}
	_, err = database{s}.Exec(ctx, "prune locks", sqlledger.Statement{Text: s.locking.pruneLocks, Args: []any{string(keys)}})
	return len(found), err
}

// PruneSessions implements [store.Locks].
func (s *Store) PruneSessions(ctx context.Context, prefix string, released, expired time.Duration, limit int) (int, error) {
	n, err := database{s}.Exec(ctx, "prune sessions", sqlledger.Statement{
		Text: s.locking.pruneLeases, Args: []any{prefix, released.Microseconds(), expired.Microseconds(), limit},
	})
	if err != nil {
		return 0, err
	}
	_, err = s.once(ctx, "prune sessions", nil,
		sqlledger.Statement{Text: s.locking.pruneFences, Args: []any{prefix}},
		sqlledger.Statement{Text: s.locking.pruneGroups, Args: []any{prefix}})
	return int(n), err
}
