package locks

import (
	"slices"
	"time"
)

// plan is the write that a round intends for one lock.
type plan struct {
	name    *name
	write   Write
	queue   queue   // the row after the write
	granted []place // the places that it grants
	server  string  // the server whose rows it is based on
}

// needsBell reports whether a request of this process is about to wait while the
// bell has no address yet.
func (c *Client) needsBell(plans []plan) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bell != nil && c.address == "" && slices.ContainsFunc(plans, func(p plan) bool {
		return slices.ContainsFunc(p.queue.Places, func(at place) bool {
			return at.Granted == 0 && p.queue.Processes[at.Process].Group == c.self.Group
		})
	})
}

// session names the current session. It is called with mu held, while there is
// one.
func (c *Client) session() session { return session{c.self.Group, c.term.held.Token()} }

// haunted reports whether the row has a place of this session without a request,
// as when the database lost an unlock. It is called with mu held.
func (c *Client) haunted(n *name) bool {
	if c.term == nil || c.term.over {
		return false
	}
	mine := c.session()
	return slices.ContainsFunc(n.queue.Places, func(p place) bool {
		return n.queue.Processes[p.Process].session() == mine && !slices.ContainsFunc(n.requests, func(r *request) bool { return r.ID == p.ID })
	})
}

// plans decides what to write. Refused are locks whose row has to be read again
// before a TryLock is told that the lock is not free; fresh are those that were just
// read. Names that were set aside meanwhile are left to the other goroutine that
// writes, the one for such rows.
func (c *Client) plans(batch, fresh []*name, aside bool) (plans []plan, refused []*name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.databaseNow() // one version for all is the shortest statement
	for _, n := range batch {
		if n.aside && !aside {
			continue
		}
		p, busy := c.plan(n, now)
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
				c.forget(r)
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
// is full. Now is the database's clock. It is called with mu held.
func (c *Client) plan(n *name, now int64) (p *plan, busy []*request) {
	if c.term == nil || c.term.over || !n.known {
		return nil, nil // the next session starts over
	}
	q := n.queue.clone()
	mine := c.session()
	changed := q.keep(func(of process, p place) bool {
		if of.Group != mine.group {
			_, dead := c.dead[of.session()]
			return !dead
		}
		// A place of this client without a request is one of an earlier session, or
		// of a write that was carried out late.
		return of.session() == mine && slices.ContainsFunc(n.requests, func(r *request) bool {
			return r.ID == p.ID && r.state != leaving
		})
	})
	// A row that was rewound is not written while it is barred, so that other
	// processes that saw the newer version notice too.
	rewound := time.Now().Before(n.barred)
	barred := rewound || time.Now().Before(c.barred)
	self := c.self
	self.Token = mine.token
	for _, r := range n.requests {
		if r.state != wanted || r.term != c.term || q.find(r.ID) != nil {
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
	version := max(n.version+1, n.floor+1, c.floor+1, uint64(now))
	var granted []place
	if !barred {
		granted = q.grant(version, now)
	}
	changed = c.setBell(&q, mine) || changed
	q.settle()
	if !changed && len(granted) == 0 && !n.unsure {
		return nil, busy
	}
	return &plan{n, Write{Name: n.text, Expect: n.version, Version: version, Queue: q.encode()}, q, granted, c.server}, busy
}

// setBell puts this process's bell address into the queue while the process waits.
// It is called with mu held.
func (c *Client) setBell(q *queue, mine session) bool {
	for i := range q.Processes {
		p := &q.Processes[i]
		if p.session() != mine {
			continue
		}
		bell := ""
		if slices.ContainsFunc(q.Places, func(p place) bool { return p.Process == i && p.Granted == 0 }) {
			bell = c.address
		}
		if p.Bell != bell {
			p.Bell = bell
			return true
		}
	}
	return false
}

// unsettled reports whether the row does not yet reflect a request. It is called
// with mu held.
func (c *Client) unsettled(n *name) bool {
	return slices.ContainsFunc(n.requests, func(r *request) bool {
		return r.term != nil && !r.term.over && (r.state == leaving || r.state == wanted && n.queue.find(r.ID) == nil)
	})
}
