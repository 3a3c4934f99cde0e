package zkstore

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

// DamageReplica has the row of a replica claim to have so many parts.
func DamageReplica(ctx context.Context, s *Store, group, owner string, parts int) error {
	n, _, was, err := s.replica(ctx, group, owner)
	if err != nil {
		return err
	}
	was.Parts, was.List = parts, was.List+1
	data, err := pack(*was)
	if err != nil {
		return err
	}
	_, _, err = s.settle(ctx, anyServer, s.put(n, data))
	return err
}

// Update changes or deletes the rows of a group behind the stores' backs: all nodes are created anew, as by an operator.
func Update(s *Store, group string, change func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence)) error {
	ctx := context.Background()
	all, err := s.rows(ctx, group)
	if err != nil {
		return err
	}
	r := all[0]
	l, f := change(r.l, r.f)
	var ops []any
	if r.lease.stat != nil {
		ops = append(ops, remove(r.lease))
	}
	if r.fence.stat != nil {
		terms, err := s.children(ctx, r.fence.path)
		if err != nil {
			return err
		}
		ops = append(append(ops, removeTerms(r.fence, terms)...), remove(r.fence))
	}
	if l != nil {
		ops = append(ops, &zk.CreateRequest{Path: r.lease.path, Data: leaseDataAt(*l), Acl: s.acl})
	}
	if f != nil {
		ops = append(ops, s.newTerm(group, node{path: r.fence.path}, nil, fenceRow{f.Owner, f.Token})...)
	}
	_, _, err = s.settle(ctx, anyServer, ops...)
	return err
}

// Turn makes the ensemble another server, as a new leader of it is.
func Turn(s *Store) error {
	ctx := context.Background()
	if _, err := s.tick(ctx); err != nil {
		return err
	}
	_, err := call(ctx, s.link, func(client *zk.Conn) (*zk.Stat, error) { return client.Set(s.path("id"), []byte(rand.Text()), -1) })
	return err
}

// Clock is a clock of the ensemble that can be stepped.
type Clock struct {
	mu    sync.Mutex
	steps []step
}

type step struct {
	zxid int64
	by   time.Duration
}

// Drive has a store use the clock.
func (c *Clock) Drive(s *Store) {
	s.clock = func(stat *zk.Stat) time.Time {
		c.mu.Lock()
		defer c.mu.Unlock()
		at := instant(stat)
		for _, step := range c.steps {
			if stat.Mzxid > step.zxid {
				at = at.Add(step.by)
			}
		}
		return at
	}
}

// Step steps the clock for all that is written from now on.
func (c *Clock) Step(s *Store, by time.Duration) error {
	if _, err := s.tick(context.Background()); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps = append(c.steps, step{s.seen.Load(), by})
	return nil
}

// Rows are those of a store's ledgers.
func Rows(s *Store) ledger.Rows { return ledgerRows{s} }

// Leave leaves a part of a ledger that nothing names.
func Leave(s *Store, group, name string) error {
	return s.create(context.Background(), s.path("ledgers", group, name))
}

// There reports whether a ledger has that part.
func There(s *Store, group, name string) (bool, error) {
	n, err := s.get(context.Background(), s.path("ledgers", group, name))
	return n.stat != nil, err
}

// Future makes a store have seen what the ensemble has lost.
func Future(s *Store) { s.seen.Add(1 << 30) }

// SASLAnswer is what a user answers to a challenge, and what the server has to confirm it with.
func SASLAnswer(user, password, uri, challenge, cnonce string) (response, confirmation string, err error) {
	return (&saslUser{user, password}).answer(uri, challenge, cnonce)
}

// CarryOut carries out a transaction that compares nothing.
func (s *Store) CarryOut(ctx context.Context, ops ...any) error {
	_, _, err := s.carryOut(ctx, nil, nil, ops)
	return err
}

// Renew has the store connect anew, in another session.
func Renew(s *Store) {
	s.link.mu.Lock()
	old := s.link.client
	s.link.open, s.link.ready = false, make(chan struct{})
	s.link.connect()
	s.link.mu.Unlock()
	old.Close()
}
