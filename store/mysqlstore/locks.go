package mysqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// lockRows are the rows of locks, and the notifiers of waiters.
type lockRows struct {
	conns    *mysqlconn.Pool
	sql      *lockQueries
	restLock string // what its notifiers wait for, see [notifier]

	mu        sync.Mutex // guards what follows
	notifiers map[*notifier]struct{}
}

// floorName is the name of the row whose version is the floor (see
// [store.LockReading]). No lock can have it.
const floorName = ""

// ReadLocks implements [store.Locks].
func (l *lockRows) ReadLocks(ctx context.Context, names ...string) (store.LockReading, error) {
	if len(names) == 0 {
		return store.LockReading{}, errors.New("mysqlstore: read locks: no names")
	}
	asked := make(sqltext.List, len(names), len(names)+1)
	for i, name := range names {
		asked[i] = name
	}
	query := l.sql.read.Render(append(asked, floorName))
	var r store.LockReading
	err := l.conns.Do(ctx, mysqlconn.Locks, mysqlconn.Read, "read locks", func(ctx context.Context, c *conn) error {
		rows, now, err := readLocks(ctx, c, query)
		if err != nil {
			return err
		}
		if len(rows) == 0 { // the floor's row was deleted
			if now, err = c.Count(ctx, readClock.Render()); err != nil {
				return err
			}
		}
		r = store.LockReading{Now: time.UnixMicro(int64(now)).UTC(), Server: c.Server.Identity, Floor: rows[floorName].Version, Rows: make([]store.LockRow, len(names))}
		for i, name := range names {
			r.Rows[i] = store.LockRow{Name: name, Version: rows[name].Version, Queue: rows[name].Queue}
		}
		return nil
	})
	return r, err
}

// readLocks returns the rows by their names, and the database's clock in
// microseconds since 1970 if there is any.
func readLocks(ctx context.Context, c *conn, query string) (found map[string]store.LockRow, now int, err error) {
	rows, err := c.Query(ctx, query)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	found = map[string]store.LockRow{}
	for rows.Next() {
		var row store.LockRow
		if err := rows.Scan(&row.Name, &row.Version, &row.Queue, &now); err != nil {
			return nil, 0, err
		}
		found[row.Name] = row
	}
	return found, now, rows.Err()
}

// WriteLocks implements [store.Locks]. A write that waits does so for up to 1 s,
// and so does one of new rows if a transaction has looked for one of them under
// REPEATABLE READ.
func (l *lockRows) WriteLocks(ctx context.Context, server string, writes []store.LockWrite) ([]bool, error) {
	var inserts, updates []store.LockWrite
	for _, w := range writes {
		if err := checkLockWrite(w); err != nil {
			return nil, err
		}
		if w.Expect == 0 {
			inserts = append(inserts, w)
		} else {
			updates = append(updates, w)
		}
	}
	sorted := func(a, b store.LockWrite) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(inserts, sorted)
	slices.SortFunc(updates, sorted)

	written := make(map[string]bool, len(writes))
	do := func(ctx context.Context, c *conn) error {
		if c.Server.Identity != server {
			return nil
		}
		// Updates do not wait, so they come first.
		for some := range pieces(updates, len(updates), func(w store.LockWrite) int { return len(w.Queue) }) {
			if err := l.updateLocks(ctx, c, some, written); err != nil {
				return err
			}
		}
		for some := range pieces(inserts, len(inserts), func(w store.LockWrite) int { return len(w.Queue) }) {
			if err := l.insertLocks(ctx, c, some, written); err != nil {
				return err
			}
		}
		return nil
	}
	lane := mysqlconn.Locks
	if len(writes) == 1 && writes[0].Wait {
		lane = mysqlconn.WaitingLocks
	}
	err := l.conns.Do(ctx, lane, mysqlconn.Write, "write locks", do)
	if err != nil {
		return nil, err
	}
	done := make([]bool, len(writes))
	for i, w := range writes {
		done[i] = written[w.Name]
	}
	return done, nil
}

