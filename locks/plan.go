package locks

import (
	"slices"

	"github.com/cronlease/cronlease/store"
)

// plan is the write that a round intends for one lock.
type plan struct {
	name   *name
	write  store.LockWrite
	queue  queue  // the row after the write
	server string // the server whose rows it is based on
}

// plans decides what to write. Refused are locks whose row has to be read again
// before a TryLock is told that the lock is not free; fresh are those that were just
// read. Names that were set aside meanwhile are left to the other goroutine that
// writes, the one for such rows.
func (rs *rows) plans(r round, fresh []*name) (plans []plan, refused []*name) {
	now := rs.sight.now() // one version for all is the shortest statement
	plans = make([]plan, 0, len(r.names))
	for _, n := range r.names {
		if n.turn.isAside() && !r.aside {
			continue
		}
		p, busy := rs.plan(n, now)
		if len(busy) > 0 {
			if !slices.Contains(fresh, n) {
				refused = append(refused, n)
				continue
			}
			rs.requests.turnAway(busy)
		}
		if p != nil {
			p.write.Wait = r.aside
			plans = append(plans, *p)
		}
	}
	return plans, refused
}

// plan decides what to write for one lock, nil for nothing, and which requests
// cannot be served; see [name.join]. Now is the database's clock.
func (rs *rows) plan(n *name, now int64) (p *plan, busy []*request) {
	if !rs.requests.inSession() || !n.row.isKnown() {
		return nil, nil // the next session starts over
	}
	self := rs.requests.process()
	mine := self.sessionID()
	rewound := n.row.isBarred()
	barred := rewound || rs.sight.isBarred()
	q := n.row.shown().clone()
	swept := n.sweep(&q, mine, rs.sight.isOver)
	joined, busy := n.join(&q, self, barred, now)
	if rewound {
		return nil, busy
	}
	// A token has to exceed all earlier ones, and a version must not be one that a
	// late write may expect, even if the row was deleted or restored.
	version := max(n.row.next(), rs.sight.next(now))
	var granted []place
	if !barred {
		granted = q.grant(version, now)
	}
	addressed := q.setAddress(mine, rs.notifier.address)
	q.clearFresh()
	if !swept && !joined && !addressed && len(granted) == 0 && !n.row.isUnsure() {
		return nil, busy
	}
	w := n.row.write(n.text, version, q)
	for _, g := range granted {
		if of := q.Processes[g.Process]; of.Group != rs.self.Group && of.Address != "" {
			w.Wake = append(w.Wake, of.Address)
		}
	}
	return &plan{n, w, q, rs.sight.answering()}, busy
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
