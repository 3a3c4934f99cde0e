package mysqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
)

// lockWait is how long a write waits for a fenced transaction under one of its
// locks to end.
const lockWait = 1 * time.Second

// ReadLocks implements [locks.Store].
func (s *Store) ReadLocks(ctx context.Context, names ...string) (locks.Reading, error) {
	if len(names) == 0 {
		return locks.Reading{}, errors.New("mysqlstore: read locks: no names")
	}
	asked := make(list, len(names))
	for i, name := range names {
		asked[i] = name
	}
	query := fill(s.locking.read, asked)
	var r locks.Reading
	err := s.onLocks(ctx, "read locks", true, func(ctx context.Context, one *session) error {
		rows, now, err := readLocks(ctx, one, query)
		if err != nil {
			return err
		}
		r = locks.Reading{Now: now, Server: one.server.identity, Rows: make([]locks.Row, len(names))}
		for i, name := range names {
			r.Rows[i] = locks.Row{Name: name, Version: rows[name].Version, Queue: rows[name].Queue}
		}
		return nil
	})
	return r, err
}

func readLocks(ctx context.Context, one *session, query string) (map[string]locks.Row, time.Time, error) {
	rows, err := one.conn.QueryContext(ctx, query)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer rows.Close()
	found := map[string]locks.Row{}
	var now time.Time
	for rows.Next() {
		var (
			kind    int
			name    string
			version uint64
			queue   []byte
		)
		if err := rows.Scan(&kind, &name, &version, &queue); err != nil {
			return nil, time.Time{}, err
		}
		if kind == 0 {
			now = time.UnixMicro(int64(version)).UTC()
			continue
		}
		found[name] = locks.Row{Name: name, Version: version, Queue: queue}
	}
	if err := rows.Err(); err != nil {
		return nil, time.Time{}, err
	}
	if now.IsZero() {
		return nil, time.Time{}, errors.New("the answer has no clock")
	}
	return found, now, nil
}

