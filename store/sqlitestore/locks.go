package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/sqlledger"
)

var (
	_ store.Locks     = (*Store)(nil)
	_ store.Notifiers = (*Store)(nil)
)

// notifierEvery is how often a waiting notifier asks whether the file has
// changed, which reads one page of shared memory.
const notifierEvery = 20 * time.Millisecond

// ReadLocks implements [store.Locks].
func (s *Store) ReadLocks(ctx context.Context, names ...string) (store.LockReading, error) {
	asked, err := json.Marshal(names)
	if err != nil || len(names) == 0 {
		return store.LockReading{}, errors.Join(errors.New("sqlitestore: read locks: no names"), err)
	}
	r := store.LockReading{Rows: make([]store.LockRow, len(names))}
	err = s.do(ctx, "read locks", func(ctx context.Context, c *sql.Conn, of opened) (err error) {
		rows, err := c.QueryContext(ctx, s.locking.read, string(asked))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			var (
				i       int
				now     int64
				file    string
				floor   sql.NullInt64
				version sql.NullInt64
				queue   []byte
			)
			if err := rows.Scan(&i, &now, &file, &floor, &version, &queue); err != nil {
				return err
			}
			r.Now, r.Server, r.Floor = sqlledger.Instant(now), serverOf(file, of), uint64(floor.Int64)
			r.Rows[i] = store.LockRow{Name: names[i], Version: uint64(version.Int64), Queue: queue}
		}
		return rows.Err()
	})
	return r, err
}

// serverOf identifies a file as a server.
func serverOf(file string, of opened) string { return "sqlite:" + file + fileNumber(of.file) }

// WriteLocks implements [store.Locks].
func (s *Store) WriteLocks(ctx context.Context, server string, writes []store.LockWrite) ([]bool, error) {
	var inserts, updates [][4]any
	for _, w := range writes {
		if err := w.Check(); err != nil {
			return nil, err
		}
		one := [4]any{w.Name, w.Expect, w.Version, hex.EncodeToString(w.Queue)}
		if w.Expect == 0 {
			inserts = append(inserts, one)
		} else {
			updates = append(updates, one)
		}
	}
	written := map[string]bool{}
	err := s.do(ctx, "write locks", func(ctx context.Context, c *sql.Conn, of opened) error {
		var file string
		if err := c.QueryRowContext(ctx, s.locking.file).Scan(&file); err != nil {
			return err
		}
		if serverOf(file, of) != server {
			return nil
		}
		return errors.Join(
			writeLocks(ctx, c, s.locking.insert, inserts, written),
			writeLocks(ctx, c, s.locking.update, updates, written))
	})
	if err != nil {
		return nil, err
	}
	done := make([]bool, len(writes))
	for i, w := range writes {
		done[i] = written[w.Name]
	}
	return done, nil
}

// writeLocks runs a statement that returns the names of the rows it has written.
func writeLocks(ctx context.Context, c *sql.Conn, statement string, writes [][4]any, written map[string]bool) (err error) {
	if len(writes) == 0 {
		return nil
	}
	asked, err := json.Marshal(writes)
	if err != nil {
		return err
	}
	rows, err := c.QueryContext(ctx, statement, string(asked))
	if err != nil {
		return err
	}
	// The statement has taken effect when it has been read to its end.
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		written[name] = true
	}
	return rows.Err()
}

// HeldLocks implements [store.Locks].
func (s *Store) HeldLocks(ctx context.Context, idle time.Duration, after string, limit int) ([]string, error) {
	var found []string
	err := s.do(ctx, "list locks", func(ctx context.Context, c *sql.Conn, _ opened) (err error) {
		rows, err := c.QueryContext(ctx, s.locking.held, after, idle.Microseconds(), limit)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			found = append(found, name)
		}
		return rows.Err()
	})
	return found, err
}

// PruneLocks implements [store.Locks].
func (s *Store) PruneLocks(ctx context.Context, idle time.Duration, limit int) (int, error) {
	var found [][2]any
	err := s.do(ctx, "prune locks", func(ctx context.Context, c *sql.Conn, _ opened) error {
		var highest int64
		var err error
		if found, highest, err = s.idleLocks(ctx, c, idle, limit); err != nil || len(found) == 0 {
			return err
		}
		// First, so that none of them can come back with a lower version.
		if _, err := exec(ctx, c, s.locking.raiseFloor, highest); err != nil {
			return err
		}
		keys, err := json.Marshal(found)
		if err != nil {
			return err
		}
		_, err = exec(ctx, c, s.locking.pruneLocks, string(keys))
		return err
	})
	return len(found), err
}

// idleLocks returns the names and versions of locks without holders and waiters,
// and the highest of the versions.
func (s *Store) idleLocks(ctx context.Context, c *sql.Conn, idle time.Duration, limit int) (found [][2]any, highest int64, err error) {
	rows, err := c.QueryContext(ctx, s.locking.idle, idle.Microseconds(), limit)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		var version int64
		if err := rows.Scan(&name, &version); err != nil {
			return nil, 0, err
		}
		found, highest = append(found, [2]any{name, version}), max(highest, version)
	}
	return found, highest, rows.Err()
}

// PruneSessions implements [store.Locks].
func (s *Store) PruneSessions(ctx context.Context, prefix string, released, expired time.Duration, limit int) (int, error) {
	found := int64(0)
	err := s.do(ctx, "prune sessions of locks", func(ctx context.Context, c *sql.Conn, _ opened) (err error) {
		if found, err = exec(ctx, c, s.locking.pruneLeases, prefix, released.Microseconds(), expired.Microseconds(), limit); err != nil {
			return err
		}
		_, err = exec(ctx, c, s.locking.pruneFences, prefix)
		if err == nil {
			_, err = exec(ctx, c, s.locking.pruneGroups, prefix)
		}
		return err
	})
	return int(found), err
}

// notifier watches the file: SQLite cannot wake another process.
type notifier struct {
	store *Store
}

// Notifier implements [store.Notifiers]. It has no address: while it waits, it asks
// fifty times a second whether the file has changed, and then looks at the rows.
func (s *Store) Notifier() store.Notifier { return notifier{s} }

// Wait implements [store.Notifier].
func (d notifier) Wait(ctx context.Context, rows []store.LockWatch, limit time.Duration) error {
	marks := make([][2]string, len(rows))
	for i, w := range rows {
		marks[i] = [2]string{w.Name, hex.EncodeToString(w.Mark)}
	}
	asked, err := json.Marshal(marks)
	if err != nil {
		return fmt.Errorf("sqlitestore: wait for a notification: %w", err)
	}
	return d.store.do(ctx, "wait for a notification", func(ctx context.Context, c *sql.Conn, _ opened) error {
		over := time.NewTimer(limit)
		defer over.Stop()
		every := time.NewTicker(notifierEvery)
		defer every.Stop()
		for seen := int64(-1); ; {
			var version, moved int64
			if err := c.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version); err != nil {
				return err
			}
			if version != seen {
				if err := c.QueryRowContext(ctx, d.store.locking.moved, string(asked)).Scan(&moved); err != nil || moved > 0 {
					return err
				}
				seen = version
			}
			select {
			case <-over.C:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			case <-d.store.closing.Done():
				return errClosed
			case <-every.C:
			}
		}
	})
}

// Address implements [store.Notifier].
func (d notifier) Address(ctx context.Context) (string, error) { return "", ctx.Err() }

// Notify implements [store.Notifier].
func (d notifier) Notify(ctx context.Context, _ ...string) error { return ctx.Err() }

// Close implements [store.Notifier].
func (d notifier) Close() error { return nil }
