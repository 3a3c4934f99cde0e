package zkstore

import (
	"bytes"
	"cmp"
	"compress/flate"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/cronlease/cronlease/store"
)

var (
	_ store.Locks  = (*Store)(nil)
	_ store.Peeker = (*Store)(nil)
)

// lookMost is how many nodes one part of a long call looks at.
const lookMost = 500

// versionSize is the length of the version that a lock's data begins with.
const versionSize = 8

// packedLock is what a queue begins with that was made smaller, and packFrom the size from which on queues are: a server keeps its last
// transactions in memory, with all that they have written, 500 by default.
const (
	packedLock = "\x00deflate\x00"
	packFrom   = 1 << 10
	queueMost  = 16 << 20 // unpacked; package locks writes smaller ones
)

func lockOf(n node, name string) (store.LockRow, error) {
	row := store.LockRow{Name: name}
	if n.stat == nil {
		return row, nil
	}
	if len(n.data) < versionSize {
		return row, fmt.Errorf("zkstore: node %s: %d bytes: too few for a lock", n.path, len(n.data))
	}
	row.Version, row.Queue = binary.BigEndian.Uint64(n.data), n.data[versionSize:]
	packed, ok := bytes.CutPrefix(row.Queue, []byte(packedLock))
	if !ok {
		return row, nil
	}
	var err error
	row.Queue, err = io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), queueMost+1))
	if err == nil && len(row.Queue) > queueMost {
		err = fmt.Errorf("more than %d bytes unpacked", queueMost)
	}
	if err != nil {
		return row, fmt.Errorf("zkstore: node %s: %w", n.path, err)
	}
	return row, nil
}

func lockData(version uint64, queue []byte) ([]byte, error) {
	data := binary.BigEndian.AppendUint64(nil, version)
	if len(queue) < packFrom && !bytes.HasPrefix(queue, []byte(packedLock)) {
		return append(data, queue...), nil
	}
	packed, err := deflate(func(w io.Writer) error {
		_, err := w.Write(queue)
		return err
	})
	return append(append(data, packedLock...), packed...), err
}

func floorOf(n node) (uint64, error) {
	switch {
	case n.stat == nil || len(n.data) == 0:
		return 0, nil
	case len(n.data) != versionSize:
		return 0, fmt.Errorf("zkstore: node %s: %d bytes: no version", n.path, len(n.data))
	}
	return binary.BigEndian.Uint64(n.data), nil
}

// locks are lock rows with their nodes, that of the floor, and others that were read with them.
type locks struct {
	nodes  []node
	rows   []store.LockRow
	floor  node
	least  uint64
	others []node
}

func (s *Store) locks(ctx context.Context, names []string, others ...string) (l locks, err error) {
	paths := make([]string, 0, len(names)+1+len(others))
	for _, name := range names {
		paths = append(paths, s.path("locks", name))
	}
	nodes, err := s.getAll(ctx, append(append(paths, s.path("floor")), others...))
	if err != nil {
		return locks{}, err
	}
	l = locks{nodes: nodes[:len(names)], rows: make([]store.LockRow, len(names)), floor: nodes[len(names)], others: nodes[len(names)+1:]}
	for i, n := range l.nodes {
		if l.rows[i], err = lockOf(n, names[i]); err != nil {
			return locks{}, err
		}
	}
	l.least, err = floorOf(l.floor)
	return l, err
}

// ReadLocks implements [store.Locks].
func (s *Store) ReadLocks(ctx context.Context, names ...string) (store.LockReading, error) {
	if len(names) == 0 {
		return store.LockReading{}, errors.New("zkstore: read locks: no names")
	}
	var reading store.LockReading
	err := repeat(func() error {
		l, err := s.locks(ctx, names)
		if err != nil {
			return err
		}
		ops, asked := s.as(l.floor), map[string]bool{}
		for i, n := range l.nodes {
			if !asked[names[i]] {
				ops = append(ops, s.as(n)...)
			}
			asked[names[i]] = true
		}
		st, again, err := s.settle(ctx, anyServer, ops...)
		if err != nil {
			return err
		}
		if again {
			return errConflict
		}
		reading = store.LockReading{Rows: l.rows, Now: st.now, Server: st.server, Floor: l.least}
		return nil
	})
	return reading, failed("read locks", err)
}

