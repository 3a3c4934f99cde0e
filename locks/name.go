package locks

import (
	"slices"
	"time"
)

// name is what this process knows of one lock that it uses or has used lately: its
// requests, and what there is to say of it in rounds and of its row.
type name struct {
	text     string
	requests []*request // in order of arrival
	used     time.Time
	turn     turn
	row      row
}

func (n *name) use()              { n.used = time.Now() }
func (n *name) usedAt() time.Time { return n.used }
func (n *name) isIdle() bool      { return len(n.requests) == 0 }
func (n *name) all() []*request   { return slices.Clone(n.requests) }
func (n *name) add(r *request)    { n.requests = append(n.requests, r) }
func (n *name) has(in state) bool { return n.any(func(r *request) bool { return r.state == in }) }

func (n *name) any(is func(*request) bool) bool { return slices.ContainsFunc(n.requests, is) }

func (n *name) remove(r *request) {
	n.requests = slices.DeleteFunc(n.requests, func(o *request) bool { return o == r })
	n.use()
}

// waits returns this process's first waiting place in the queue as it is known, or
// nil if there is none.
func (n *name) waits() *place {
	if !n.row.isKnown() {
		return nil
	}
	q := n.row.shown()
	for i := range q.Places {
		p := &q.Places[i]
		if p.Granted > 0 {
			continue
		}
		for _, r := range n.requests {
			if r.ID == p.ID && r.state == wanted && r.isPlaced() {
				return p
			}
		}
	}
	return nil
}

// isPending reports whether the row does not reflect a request yet.
func (n *name) isPending() bool {
	q := n.row.shown()
	return n.any(func(r *request) bool {
		return r.isPlaced() && (r.state == leaving || r.state == wanted && q.find(r.ID) == nil)
	})
}

// hasOrphan reports whether the row has a place of this session without a request,
// as when the database lost an unlock.
func (n *name) hasOrphan(mine sessionID) bool {
	q := n.row.shown()
	return slices.ContainsFunc(q.Places, func(p place) bool {
		return q.Processes[p.Process].sessionID() == mine && !n.any(func(r *request) bool { return r.ID == p.ID })
	})
}

// sweep removes the places of requests that do not want the lock any more, and those of
// sessions that are over.
func (n *name) sweep(q *queue, mine sessionID, isOver func(sessionID) bool) (changed bool) {
	return q.keep(func(of process, p place) bool {
		if of.Group != mine.group {
			return !isOver(of.sessionID())
		}
		// A place of this client without a request is one of an earlier session, or
		// of a write that was carried out late.
		return of.sessionID() == mine && n.any(func(r *request) bool { return r.ID == p.ID && r.state != leaving })
	})
}

// join adds the places of requests that have none yet, and returns those that cannot be
// served: a TryLock that would have to wait, and any request if the queue is full. A lock
// that is barred is free for no one. Now is the database's clock.
func (n *name) join(q *queue, self process, barred bool, now int64) (changed bool, busy []*request) {
	for _, r := range n.requests {
		switch {
		case r.state != wanted || !r.isPlaced() || q.find(r.ID) != nil:
		case r.try && (barred || !q.free(r.Read)), len(q.Places) >= placesMost:
			busy = append(busy, r)
		default:
			if r.Since == 0 {
				r.Since = now
			}
			q.join(self, r.place)
			changed = true
		}
	}
	return changed, busy
}
