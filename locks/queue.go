package locks

import (
	"slices"
	"time"
)

const (
	// placesMost limits the holders and waiters of a lock, so that its row can be
	// written; labelsMost the length of all labels in a row, in bytes, which each grant
	// writes again.
	placesMost = 4096
	labelsMost = 16 << 10
)

// queue is the content of a lock's row: its holders and waiters, in order of
// arrival. It is a plain value that does no I/O; everything that the row means is
// decided here.
//
// The order alone determines the holders: a writer holds the lock when no place is
// ahead of it, a reader when no writer is. So a waiting writer blocks later
// readers, and neither writers nor readers starve.
type queue struct {
	// Processes are those that have a place, without duplicates.
	Processes []process `json:"processes"`
	Places    []place   `json:"places"`
}

// process is one session of one process: all its places end with it.
type process struct {
	// Group is the name of the session's lease row, and Token its term.
	Group string `json:"group"`
	Token uint64 `json:"token"`
	// Owner is for display.
	Owner string `json:"owner"`
	// Started is when the program was started, in seconds since 1970 by its
	// own clock; for display.
	Started int64 `json:"started"`
	// TTL is that of the session.
	TTL time.Duration `json:"ttl"`
	// Address is where to notify it when one of its waiting places is granted.
	Address string `json:"bell,omitempty"`
}

// place is the position of one holder or waiter in the queue. The order of the
// first two fields matters: see [place.mark].
type place struct {
	// ID is never reused. It begins with the group of its process.
	ID string `json:"id"`
	// Granted is the fencing token: the version of the row that gave the lock
	// to this place, 0 while it waits.
	Granted uint64 `json:"granted"`
	Read    bool   `json:"read,omitempty"`
	// Since is when the place was taken, and Got when it was granted the lock, if
	// that was not at once, in microseconds since 1970 by the database's clock
	// as its process knew it; For is the limit of a LockFor. In the row they are
	// for display.
	Since int64         `json:"since"`
	Got   int64         `json:"got,omitempty"`
	For   time.Duration `json:"for,omitempty"`
	Label string        `json:"label,omitempty"`

	// Process is the index of its process.
	Process int `json:"process,omitempty"`

	fresh bool // it was added by the current change
}

// sessionID names one process's session.
type sessionID struct {
	group string
	token uint64
}

func (p process) sessionID() sessionID { return sessionID{p.Group, p.Token} }

// clearFresh ends a change: its places are no longer fresh.
func (q queue) clearFresh() {
	for i := range q.Places {
		q.Places[i].fresh = false
	}
}

// clone returns a deep copy.
func (q queue) clone() queue {
	return queue{slices.Clone(q.Processes), slices.Clone(q.Places)}
}

// join adds a place at the end of the queue, without its label where the row has many.
func (q *queue) join(of process, p place) {
	labels := len(p.Label)
	for i := range q.Places {
		labels += len(q.Places[i].Label)
	}
	if labels > labelsMost {
		p.Label = ""
	}
	i := slices.IndexFunc(q.Processes, func(o process) bool { return o.sessionID() == of.sessionID() })
	if i < 0 {
		i = len(q.Processes)
		q.Processes = append(q.Processes, of)
	} else if of.Address != "" {
		q.Processes[i].Address = of.Address
	}
	p.Process, p.Granted, p.fresh = i, 0, true
	q.Places = append(q.Places, p)
}

// keep removes the places for which keep is false, and reports whether there were
// any.
func (q *queue) keep(keep func(process, place) bool) bool {
	before := len(q.Places)
	q.Places = slices.DeleteFunc(q.Places, func(p place) bool { return !keep(q.Processes[p.Process], p) })
	if len(q.Places) == before {
		return false
	}
	// Drop the processes that have no place left.
	index, left := make([]int, len(q.Processes)), []process{}
	for i := range index {
		index[i] = -1
	}
	for i, p := range q.Places {
		if index[p.Process] < 0 {
			index[p.Process] = len(left)
			left = append(left, q.Processes[p.Process])
		}
		q.Places[i].Process = index[p.Process]
	}
	q.Processes = left
	return true
}

// grant grants the lock, with the token, to every place that the order entitles to
// it and that does not have it yet, and returns these places.
func (q *queue) grant(token uint64, now int64) []place {
	var granted []place
	for i := range q.Places {
		p := &q.Places[i]
		if !p.Read && i > 0 {
			break
		}
		if p.Granted == 0 {
			p.Granted = token
			if !p.fresh {
				p.Got = now
			}
			granted = append(granted, *p)
		}
		if !p.Read {
			break
		}
	}
	return granted
}

// find returns the place of that id, or nil.
func (q queue) find(id string) *place {
	for i := range q.Places {
		if q.Places[i].ID == id {
			return &q.Places[i]
		}
	}
	return nil
}

// has reports whether a session has a place.
func (q queue) has(s sessionID) bool {
	return slices.ContainsFunc(q.Processes, func(p process) bool { return p.sessionID() == s })
}

// free reports whether a new request would be granted at once.
func (q queue) free(read bool) bool {
	if !read {
		return len(q.Places) == 0
	}
	return !slices.ContainsFunc(q.Places, func(p place) bool { return !p.Read })
}

// setAddress puts its address into a session's process while it waits, and reports
// whether that changes the queue.
func (q *queue) setAddress(of sessionID, address string) bool {
	for i := range q.Processes {
		p := &q.Processes[i]
		if p.sessionID() != of {
			continue
		}
		where := ""
		if slices.ContainsFunc(q.Places, func(p place) bool { return p.Process == i && p.Granted == 0 }) {
			where = address
		}
		if p.Address != where {
			p.Address = where
			return true
		}
	}
	return false
}

// ahead are the processes with places ahead of that of an id, without duplicates;
// all processes if there is no such place.
func (q queue) ahead(id string) []process {
	var ahead []process
	known := map[sessionID]bool{}
	for _, p := range q.Places {
		if p.ID == id {
			break
		}
		of := q.Processes[p.Process]
		if s := of.sessionID(); !known[s] {
			known[s] = true
			ahead = append(ahead, of)
		}
	}
	return ahead
}
