package storetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cronlease/cronlease/store"
)

// contenders is how many replicas run at once.
const leaseContenders = 10

var leaseConcurrencyCases = []leaseCase{
	{"concurrency/ten prepare a new group", func(e *leaseEnv) {
		stores := e.replicas()
		for round := range 10 {
			name := fmt.Sprint("group", round)
			e.together(stores, func(_ int, s store.Leases) {
				if err := s.Prepare(e.ctx(), name, ttl); err != nil {
					e.Errorf("Prepare: %v", err)
				}
			})
			r := e.row(e.watch, name)
			e.equal(r.Lease.Released, true, "Released")
			e.equal(showLease(r.Fence), showLease(&store.Fence{Owner: r.Lease.Owner, Token: r.Lease.Token}), "fence row")
		}
	}},

	{"concurrency/ten acquire, one wins, a hundred times", func(e *leaseEnv) {
		stores := e.replicas()
		e.prepare(e.watch, group)
		last := e.row(e.watch, group).Lease.Token
		for range e.h.times(100) {
			requests := make([]store.Acquire, len(stores))
			for i, s := range stores {
				requests[i] = e.request(s, group, fmt.Sprint("owner", i))
			}
			var mu sync.Mutex
			var winners []*store.Fence
			e.together(stores, func(i int, s store.Leases) {
				token, err := s.Acquire(e.ctx(), requests[i])
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					winners = append(winners, &store.Fence{Owner: requests[i].Owner, Token: token})
				case !errors.Is(err, store.ErrChanged):
					e.Errorf("Acquire: %v, want no error or ErrChanged", err)
				}
			})
			if len(winners) != 1 {
				e.Fatalf("%d of %d contenders acquired one lease", len(winners), len(stores))
			}
			r := e.row(e.watch, group)
			if showLease(r.Fence) != showLease(winners[0]) || r.Lease.Owner != winners[0].Owner || r.Lease.Token != winners[0].Token {
				e.Fatalf("the winner is %s, lease row %s, fence row %s", showLease(winners[0]), showLease(r.Lease), showLease(r.Fence))
			}
			if r.Lease.Token <= last {
				e.Fatalf("token %d after %d", r.Lease.Token, last)
			}
			last = r.Lease.Token
		}
	}},

	{"concurrency/lease and fence are written together", func(e *leaseEnv) {
		s, reader := e.open(), e.open()
		e.take(s, group, alice)
		e.meet(func() {
			_, err := s.Acquire(e.ctx(), e.tryRequest(s))
			if err != nil {
				e.Errorf("Acquire: %v", err)
			}
		}, func() {
			if r := e.row(reader, group); r.Lease.Token != r.Fence.Token || r.Lease.Owner != r.Fence.Owner {
				e.Fatalf("lease %s beside fence %s", showLease(r.Lease), showLease(r.Fence))
			}
		})
	}},

	{"concurrency/a renewal of many is one statement, a reading of many one instant", func(e *leaseEnv) {
		s, reader := e.open(), e.open()
		names := []string{"a", "b", "c", "d", "e"}
		leases := make([]store.Renewal, len(names))
		for i, name := range names {
			leases[i] = leaseRenewal(e.take(s, name, alice))
		}
		heartbeat := uint64(1)
		e.meet(func() {
			heartbeat++
			n, err := s.Renew(e.ctx(), store.Renew{Owner: alice, Heartbeat: heartbeat, Leases: leases})
			if err != nil || n != len(leases) {
				e.Errorf("Renew: %d renewed, error %v, want %d and none", n, err, len(leases))
			}
			for i := range leases {
				leases[i].Heartbeat = heartbeat
			}
		}, func() {
			rs, err := reader.Read(e.ctx(), names...)
			e.ok(err, "Read")
			for _, r := range rs {
				if r.Lease == nil || rs[0].Lease == nil {
					e.Fatalf("in one reading: group %s %s, group %s %s", rs[0].Group, showLease(rs[0].Lease), r.Group, showLease(r.Lease))
				}
				if r.Lease.Heartbeat != rs[0].Lease.Heartbeat {
					e.Fatalf("in one reading: group %s %s, group %s %s", rs[0].Group, showLease(rs[0].Lease), r.Group, showLease(r.Lease))
				}
			}
		})
	}},

	{"concurrency/one store, many groups", func(e *leaseEnv) {
		one := e.open()
		stores := make([]store.Leases, leaseContenders)
		for i := range stores {
			stores[i] = one
		}
		e.together(stores, func(i int, s store.Leases) {
			name, owner := fmt.Sprint("group", i), fmt.Sprint("owner", i)
			for range 5 {
				if err := e.term(s, name, owner); err != nil {
					e.Errorf("a term of %s: %v", name, err)
				}
			}
		})
		for i := range leaseContenders {
			r := e.row(e.watch, fmt.Sprint("group", i))
			e.equal(r.Lease.Owner, fmt.Sprint("owner", i), "owner of "+r.Group)
			e.equal(r.Lease.Released, true, "Released of "+r.Group)
		}
	}},
}

