package zkstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/internal/fencing"
)

var (
	// ErrFenced says that the holder has been replaced, or that its term is over: nothing of the transaction is stored.
	ErrFenced = errors.New("zkstore: refused: the term is over")

	// ErrUnknown says that the answer to the transaction was lost. It is stored as a whole or not at all, perhaps only
	// in a while, and its nodes alone can tell which. If it is stored, that happens before the next holder's term.
	ErrUnknown = errors.New("zkstore: the outcome of the transaction is unknown")

	// ErrNoHold says that the context carries neither a lease nor a lock, so that there is no token to fence with.
	ErrNoHold = errors.New("zkstore: the context is of no term's work: hand on the one that a job or a leading function was called with")
)

// Do calls fn, and then has the ensemble carry out what fn has queued, as one transaction (multi), only if what ctx is
// held under is still this process's at that moment: the group's lease for a job or a leading function, and each lock
// that it holds. It is to ZooKeeper what fence.Do is to an SQL database. All holds have to be kept in this store.
// Heartbeats do not disturb it.
//
// fn reads through tx, and queues operations there. What it reads is no older than its call, but may have changed until
// the transaction, unless fn queues a check of the version, or a write with it: then the ensemble refuses the
// transaction, and Do returns an error that matches [zk.ErrBadVersion]. Call Do again to have it done with what is
// there then. Do calls fn several times when its session was lost, and when waiters come to a lock that is held. fn
// does not keep tx. An error of fn is returned, and nothing is stored.
//
// Errors of Do itself match [ErrFenced], [ErrUnknown] or [ErrNoHold], or are the ensemble's refusal of an operation,
// such as [zk.ErrNodeExists]. Only after ErrUnknown something may be stored. Do waits for no one, and keeps no one
// waiting: after a takeover the ensemble refuses.
//
// It does not reach beyond the ensemble that keeps the store's nodes, which are not to be written. Paths are those of
// the ensemble: they begin at its root, and not at that of the store's URL. A transaction has up to 900 kB. Nodes that
// are ephemeral end with the store's session. Do is safe for concurrent use.
func (s *Store) Do(ctx context.Context, fn func(tx *Tx) error) error {
	holds := lease.Holds(ctx)
	if len(holds) == 0 {
		return ErrNoHold
	}
	for _, h := range holds {
		if of, ok := h.Store.(*Store); !ok || of != s {
			return fmt.Errorf("zkstore: what is held on %q is kept in another store, a %T: call its Do, or hand its token to what you write to", h.Name, h.Store)
		}
	}
	for {
		if err := fencing.Ended(ctx, "zkstore", holds, ErrFenced); err != nil {
			return err
		}
		again, err := s.attempt(ctx, holds, fn)
		if !again {
			return err
		}
	}
}

// attempt is one at a fenced transaction. again: nothing was stored, since what was read may have changed.
func (s *Store) attempt(ctx context.Context, holds []lease.Hold, fn func(*Tx) error) (again bool, err error) {
	const doing = "fenced transaction"
	tx := &Tx{store: s}
	if tx.in, err = s.link.where(ctx); err != nil {
		return false, failed(doing, err)
	}
	// Reads of the same session show all that was stored before this.
	if _, err := s.tick(ctx); err != nil {
		return false, failed(doing, err)
	}
	var checks [][]any // of each hold
	for _, h := range holds {
		ops, err := tx.checks(ctx, h)
		switch {
		case tx.moved:
			return true, nil
		case err != nil:
			return false, failed(doing, err)
		case ops == nil:
			return false, fencing.Refused(h, ErrFenced)
		}
		checks = append(checks, ops)
	}
	switch err := fn(tx); {
	case tx.moved:
		return true, nil
	case err != nil:
		return false, err
	case tx.refused != nil:
		return false, failed(doing, tx.refused)
	}
	if err := fencing.Ended(ctx, "zkstore", holds, ErrFenced); err != nil {
		return false, err
	}
	for {
		run, again, err := s.carryOut(ctx, holds, checks, tx.ops)
		if !again || run < 0 {
			return again, failed(doing, err)
		}
		// The ledger has changed, as it does with each run of its group. What fn has read stands.
		h := holds[run]
		now, err := tx.checksOfRun(ctx, h)
		switch {
		case err != nil:
			return false, failed(doing, err)
		case now == nil:
			return false, fencing.Refused(h, ErrFenced)
		}
		checks[run] = now
		if err := fencing.Ended(ctx, "zkstore", holds, ErrFenced); err != nil {
			return false, err
		}
	}
}

