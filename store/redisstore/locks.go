package redisstore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/store"
)

var _ store.Locks = (*Store)(nil)

var (
	readLocksScript     = newLocksScript("readlocks")
	writeLocksScript    = newLocksScript("writelocks")
	heldLocksScript     = newLocksScript("heldlocks")
	pruneLocksScript    = newLocksScript("prunelocks")
	pruneSessionsScript = newScript("prunesessions")
)

func newLocksScript(file string) script { return newScript("locks", file) }

// lookMost is how many rows one script looks at: nothing else runs on the server meanwhile.
const lookMost = 500

// ReadLocks implements [store.Locks].
func (s *Store) ReadLocks(ctx context.Context, names ...string) (store.LockReading, error) {
	if len(names) == 0 {
		return store.LockReading{}, errors.New("redisstore: read locks: no names")
	}
	f, err := s.fieldsOf(ctx, "read locks", readLocksScript, texts(names)...)
	if err != nil {
		return store.LockReading{}, err
	}
	r := store.LockReading{Now: f.instant(), Server: f.text(), Floor: f.number(), Rows: make([]store.LockRow, len(names))}
	rows := f.nested()
	for i, name := range names {
		r.Rows[i].Name = name
		if !rows.absent() {
			r.Rows[i].Version, r.Rows[i].Queue = rows.lock()
		} else {
			rows.next()
		}
	}
	f.keep(rows)
	return r, f.err
}

// lock reads the row of a lock.
func (f *fields) lock() (version uint64, queue []byte) {
	row := f.text()
	first, rest, _ := strings.Cut(row, " ")
	_, text, ok := strings.Cut(rest, " ") // after when it was written
	version, err := strconv.ParseUint(first, 10, 64)
	if err != nil || !ok {
		f.fail(row, "the row of a lock")
	}
	return version, []byte(text)
}

// WriteLocks implements [store.Locks]. One script writes all of them: no other one keeps a row locked.
func (s *Store) WriteLocks(ctx context.Context, server string, writes []store.LockWrite) ([]bool, error) {
	args := append(make([]any, 0, 1+4*len(writes)), server)
	for _, w := range writes {
		if err := w.Check(); err != nil {
			return nil, err
		}
		args = append(args, w.Name, w.Expect, w.Version, w.Queue)
	}
	done := make([]bool, len(writes))
	if len(writes) == 0 {
		return done, nil
	}
	answer, err := s.run(ctx, "write locks", writeLocksScript, args...)
	if err != nil {
		return nil, err
	}
	f := &fields{doing: "write locks", values: []any{answer}}
	text := f.text() // empty: another server
	for i := range done {
		done[i] = i < len(text) && text[i] == '1'
	}
	return done, f.err
}

// HeldLocks implements [store.Locks].
func (s *Store) HeldLocks(ctx context.Context, idle time.Duration, after string, limit int) ([]string, error) {
	var found []string
	for len(found) < limit {
		f, err := s.fieldsOf(ctx, "list locks", heldLocksScript, idle.Microseconds(), after, lookMost)
		if err != nil {
			return nil, err
		}
		last, names := f.next(), f.nested()
		for len(names.values) > 0 && len(found) < limit {
			found = append(found, names.text())
		}
		f.keep(names)
		var more bool
		if after, more = last.(string); !more || f.err != nil {
			return found, f.err
		}
	}
	return found, nil
}

// PruneLocks implements [store.Locks].
func (s *Store) PruneLocks(ctx context.Context, idle time.Duration, limit int) (int, error) {
	for found := 0; ; {
		most := min(limit-found, lookMost)
		f, err := s.fieldsOf(ctx, "prune locks", pruneLocksScript, idle.Microseconds(), most)
		if err != nil {
			return found, err
		}
		looked := int(f.number())
		if found += int(f.number()); f.err != nil || looked < most || found >= limit {
			return found, f.err
		}
	}
}

// PruneSessions implements [store.Locks].
func (s *Store) PruneSessions(ctx context.Context, prefix string, released, expired time.Duration, limit int) (int, error) {
	found, after := 0, "["+prefix
	for found < limit {
		// Names are ASCII, so nothing that begins with the prefix follows this.
		groups, err := ask(ctx, s, func(c redis.UniversalClient) ([]string, error) {
			return c.ZRangeByLex(ctx, s.name+":groups", &redis.ZRangeBy{Min: after, Max: "(" + prefix + "\xff", Count: lookMost}).Result()
		})
		if err != nil {
			return found, s.failed(ctx, "prune sessions", err)
		}
		if len(groups) == 0 {
			return found, nil
		}
		args := append([]any{released.Microseconds(), expired.Microseconds(), limit - found}, texts(groups)...)
		n, err := s.count(ctx, "prune sessions", pruneSessionsScript, args...)
		if found += n; err != nil {
			return found, err
		}
		after = "(" + groups[len(groups)-1]
	}
	return found, nil
}
