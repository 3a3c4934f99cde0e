package locks

import (
	"slices"
	"time"
)

// plan is the write that a round intends for one lock.
type plan struct {
	name    *name
	write   Write
	queue   queue   // what write makes of the row
	granted []place // what it gives
	server  string  // the one whose rows it leans on
}

// needsBell reports whether somebody here is about to wait, and the client has
// no bell yet on which to be rung.
func (c *Client) needsBell(plans []plan) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bell != nil && c.address == "" && slices.ContainsFunc(plans, func(p plan) bool {
		return slices.ContainsFunc(p.queue.Places, func(at place) bool {
			return at.Granted == 0 && p.queue.Processes[at.Process].Group == c.self.Group
		})
	})
}

// session names the present session. It is called with mu held, while there is
// one.
func (c *Client) session() session { return session{c.self.Group, c.term.held.Token()} }

// haunted reports whether there is a place in this session's name that nobody
// asked for, as when an unlock was forgotten by the database. It is called with
// mu held.
func (c *Client) haunted(n *name) bool {
	if c.term == nil || c.term.over {
		return false
	}
	mine := c.session()
	return slices.ContainsFunc(n.queue.Places, func(p place) bool {
		return n.queue.Processes[p.Process].session() == mine && !slices.ContainsFunc(n.requests, func(r *request) bool { return r.ID == p.ID })
	})
}

// plans decides what to write. Refused are locks whose row would have to be read
// anew before somebody who does not wait is told that it is not free; fresh are
// those that were. Names that turned out to belong to the other goroutine that
// writes, the one for rows that are set aside, are left to it.
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
// cannot be served: those that do not wait, and those that find the line full. Now is the database's clock. It is called
// with mu held.
func (c *Client) plan(n *name, now int64) (p *plan, busy []*request) {
	if c.term == nil || c.term.over || !n.known {
		return nil, nil // the next session begins anew
	}
	q := n.queue.clone()
	mine := c.session()
	changed := q.keep(func(of process, p place) bool {
		if of.Group != mine.group {
			_, dead := c.dead[of.session()]
			return !dead
		}
		// What is in this client's name and not asked for is a place of an
		// earlier session, or of a write that was carried out late.
		return of.session() == mine && slices.ContainsFunc(n.requests, func(r *request) bool {
			return r.ID == p.ID && r.state != leaving
		})
	})
	// A row that was rewound is left as it is for that time, so that others who
	// know better notice too.
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
	// A token is greater than all that were, and a version is none that a late
	// write may expect, also if the row was deleted or restored: by the
	// database's clock, and above the floor, which a row that was pruned may have
	// had. That counts for a row that is there too: programs of schema version 3
	// insert without a look at the floor.
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

// setBell writes down where to ring this process, as long as it waits. It is
// called with mu held.
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

// unsettled reports whether a request is not as the row has it. It is called
// with mu held.
func (c *Client) unsettled(n *name) bool {
	return slices.ContainsFunc(n.requests, func(r *request) bool {
		return r.term != nil && !r.term.over && (r.state == leaving || r.state == wanted && n.queue.find(r.ID) == nil)
	})
}