// WriteLocks implements [locks.Store]. It waits up to 1 s for a fenced
// transaction under one of the locks to end, and then leaves that one as it is.
func (s *Store) WriteLocks(ctx context.Context, server string, writes []locks.Write) ([]bool, error) {
	var inserts, updates []locks.Write
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
	sorted := func(a, b locks.Write) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(inserts, sorted)
	slices.SortFunc(updates, sorted)

	written := make(map[string]bool, len(writes))
	err := s.onLocks(ctx, "write locks", false, func(ctx context.Context, one *session) error {
		if one.server.identity != server {
			return nil
		}
		return errors.Join(s.insertLocks(ctx, one, inserts, written), s.updateLocks(ctx, one, updates, written))
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

func checkLockWrite(w locks.Write) error {
	if err := lease.CheckName("lock", w.Name); err != nil {
		return err
	}
	const most = 1 << 24 // of a MEDIUMBLOB
	if len(w.Queue) >= most {
		return fmt.Errorf("mysqlstore: the queue of lock %q takes %d bytes: at most %d", w.Name, len(w.Queue), most-1)
	}
	return nil
}

// insertLocks inserts all of the rows or, when one of them is there already,
// none.
func (s *Store) insertLocks(ctx context.Context, one *session, writes []locks.Write, written map[string]bool) error {
	if len(writes) == 0 {
		return nil
	}
	var rows strings.Builder
	for i, w := range writes {
		if i > 0 {
			rows.WriteByte(',')
		}
		rows.WriteString(fill("(?, ?, ?, UTC_TIMESTAMP(6))", w.Name, w.Version, string(w.Queue)))
	}
	err := retryDeadlocks(ctx, func() error {
		_, err := one.exec(ctx, fill(s.locking.insert, text(rows.String())))
		return err
	})
	switch {
	case number(err) == duplicateKey:
		return nil
	case number(err) == lockWaitTimeout && len(writes) == 1:
		return nil
	case number(err) == lockWaitTimeout:
		// A transaction that has looked for one of them keeps all waiting.
		for i := range writes {
			if err := s.insertLocks(ctx, one, writes[i:i+1], written); err != nil {
				return err
			}
		}
		return nil
	case err != nil:
		return err
	}
	for _, w := range writes {
		written[w.Name] = true
	}
	return nil
}

// updateLocks writes those rows that are as expected, and reads back which they
// were if it was not all.
func (s *Store) updateLocks(ctx context.Context, one *session, writes []locks.Write, written map[string]bool) error {
	if len(writes) == 0 {
		return nil
	}
	statement := s.updateStatement(writes)
	n := 0
	err := retryDeadlocks(ctx, func() (err error) {
		n, err = one.changed(ctx, statement)
		return err
	})
	switch {
	case number(err) == lockWaitTimeout && len(writes) == 1:
		return nil
	case number(err) == lockWaitTimeout:
		// A fenced transaction under one of them keeps all waiting: by itself,
		// each other one is done.
		for i := range writes {
			if err := s.updateLocks(ctx, one, writes[i:i+1], written); err != nil {
				return err
			}
		}
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
	names := make(list, len(writes))
	for i, w := range writes {
		names[i] = w.Name
	}
	rows, _, err := readLocks(ctx, one, fill(s.locking.read, names))
	if err != nil {
		return err
	}
	for _, w := range writes {
		row := rows[w.Name]
		written[w.Name] = row.Version == w.Version && bytes.Equal(row.Queue, w.Queue)
	}
	return nil
}

func (s *Store) updateStatement(writes []locks.Write) string {
	if len(writes) == 1 {
		w := writes[0]
		return fill(s.locking.write, w.Version, string(w.Queue), w.Name, w.Expect)
	}
	names := make(list, len(writes))
	version, queue, expected := make(byName, len(writes)), make(byName, len(writes)), make(byName, len(writes))
	for i, w := range writes {
		names[i] = w.Name
		version[i], queue[i], expected[i] = named{w.Name, w.Version}, named{w.Name, string(w.Queue)}, named{w.Name, w.Expect}
	}
	return fill(s.locking.writeMany, version, queue, names, expected)
}

// PruneLocks implements [locks.Store]. It needs the privilege DELETE on the
// tables of locks, leases and fences.
func (s *Store) PruneLocks(ctx context.Context, prefix string, idle time.Duration, limit int) (int, error) {
	pruned := 0
	err := s.onLocks(ctx, "prune locks", false, func(ctx context.Context, one *session) error {
		keys, names, err := keysOf(ctx, one, fill(s.locking.idle, idle.Microseconds(), limit))
		if err != nil || len(keys) == 0 {
			return err
		}
		n, err := one.changed(ctx, fill(s.locking.pruneLocks, names, keys))
		pruned += n
		return err
	})
	if err != nil {
		return pruned, err
	}
	err = s.onLocks(ctx, "prune sessions of locks", false, func(ctx context.Context, one *session) error {
		pattern := strings.NewReplacer("\\", "\\\\", "%", "\\%", "_", "\\_").Replace(prefix) + "%"
		keys, names, err := keysOf(ctx, one, fill(s.locking.idleSessions, pattern, idle.Microseconds(), limit))
		if err != nil || len(keys) == 0 {
			return err
		}
		n, err := one.changed(ctx, fill(s.locking.pruneLeases, names, keys, idle.Microseconds()))
		if err != nil {
			return err
		}
		pruned += n
		_, err = one.exec(ctx, fill(s.locking.pruneFences, names, keys))
		return err
	})
	return pruned, err
}

// keysOf reads names and the numbers that go with them.
func keysOf(ctx context.Context, one *session, query string) (keys, names list, err error) {
	rows, err := one.conn.QueryContext(ctx, query)
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
		keys = append(keys, row{name, number})
	}
	return keys, names, rows.Err()
}

// onLocks runs do, which may be repeated if it only reads, with a session for
// locks: the first one if it is free.
func (s *Store) onLocks(ctx context.Context, op string, reads bool, do func(context.Context, *session) error) error {
	s.locksUsed.Store(true)
	return s.with(ctx, op, func(ctx context.Context) error {
		if err := s.checkLocks(); err != nil {
			return err
		}
		l, err := takeEither(ctx, s.lockers[0], s.lockers[1])
		if err != nil {
			return err
		}
		defer l.give()
		return l.run(ctx, reads, func(one *session) error { return do(ctx, one) })
	})
}

// checkLocks reports that the caller's pool is too small for locks as well.
func (s *Store) checkLocks() error {
	const least = pinned + lockPins + 1
	if most := s.pins.Stats().MaxOpenConnections; most > 0 && most < least {
		return fmt.Errorf("%w: the pool has SetMaxOpenConns(%d), and locks need %d connections beside the rest: set at least %d, or 0 for no limit",
			lease.ErrSetup, most, lockPins, least)
	}
	return nil
}