// term takes, renews and releases a lease. An acquire may find the connection
// of its reading gone, for which it gets a few more readings.
func (e *leaseEnv) term(s store.Leases, name, owner string) error {
	if err := s.Prepare(e.ctx(), name, ttl); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	var token uint64
	err := store.ErrChanged
	for attempt := 0; errors.Is(err, store.ErrChanged) && attempt < 5; attempt++ {
		var rs []store.Reading
		if rs, err = s.Read(e.ctx(), name); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if len(rs) != 1 {
			return fmt.Errorf("read: %d readings, want one", len(rs))
		}
		token, err = s.Acquire(e.ctx(), store.Acquire{Read: rs[0], Owner: owner, Heartbeat: 1, TTL: ttl})
	}
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	n, err := s.Renew(e.ctx(), store.Renew{Owner: owner, Heartbeat: 2, Leases: []store.Renewal{{Group: name, Token: token, Heartbeat: 1}}})
	if err != nil || n != 1 {
		return fmt.Errorf("renew: %d renewed, error %w", n, err)
	}
	return s.Release(e.ctx(), name, owner, token)
}

// tryRequest is request for goroutines, which cannot end the case.
func (e *leaseEnv) tryRequest(s store.Leases) store.Acquire {
	rs, err := s.Read(e.ctx(), group)
	if err != nil || len(rs) != 1 || rs[0].Lease == nil {
		e.Errorf("Read: %d readings, error %v, want one with a lease", len(rs), err)
		return store.Acquire{}
	}
	return store.Acquire{Read: rs[0], Owner: fmt.Sprint("owner", rs[0].Lease.Token), Heartbeat: 1, TTL: ttl}
}

func (e *leaseEnv) replicas() []store.Leases {
	e.Helper()
	stores := make([]store.Leases, leaseContenders)
	for i := range stores {
		stores[i] = e.open()
	}
	return stores
}

// together runs f for each store at once, and waits for all.
func (e *leaseEnv) together(stores []store.Leases, f func(i int, s store.Leases)) {
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i, s := range stores {
		all.Go(func() {
			<-begin
			f(i, s)
		})
	}
	close(begin)
	all.Wait()
}

// meet reads for as long as writes go on in another goroutine, many times over.
func (e *leaseEnv) meet(write, read func()) {
	for range e.h.times(50) {
		written := make(chan struct{})
		go func() {
			defer close(written)
			for range 5 {
				write()
			}
		}()
		e.readUntil(written, read)
	}
}

func (e *leaseEnv) readUntil(written <-chan struct{}, read func()) {
	defer func() { <-written }() // also when read ends the case
	for {
		read()
		select {
		case <-written:
			return
		default:
		}
	}
}