func checkLockWrite(w store.LockWrite) error {
	if err := w.Check(); err != nil {
		return err
	}
	const most = 1 << 24 // of a MEDIUMBLOB
	if len(w.Queue) >= most {
		return fmt.Errorf("mysqlstore: the queue of lock %q takes %d bytes: at most %d", w.Name, len(w.Queue), most-1)
	}
	return nil
}

// insertLocks inserts all of the rows or, when one of them is there already or
// has a version that is not above the floor, none.
func (l *lockRows) insertLocks(ctx context.Context, c *conn, writes []store.LockWrite, written map[string]bool) error {
	if len(writes) == 0 {
		return nil
	}
	rows, lowest := make(sqltext.Values, len(writes)), writes[0].Version
	for i, w := range writes {
		rows[i] = sqltext.Row{w.Name, w.Version, string(w.Queue)}
		lowest = min(lowest, w.Version)
	}
	statement := l.sql.insert.Render(rows, lowest)
	n := 0
	insert := func() error {
		return mysqlconn.RetryDeadlocks(ctx, func() (err error) {
			n, err = c.Changed(ctx, statement)
			return err
		})
	}
	err := insert()
	if err == nil && n == 0 {
		// Either the floor is as high, or its row was deleted.
		if err = l.raiseFloor(ctx, c, 0); err == nil {
			err = insert()
		}
	}
	switch mysqlerr.Number(err) {
	case mysqlerr.DuplicateKey, mysqlerr.LockWaitTimeout:
		return nil
	}
	if err != nil {
		return err
	}
	for _, w := range writes {
		written[w.Name] = n > 0
	}
	return nil
}

// raiseFloor makes the floor at least as high as the version.
func (l *lockRows) raiseFloor(ctx context.Context, c *conn, version uint64) error {
	return mysqlconn.RetryDeadlocks(ctx, func() error {
		return c.Exec(ctx, l.sql.raiseFloor.Render(version))
	})
}

// updateLocks writes those rows that are as expected, and reads back which they
// were if it was not all.
func (l *lockRows) updateLocks(ctx context.Context, c *conn, writes []store.LockWrite, written map[string]bool) error {
	n := 0
	update := func(statement string) error {
		return mysqlconn.RetryDeadlocks(ctx, func() (err error) {
			n, err = c.Changed(ctx, statement)
			return err
		})
	}
	waits := len(writes) == 1 && writes[0].Wait
	now := !waits && c.Server.IsMariaDB()
	err := update(l.updateStatement(writes, waits, now))
	if now && mysqlerr.Number(err) == mysqlerr.LockWaitTimeout {
		err = update(l.updateStatement(writes, waits, false))
	}
	switch {
	case mysqlerr.Number(err) == mysqlerr.LockWaitTimeout:
		return nil
	case err != nil:
		return err
	case n == len(writes):
		for _, w := range writes {
			written[w.Name] = true
		}
		return nil
	case n == 0:
		return nil
	}
	names := make(sqltext.List, len(writes))
	for i, w := range writes {
		names[i] = w.Name
	}
	rows, _, err := readLocks(ctx, c, l.sql.read.Render(names))
	if err != nil {
		return err
	}
	for _, w := range writes {
		row := rows[w.Name]
		written[w.Name] = row.Version == w.Version && bytes.Equal(row.Queue, w.Queue)
	}
	return nil
}

// updateStatement is a statement that waits for the only row, fails now if one is
// locked, or skips those that are.
func (l *lockRows) updateStatement(writes []store.LockWrite, waits, now bool) string {
	if w := writes[0]; waits {
		return l.sql.write.Render(w.Version, string(w.Queue), w.Name, w.Expect)
	}
	names := make(sqltext.List, len(writes))
	version, queue, expected := make(sqltext.ByName, len(writes)), make(sqltext.ByName, len(writes)), make(sqltext.ByName, len(writes))
	for i, w := range writes {
		names[i] = w.Name
		version[i], queue[i], expected[i] = sqltext.Named{Name: w.Name, Value: w.Version}, sqltext.Named{Name: w.Name, Value: string(w.Queue)}, sqltext.Named{Name: w.Name, Value: w.Expect}
	}
	if now {
		return l.sql.writeNow.Render(version, queue, names, expected)
	}
	return l.sql.writeFree.Render(names, expected, len(writes), version, queue)
}

