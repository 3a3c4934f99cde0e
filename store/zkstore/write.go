package zkstore

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/go-zookeeper/zk"

	"github.com/cronlease/cronlease/store/ledger"
)

// write is a change as operations.
type write struct {
	creates, deletes []any
	refs             map[uint64]refs
	parts            map[part]*content
	head             head
}

// writeOf writes the parts of a change under a revision.
func (s *Store) writeOf(group string, l *mirror, d *change, is ledger.Group, rev uint64) (*write, error) {
	w := &write{refs: maps.Clone(l.refs), parts: maps.Clone(l.parts)}
	w.head = head{Rev: rev, Changes: is.Changes, Paused: is.Paused, Opened: is.Opened, Audits: is.LastEntry, Runs: is.LastRun}
	create := func(r ref, value any) error {
		data, err := pack(value)
		if err == nil && len(data) > maxTransaction-1000 {
			err = errTooLarge
		}
		w.creates = append(w.creates, &zk.CreateRequest{Path: s.path("ledgers", group, r.String()), Data: data, Acl: s.acl})
		return err
	}
	remove := func(r ref) {
		if r.Rev != 0 {
			w.deletes = append(w.deletes, &zk.DeleteRequest{Path: s.path("ledgers", group, r.String()), Version: -1})
		}
	}
	for _, number := range slices.Sorted(maps.Keys(d.args)) {
		w.refs[number] = refs{args: rev}
		if err := create(ref{argsPart, number, rev}, []byte(d.args[number])); err != nil {
			return nil, err
		}
	}
	for _, number := range slices.Sorted(maps.Keys(d.attempts)) {
		was := w.refs[number]
		remove(ref{attemptsPart, number, was.attempts})
		w.refs[number] = refs{was.args, rev}
		if err := create(ref{attemptsPart, number, rev}, d.attempts[number]); err != nil {
			return nil, err
		}
	}
	for _, number := range d.gone {
		was := w.refs[number]
		remove(ref{argsPart, number, was.args})
		remove(ref{attemptsPart, number, was.attempts})
		delete(w.refs, number)
	}
	for _, p := range sortedParts(d.parts) {
		if was := l.parts[p]; was != nil {
			remove(ref{p.kind, p.number, was.rev})
		}
		delete(w.parts, p)
		c := d.parts[p]
		if c.empty() {
			continue
		}
		for i := range c.Runs {
			of := w.refs[c.Runs[i].Number]
			c.Runs[i].ArgsRev, c.Runs[i].AttemptsRev = of.args, of.attempts
		}
		c.rev = rev
		w.parts[p] = c
		if err := create(ref{p.kind, p.number, rev}, c); err != nil {
			return nil, err
		}
	}
	for _, p := range sortedParts(w.parts) {
		w.head.Parts = append(w.head.Parts, ref{p.kind, p.number, w.parts[p].rev})
	}
	return w, nil
}

// commit writes what was put, if there is anything, the ledger is as it was, and so is the fence.
func (s *Store) commit(ctx context.Context, group string, l *mirror, held bool, tx *ledger.Tx, fence []any) error {
	d, is := changeOf(l, tx), tx.Group
	if len(d.parts) == 0 && is.Changes == l.head.Changes && is.Paused == l.head.Paused && is.Opened == l.head.Opened {
		return nil
	}
	// Revisions are of the clock too, so that they do not begin anew after a ledger was lost.
	rev := max(l.head.Rev+1, uint64(tx.Now.UnixMicro()))
	w, err := s.writeOf(group, l, d, is, rev)
	if err != nil {
		return err
	}
	size := sizeOf(w.creates) + sizeOf(w.deletes)
	large := size > maxTransaction/2
	if large {
		// Parts that were written for a change which did not come about may be left of the next revision.
		if w, err = s.writeOf(group, l, d, is, rev+rand.Uint64N(1_000_000)); err != nil {
			return err
		}
		if err := s.prepare(ctx, l, w); err != nil {
			return err
		}
	}
	packed, err := pack(w.head)
	if err != nil {
		return err
	}
	ops := append(fence, s.put(l.node, packed))
	if w.head.Changes != l.head.Changes {
		number := strconv.AppendUint(nil, w.head.Changes, 10)
		if l.asked.stat == nil {
			ops = append(ops, s.put(l.asked, number))
		} else {
			ops = append(ops, &zk.SetDataRequest{Path: l.asked.path, Data: number, Version: -1})
		}
	}
	stale := l.stale
	if !large {
		deletes := w.deletes
		if held {
			stale = slices.Concat(stale, deletes)
			end := max(0, len(stale)-keepStale)
			deletes, stale = stale[:end], slices.Clone(stale[end:])
		}
		ops = slices.Concat(ops, w.creates, deletes)
	}
	if _, _, err := s.settle(ctx, anyServer, ops...); err != nil {
		l.current = false // also where it is not known whether it was carried out
		if !errors.Is(err, zk.ErrBadVersion) {
			l.stale = nil // what is left is found by [Store.sweep], which may have found some of it
		}
		if errors.Is(err, errConflict) && large {
			s.sweepUp(ctx, w.creates)
		}
		return err
	}
	if large {
		s.sweepUp(ctx, w.deletes)
	}
	l.stale = stale
	l.take(tx, w)
	return nil
}

// take makes what was written what is known.
func (l *mirror) take(tx *ledger.Tx, w *write) {
	if l.asked.stat == nil && w.head.Changes != l.head.Changes {
		l.asked.stat = &zk.Stat{}
	}
	version := int32(0)
	if l.node.stat != nil {
		version = l.node.stat.Version + 1
	}
	l.node.stat = &zk.Stat{Version: version}
	l.head, l.parts, l.refs = w.head, w.parts, w.refs
	l.group.Take(tx)
	for _, a := range tx.Attempts {
		if r := l.group.Find(a.Key); r.State.Over() {
			r.Attempts = nil
		}
	}
}

// prepare creates the parts of a change that is too large for one transaction. Nothing shows them yet.
func (s *Store) prepare(ctx context.Context, l *mirror, w *write) error {
	if l.node.stat == nil {
		if _, _, err := s.settle(ctx, anyServer, s.put(l.node, nil)); err != nil && !errors.Is(err, errConflict) {
			return err
		}
		l.current = false
		return errConflict
	}
	for _, ops := range batches(w.creates) {
		if _, _, err := s.settle(ctx, anyServer, ops...); err != nil {
			return err
		}
	}
	return nil
}

// batches splits operations into those of several transactions.
func batches(ops []any) [][]any {
	var all [][]any
	begin, size := 0, 0
	for i, op := range ops {
		of := sizeOf([]any{op})
		if i > begin && (size+of > maxTransaction || i-begin >= lookMost) {
			all, begin, size = append(all, ops[begin:i]), i, 0
		}
		size += of
	}
	if begin < len(ops) {
		all = append(all, ops[begin:])
	}
	return all
}

// sweepUp deletes parts that nothing names, as far as it can. What is left is found by [Store.sweep].
func (s *Store) sweepUp(ctx context.Context, ops []any) {
	for _, op := range ops {
		var path string
		switch op := op.(type) {
		case *zk.CreateRequest:
			path = op.Path
		case *zk.DeleteRequest:
			path = op.Path
		}
		if _, err := call(ctx, s.link, func(client *zk.Conn) (struct{}, error) { return struct{}{}, client.Delete(path, -1) }); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return
		}
	}
}