// carryOut is the transaction itself. again: a check has failed. run is the place of the hold that it belongs to if that is a run, or
// else -1.
func (s *Store) carryOut(ctx context.Context, holds []lease.Hold, checks [][]any, ops []any) (run int, again bool, err error) {
	var all []any
	var of []int // whose check each of the first ones is
	for i, some := range checks {
		all = append(all, some...)
		for range some {
			of = append(of, i)
		}
	}
	all = append(all, ops...)
	if sizeOf(all) > maxTransaction {
		return -1, false, errTooLarge
	}
	// It is either sent, or given up and never sent.
	var decided atomic.Bool
	answers, err := call(ctx, s.link, func(client *zk.Conn) ([]zk.MultiResponse, error) {
		if decided.Swap(true) {
			return nil, context.Cause(ctx)
		}
		return client.Multi(all...)
	})
	switch {
	case err == nil:
		return -1, false, nil
	case !decided.Swap(true) || errors.Is(err, zk.ErrNoServer):
		return -1, false, err
	}
	for i, a := range answers {
		switch {
		case a.Error == nil:
		case i >= len(of):
			return -1, false, fmt.Errorf("%s: %w", describe(ops[i-len(of)]), a.Error)
		case holds[of[i]].Kind == lease.HoldRun:
			return of[i], lost(a.Error), a.Error
		default:
			return -1, lost(a.Error), a.Error
		}
	}
	return -1, false, fmt.Errorf("%w: %w", ErrUnknown, err)
}

// describe names an operation for errors.
func describe(op any) string {
	switch op := op.(type) {
	case *zk.CreateRequest:
		return "create " + op.Path
	case *zk.SetDataRequest:
		return "set " + op.Path
	case *zk.DeleteRequest:
		return "delete " + op.Path
	case *zk.CheckVersionRequest:
		return "check " + op.Path
	}
	return fmt.Sprintf("%T", op)
}

// Tx is what a function of [Store.Do] reads through, and where it queues operations. It is not safe for concurrent use.
type Tx struct {
	store   *Store
	in      session
	moved   bool  // something was read in another session, and may be older
	refused error // what was queued that is no operation
	ops     []any
}

// Get returns the data of a node. Its errors are those of the client, such as [zk.ErrNoNode].
func (tx *Tx) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	var stat *zk.Stat
	data, err := read(ctx, tx, func(client *zk.Conn) (data []byte, err error) {
		data, stat, err = client.Get(path)
		return data, err
	})
	if err != nil {
		return nil, nil, err
	}
	return data, stat, nil
}

// Children returns the names of the nodes below a node, in no order. Its errors are those of the client, such as [zk.ErrNoNode].
func (tx *Tx) Children(ctx context.Context, path string) ([]string, error) {
	return read(ctx, tx, func(client *zk.Conn) ([]string, error) {
		names, _, err := client.Children(path)
		return names, err
	})
}

var errMoved = errors.New("zkstore: the session was lost in the middle of a fenced transaction, which begins anew")

// read reads in the session of the transaction.
func read[T any](ctx context.Context, tx *Tx, f func(*zk.Conn) (T, error)) (T, error) {
	value, err := call(ctx, tx.store.link, f)
	if in, gone := tx.store.link.where(ctx); gone != nil || in != tx.in {
		tx.moved = true
		return *new(T), errMoved
	}
	return value, err
}

// Queue adds operations to the transaction: [*zk.CreateRequest], [*zk.SetDataRequest], [*zk.DeleteRequest] and
// [*zk.CheckVersionRequest], which are carried out in this order. A node that is created without an ACL gets that of
// the store's nodes.
func (tx *Tx) Queue(ops ...any) {
	for _, op := range ops {
		switch op := op.(type) {
		case *zk.CreateRequest:
			is := *op
			if len(is.Acl) == 0 {
				is.Acl = tx.store.acl
			}
			tx.ops = append(tx.ops, &is)
		case *zk.SetDataRequest, *zk.DeleteRequest, *zk.CheckVersionRequest:
			tx.ops = append(tx.ops, op)
		default:
			tx.refused = fmt.Errorf("a %T is no operation of a transaction", op)
		}
	}
}