// HeldLocks implements [store.Locks].
func (l *lockRows) HeldLocks(ctx context.Context, idle time.Duration, after string, limit int) ([]string, error) {
	var found []string
	err := l.conns.Do(ctx, mysqlconn.Locks, mysqlconn.Read, "list locks", func(ctx context.Context, c *conn) error {
		_, names, err := keysOf(ctx, c, l.sql.held.Render(after, idle.Microseconds(), limit))
		found = make([]string, len(names))
		for i, name := range names {
			found[i] = name.(string)
		}
		return err
	})
	return found, err
}

// PruneLocks implements [store.Locks]. It needs the privilege DELETE on the
// table of locks.
func (l *lockRows) PruneLocks(ctx context.Context, idle time.Duration, limit int) (int, error) {
	found := 0
	err := l.conns.Do(ctx, mysqlconn.Locks, mysqlconn.Write, "prune locks", func(ctx context.Context, c *conn) error {
		keys, names, err := keysOf(ctx, c, l.sql.idle.Render(idle.Microseconds(), limit))
		if err != nil || len(keys) == 0 {
			return err
		}
		highest := uint64(0)
		for _, key := range keys {
			highest = max(highest, key.(sqltext.Row)[1].(uint64))
		}
		// First, so that none of them can come back with a lower version.
		if err := l.raiseFloor(ctx, c, highest); err != nil {
			return err
		}
		return mysqlconn.RetryDeadlocks(ctx, func() error {
			n, err := c.Changed(ctx, l.sql.pruneLocks.Render(names, keys, len(keys)))
			if n > 0 { // else all of them are locked: another call would not help
				found = len(keys)
			}
			return err
		})
	})
	return found, err
}

// PruneSessions implements [store.Locks]. It needs the privilege DELETE on the
// tables of leases and fences.
func (l *lockRows) PruneSessions(ctx context.Context, prefix string, released, expired time.Duration, limit int) (int, error) {
	found := 0
	err := l.conns.Do(ctx, mysqlconn.Locks, mysqlconn.Write, "prune sessions of locks", func(ctx context.Context, c *conn) error {
		pattern := strings.NewReplacer("\\", "\\\\", "%", "\\%", "_", "\\_").Replace(prefix) + "%"
		keys, names, err := keysOf(ctx, c, l.sql.idleSessions.Render(pattern, released.Microseconds(), expired.Microseconds(), limit))
		if err != nil || len(keys) == 0 {
			return err
		}
		n, err := c.Changed(ctx, l.sql.pruneLeases.Render(names, keys, released.Microseconds(), expired.Microseconds(), len(keys)))
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		found = len(keys)
		// Of those whose leases are still there, the fences stay too.
		_, left, err := keysOf(ctx, c, l.sql.sessionsLeft.Render(names))
		if err != nil {
			return err
		}
		keys = slices.DeleteFunc(keys, func(key any) bool { return slices.Contains(left, key.(sqltext.Row)[0]) })
		names = slices.DeleteFunc(names, func(name any) bool { return slices.Contains(left, name) })
		return c.Exec(ctx, l.sql.pruneFences.Render(names, keys, len(keys)))
	})
	return found, err
}

// keysOf reads names and the numbers that go with them.
func keysOf(ctx context.Context, c *conn, query string) (keys, names sqltext.List, err error) {
	rows, err := c.Query(ctx, query)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var number uint64
		if err := rows.Scan(&name, &number); err != nil {
			return nil, nil, err
		}
		names = append(names, name)
		keys = append(keys, sqltext.Row{name, number})
	}
	return keys, names, rows.Err()
}