// PeekLocks implements [store.Peeker]. What a session shows never gets older, so it takes no transaction in the session of the last one.
func (s *Store) PeekLocks(ctx context.Context, names ...string) (store.LockReading, error) {
	last := s.settled.Load()
	if last == nil || len(names) == 0 {
		return s.ReadLocks(ctx, names...)
	}
	l, err := s.locks(ctx, names, s.path("id"))
	if err == nil && slices.ContainsFunc(l.nodes, func(n node) bool { return n.stat == nil }) {
		// A row may have been pruned after the floor was read.
		if l.floor, err = s.get(ctx, l.floor.path); err == nil {
			l.least, err = floorOf(l.floor)
		}
	}
	if err != nil {
		return store.LockReading{}, failed("read locks", err)
	}
	if in, err := s.link.where(ctx); err != nil || in != last.in || !last.id.is(l.others[0]) {
		return s.ReadLocks(ctx, names...)
	}
	return store.LockReading{Rows: l.rows, Now: last.now.Add(time.Since(last.at)), Server: last.id.text, Floor: l.least}, nil
}

// WriteLocks implements [store.Locks]. One transaction writes all of them, or several where they are too large for one: none keeps a row
// locked.
func (s *Store) WriteLocks(ctx context.Context, server string, writes []store.LockWrite) ([]bool, error) {
	for _, w := range writes {
		if err := w.Check(); err != nil {
			return nil, err
		}
	}
	var done []bool
	for len(writes) > 0 {
		var data [][]byte
		for size := 0; len(data) < min(len(writes), lookMost) && (size == 0 || size < maxTransaction/2); {
			one, err := lockData(writes[len(data)].Version, writes[len(data)].Queue)
			if err != nil {
				return nil, failed("write locks", err)
			}
			if size += len(one); len(data) > 0 && size >= maxTransaction/2 {
				break
			}
			data = append(data, one)
		}
		part, err := s.writeLocks(ctx, server, writes[:len(data)], data)
		if err != nil {
			return nil, failed("write locks", err)
		}
		done, writes = append(done, part...), writes[len(data):]
	}
	return done, ctx.Err()
}

// writeLocks is a part of WriteLocks. data is what the nodes shall have.
func (s *Store) writeLocks(ctx context.Context, server string, writes []store.LockWrite, data [][]byte) ([]bool, error) {
	names := make([]string, len(writes))
	for i, w := range writes {
		names[i] = w.Name
	}
	done := make([]bool, len(writes))
	current := false // what is read is no older than this call
	apart := false   // waiters are notified after the transaction
	var wake []string
	err := repeat(func() error {
		l, err := s.locks(ctx, names)
		if err != nil {
			return err
		}
		ops, behind := s.as(l.floor), false
		wake = nil
		for i, w := range writes {
			row, there := l.rows[i], l.nodes[i].stat != nil
			if may := !there && w.Expect == 0 && w.Version > l.least || there && w.Expect != 0 && row.Version == w.Expect; may {
				ops = append(ops, s.put(l.nodes[i], data[i]))
				wake = append(wake, s.notified(w.Wake)...)
				done[i] = true
				continue
			}
			done[i] = there && row.Version == w.Version && bytes.Equal(row.Queue, w.Queue)
			// Versions only grow. A row that is past what is expected is not so again, whatever the server that answers may lack.
			past := there && w.Expect != 0 && row.Version > w.Expect
			behind = behind || !done[i] && !past
		}
		if behind && !current {
			// The server that answers may be behind.
			current = true
			if _, err := s.tick(ctx); err != nil {
				return err
			}
			return errConflict
		}
		if !slices.Contains(done, true) {
			return nil
		}
		slices.Sort(wake)
		wake = slices.Compact(wake)
		for _, address := range wake {
			if !apart {
				ops = append(ops, &zk.SetDataRequest{Path: address, Version: -1})
			}
		}
		_, _, err = s.settle(ctx, server, ops...)
		switch {
		case errors.Is(err, errOtherServer):
			clear(done)
			return nil
		case len(wake) > 0 && !apart && (errors.Is(err, errConflict) || errors.Is(err, zk.ErrNoAuth)):
			apart = true // a waiter may be gone, or another user's
			return errConflict
		}
		current = false
		return err
	})
	if err == nil && apart {
		_ = s.notify(ctx, wake) // a waiter that is not reached polls
	}
	return done, err
}