// checks are the operations that let a transaction fail unless something is still held. None: it is not held.
func (tx *Tx) checks(ctx context.Context, h lease.Hold) ([]any, error) {
	switch h.Kind {
	case lease.HoldLock:
		return tx.checksOfLock(ctx, h)
	case lease.HoldRun:
		return tx.checksOfRun(ctx, h)
	}
	fence, err := tx.node(ctx, tx.store.path("fences", h.Name))
	if err != nil {
		return nil, err
	}
	term, err := tx.node(ctx, tx.store.termPath(h.Name, h.Token))
	if err != nil {
		return nil, err
	}
	f, err := fenceOf(fence)
	if err != nil || f == nil || term.stat == nil || h.Owner == "" || f.Owner != h.Owner || f.Token != h.Token {
		return nil, err
	}
	return append(tx.store.as(fence), tx.store.as(term)...), nil
}

// checksOfRun compare the node of the ledger, which each of its writes changes.
func (tx *Tx) checksOfRun(ctx context.Context, h lease.Hold) (ops []any, err error) {
	err = tx.store.on(ctx, h.Name, "read the ledger", true, func(l *mirror, _ stamp) error {
		key := jobs.Key{Job: h.Run.Job, Tick: h.Run.Tick, Trigger: h.Run.Trigger}
		if r := l.group.Find(key); r != nil && r.State == jobs.Running && r.Owner == h.Owner && r.Token == h.Token && r.Attempt == h.Run.Attempt {
			ops = tx.store.as(l.node)
		}
		return nil
	})
	return ops, err
}

// checksOfLock compare the floor too, without which a row that was deleted and created anew may have the version of before.
func (tx *Tx) checksOfLock(ctx context.Context, h lease.Hold) ([]any, error) {
	floor, err := tx.node(ctx, tx.store.path("floor"))
	if err != nil {
		return nil, err
	}
	lock, err := tx.node(ctx, tx.store.path("locks", h.Name))
	if err != nil {
		return nil, err
	}
	row, err := lockOf(lock, h.Name)
	if err != nil || len(h.Mark) == 0 || !bytes.Contains(row.Queue, h.Mark) {
		return nil, err
	}
	return append(tx.store.as(floor), tx.store.as(lock)...), nil
}

func (tx *Tx) node(ctx context.Context, path string) (node, error) {
	data, stat, err := tx.Get(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	return node{path, data, stat}, err
}

// termPath is that of the node which is there for as long as a term is the group's last one. Versions begin anew when a
// node is deleted and created again; names of this kind never come back.
func (s *Store) termPath(group string, token uint64) string {
	return s.path("fences", group, strconv.FormatUint(token, 10))
}

// newTerm are the operations that write a fence, and replace the node of the term before. fence is as it was read, and
// terms are the names of the nodes below.
func (s *Store) newTerm(group string, fence node, terms []string, f fenceRow) []any {
	ops := append([]any{s.put(fence, encode(f))}, removeTerms(fence, terms)...)
	return append(ops, &zk.CreateRequest{Path: s.termPath(group, f.Token), Acl: s.acl})
}

// readFence reads a fence as [Store.asFence] wants it.
func (s *Store) readFence(ctx context.Context, group string) (fence node, terms []string, err error) {
	terms, err = s.children(ctx, s.path("fences", group))
	if err != nil {
		return node{}, nil, err
	}
	fence, err = s.get(ctx, s.path("fences", group))
	return fence, terms, err
}

// asFence is [Store.as] for a fence that was read after the names of the nodes below it. It compares their being there,
// too, since a fence that was deleted and created anew may have the version of before. A fence that was not written by
// this store has none.
func (s *Store) asFence(fence node, terms []string) []any {
	ops := s.as(fence)
	if fence.stat == nil {
		return ops
	}
	for _, name := range terms {
		ops = append(ops, &zk.CheckVersionRequest{Path: fence.path + "/" + name, Version: -1})
	}
	return ops
}

func removeTerms(fence node, terms []string) (ops []any) {
	for _, name := range terms {
		ops = append(ops, &zk.DeleteRequest{Path: fence.path + "/" + name, Version: -1})
	}
	return ops
}
