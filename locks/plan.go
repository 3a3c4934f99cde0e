package locks

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/store"
)

// plan is the write that a round intends for one lock.
type plan struct {
	name    *name
	write   store.LockWrite
	queue   queue   // the row after the write
	granted []place // the places that it grants
	server  string  // the server whose rows it is based on
}

// sessionID names the current session, while there is one.
func (rs *rows) sessionID() sessionID {
	return sessionID{rs.self.Group, rs.session.held.Token()}
}

// hasOrphan reports whether the row has a place of this session without a request,
// as when the database lost an unlock.
func (rs *rows) hasOrphan(n *name) bool {
	if rs.session == nil || rs.session.over {
		return false
	}
	mine := rs.sessionID()
	return slices.ContainsFunc(n.queue.Places, func(p place) bool {
		return n.queue.Processes[p.Process].sessionID() == mine && !slices.ContainsFunc(n.requests, func(r *request) bool { return r.ID == p.ID })
	})
}

// ahead are the other processes that are ahead of a place in the queue of a lock.
func (rs *rows) ahead(n *name, id string) []process {
	return slices.DeleteFunc(n.queue.ahead(id), func(of process) bool { return of.Group == rs.self.Group })
}

// releaseDead has the places of a session that is over removed from every queue
// that this process knows.
func (rs *rows) releaseDead(p process) {
	s := p.sessionID()
	if _, known := rs.over[s]; !known {
		rs.log.Info("the session of a holder is over: its locks are free", zap.String("holder", p.Owner), zap.Uint64("token", s.token))
	}
	rs.over[s] = time.Now()
	for _, n := range rs.names {
		if slices.ContainsFunc(n.queue.Processes, func(o process) bool { return o.sessionID() == s }) {
			rs.touch(n)
		}
	}
}

// plans decides what to write. Refused are locks whose row has to be read again
// before a TryLock is told that the lock is not free; fresh are those that were just
// read. Names that were set aside meanwhile are left to the other goroutine that
// writes, the one for such rows.
func (rs *rows) plans(batch, fresh []*name, aside bool) (plans []plan, refused []*name) {
	now := rs.now() // one version for all is the shortest statement
	plans = make([]plan, 0, len(batch))
	for _, n := range batch {
		if n.aside && !aside {
			continue
		}
		p, busy := rs.plan(n, now)
		if len(busy) > 0 {
			if !slices.Contains(fresh, n) {
				refused = append(refused, n)
				continue
			}
			for _, r := range busy {
				if r.try {
					r.decide(ErrBusy)
				} else {
					r.decide(ErrFull)
				}
				r.state = leaving
				rs.forget(r)
			}
		}
		if p != nil {
			p.write.Wait = aside
			plans = append(plans, *p)
		}
	}
	return plans, refused
}

// plan decides what to write for one lock, nil for nothing, and which requests
// cannot be served: a TryLock that would have to wait, and any request if the queue
// is full. Now is the database's clock.
func (rs *rows) plan(n *name, now int64) (p *plan, busy []*request) {
	if rs.session == nil || rs.session.over || !n.known {
		return nil, nil // the next session starts over
	}
	q := n.queue.clone()
	mine := rs.sessionID()
	changed := q.keep(func(of process, p place) bool {
		if of.Group != mine.group {
			_, over := rs.over[of.sessionID()]
			return !over
		}
		// A place of this client without a request is one of an earlier session, or
		// of a write that was carried out late.
		return of.sessionID() == mine && slices.ContainsFunc(n.requests, func(r *request) bool {
			return r.ID == p.ID && r.state != leaving
		})
	})
	// A row that was rewound is not written while it is barred, so that other
	// processes that saw the newer version notice too.
	rewound := time.Now().Before(n.barred)
	barred := rewound || time.Now().Before(rs.barred)
	self := rs.self
	self.Token = mine.token
	for _, r := range n.requests {
		if r.state != wanted || r.session != rs.session || q.find(r.ID) != nil {
			continue
		}
		if r.try && (barred || !q.free(r.Read)) {
			busy = append(busy, r)
			continue
		}
		if len(q.Places) >= placesMost {
			busy = append(busy, r)
			continue
		}
		if r.Since == 0 {
			r.Since = now
		}
		q.join(self, r.place)
		changed = true
	}
	if rewound {
		return nil, busy
	}
	// A token has to exceed all earlier ones, and a version must not be one that a
	// late write may expect, even if the row was deleted or restored. Hence the
	// database's clock, and the floor, which a pruned row may have reached. The
	// floor matters for an existing row too: programs of schema version 3 insert
	// without checking the floor.
	version := max(n.version+1, n.floor+1, rs.floor+1, uint64(now))
	var granted []place
	if !barred {
		granted = q.grant(version, now)
	}
	changed = q.setAddress(mine, rs.notifier.address) || changed
	q.clearFresh()
	if !changed && len(granted) == 0 && !n.unsure {
		return nil, busy
	}
	return &plan{n, store.LockWrite{Name: n.text, Expect: n.version, Version: version, Queue: q.encode()}, q, granted, rs.server}, busy
}

// needsAddress reports whether a request of this process is about to wait while no
// address is known under which it can be woken.
func (rs *rows) needsAddress(plans []plan) bool {
	return rs.notifier.Notifier != nil && rs.notifier.address == "" && slices.ContainsFunc(plans, func(p plan) bool {
		return slices.ContainsFunc(p.queue.Places, func(at place) bool {
			return at.Granted == 0 && p.queue.Processes[at.Process].Group == rs.self.Group
		})
	})
}