// someLocks calls do with the locks after a name, in parts, until it returns false.
func (s *Store) someLocks(ctx context.Context, after string, do func(l locks) (more bool, err error)) error {
	names, err := s.children(ctx, s.path("locks"))
	if err != nil {
		return err
	}
	for i := range names {
		names[i] = nameOf(names[i])
	}
	slices.Sort(names)
	begin, _ := slices.BinarySearch(names, after)
	if begin < len(names) && names[begin] == after {
		begin++
	}
	for part := range slices.Chunk(names[begin:], lookMost) {
		l, err := s.locks(ctx, part)
		if err != nil {
			return err
		}
		if more, err := do(l); !more || err != nil {
			return err
		}
	}
	return nil
}

// idleFor reports whether a node was not written for longer than that.
func (s *Store) idleFor(n node, now time.Time, idle time.Duration) bool {
	return n.stat != nil && now.Sub(s.clock(n.stat)) > idle
}

// HeldLocks implements [store.Locks]. It reads the nodes of all locks after the name, up to the limit.
func (s *Store) HeldLocks(ctx context.Context, idle time.Duration, after string, limit int) ([]string, error) {
	st, err := s.tick(ctx)
	if err != nil {
		return nil, failed("list locks", err)
	}
	var found []string
	err = s.someLocks(ctx, after, func(l locks) (bool, error) {
		for i, n := range l.nodes {
			if len(l.rows[i].Queue) > 0 && s.idleFor(n, st.now, idle) && len(found) < limit {
				found = append(found, l.rows[i].Name)
			}
		}
		return len(found) < limit, nil
	})
	return found, failed("list locks", err)
}

// PruneLocks implements [store.Locks]. It reads the nodes of all locks, up to the limit.
func (s *Store) PruneLocks(ctx context.Context, idle time.Duration, limit int) (int, error) {
	found := 0
	err := repeat(func() error {
		if found >= limit {
			return nil
		}
		st, err := s.tick(ctx)
		if err != nil {
			return err
		}
		return s.someLocks(ctx, "", func(l locks) (bool, error) {
			floor, before := l.least, found
			var ops []any
			for i, n := range l.nodes {
				if found < limit && len(l.rows[i].Queue) == 0 && s.idleFor(n, st.now, idle) {
					ops = append(ops, remove(n))
					floor = max(floor, l.rows[i].Version)
					found++
				}
			}
			if len(ops) > 0 {
				ops = append([]any{s.put(l.floor, binary.BigEndian.AppendUint64(nil, floor))}, ops...)
				if _, _, err := s.settle(ctx, anyServer, ops...); err != nil {
					found = before
					return false, err
				}
			}
			return found < limit, nil
		})
	})
	return found, failed("prune locks", err)
}

// PruneSessions implements [store.Locks].
func (s *Store) PruneSessions(ctx context.Context, prefix string, released, expired time.Duration, limit int) (int, error) {
	st, err := s.tick(ctx)
	if err != nil {
		return 0, failed("prune sessions", err)
	}
	names, err := s.children(ctx, s.path("leases"))
	if err != nil {
		return 0, failed("prune sessions", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(nameOf(name), prefix) })
	slices.Sort(names)
	found := 0
	for part := range slices.Chunk(names, lookMost) {
		for i := range part {
			part[i] = nameOf(part[i])
		}
		all, err := s.rows(ctx, part...)
		if err != nil {
			return found, failed("prune sessions", err)
		}
		for i, r := range all {
			if found >= limit {
				return found, nil
			}
			idle := expired
			if r.l != nil && r.l.Released {
				idle = released
			}
			if r.l == nil || st.now.Sub(r.l.RenewedAt) <= idle {
				continue
			}
			if err := s.dropSession(ctx, part[i], r); err == nil {
				found++
			} else if !errors.Is(err, errConflict) {
				return found, failed("prune sessions", err)
			}
		}
	}
	return found, nil
}

// dropSession deletes the rows of a session that are still as they were read.
func (s *Store) dropSession(ctx context.Context, group string, r rows) error {
	ops := []any{remove(r.lease)}
	if r.fence.stat != nil {
		terms, err := s.children(ctx, r.fence.path)
		if err != nil {
			return err
		}
		ops = append(append(ops, removeTerms(r.fence, terms)...), remove(r.fence))
	}
	if _, _, err := s.settle(ctx, anyServer, ops...); err != nil {
		return err
	}
	// Nothing reads what is left of it.
	var errs error
	for _, kind := range []string{"free", "asked"} {
		_, err := call(ctx, s.link, func(client *zk.Conn) (struct{}, error) { return struct{}{}, client.Delete(s.path(kind, group), -1) })
		if !errors.Is(err, zk.ErrNoNode) {
			errs = cmp.Or(errs, err)
		}
	}
	return errs
}
