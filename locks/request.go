package locks

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"
)

// state is that of a request.
type state int

const (
	wanted  state = iota // to be queued, and then to hold the lock
	held                 // it has the lock
	leaving              // to be taken out of the queue; its caller no longer waits for the lock
)

// request is one call that wants a lock, from the call until its place is known
// to be out of the lock's row.
type request struct {
	name *name
	try  bool
	place

	state   state
	session *session      // that its place belongs to; nil before it has one
	decided chan struct{} // closed when it has the lock, or err
	err     error
	left    chan struct{} // closed when it is out of the row

	// Once it has the lock:
	began  time.Time
	ctx    context.Context
	cancel context.CancelCauseFunc
	open   bool        // its holder has not unlocked it
	past   bool        // it was taken from its holder, whose Unlock has not returned that yet
	timer  *time.Timer // of the limit, nil when there is none
}

// submit adds a request, and reports whether its lock has to be scheduled: it has a place
// to write.
func (rs *rows) submit(r *request) bool {
	r.name.requests = append(r.name.requests, r)
	rs.active[r.name] = true
	if rs.session == nil || rs.session.over {
		poke(rs.sessions)
		return false
	}
	rs.enter(r)
	return true
}

// enter gives the request its place in the present session. Its lock has to be scheduled.
func (rs *rows) enter(r *request) {
	rs.number++
	r.session = rs.session
	r.ID = rs.self.Group + "." + strconv.FormatUint(rs.number, 10)
	r.Since = rs.now()
}

// notice updates the requests from the row.
func (rs *rows) notice(n *name) {
	for _, r := range slices.Clone(n.requests) {
		if r.session == nil || r.session.over {
			continue
		}
		p := n.queue.find(r.ID)
		switch r.state {
		case wanted:
			if p != nil && p.Granted > 0 {
				rs.give(r, *p)
			}
		case held:
			if p == nil || p.Granted != r.Granted {
				rs.lose(r, fmt.Errorf("%w: the row of lock %q was changed by another program", ErrLost, n.text))
			}
		case leaving:
			if p == nil && !n.unsure {
				rs.forget(r)
			}
		}
	}
}

// give answers a request that was granted the lock.
func (rs *rows) give(r *request, p place) {
	r.place = p
	r.state = held
	r.open = true
	r.session.open++
	r.began = time.Now()
	if r.For > 0 {
		r.timer = time.AfterFunc(r.For, func() { rs.limit(r) })
	}
	r.decide(nil)
}

// limit ends a lock whose limit has passed. Work that still runs gets the grace,
// then the lock is released anyway. It is called by a timer, without mu.
func (rs *rows) limit(r *request) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r.state != held {
		return
	}
	r.cancel(fmt.Errorf("%w (%v)", ErrLimit, r.For))
	r.timer = time.AfterFunc(rs.timing.Grace, func() {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		if r.state == held {
			rs.close(r)
			r.past = true
			r.state = leaving
			rs.touch(r.name)
		}
	})
}

// lose ends a lock that is not ours any more.
func (rs *rows) lose(r *request, cause error) {
	r.cancel(cause)
	r.state = leaving
	rs.forget(r)
}

// breakOff suspends a lock whose row cannot be decoded, for a while.
func (rs *rows) breakOff(n *name, err error) {
	n.known = false
	n.news++
	for _, r := range slices.Clone(n.requests) {
		switch {
		case r.state == held:
			rs.lose(r, fmt.Errorf("%w: %w", ErrLost, err))
		case r.state == leaving, r.try:
			r.decide(err)
			r.state = leaving
			rs.forget(r)
		}
	}
	if len(n.requests) == 0 {
		return
	}
	rs.log.Error("a lock cannot be granted", zap.String("lock", n.text), zap.Error(err))
	n.broken = time.Now().Add(lookEvery)
	rs.touchAfter(lookEvery, n)
}

// close is called once for each lock that was granted, when its holder has
// stopped.
func (rs *rows) close(r *request) {
	r.open = false
	r.session.open--
	if r.timer != nil {
		r.timer.Stop()
	}
	if r.session.over {
		poke(rs.sessions)
	}
}

// withdraw ends a request whose caller no longer waits.
func (rs *rows) withdraw(r *request, err error) {
	switch r.state {
	case wanted:
		rs.giveUp(r, err)
	case held:
		r.state = leaving
		rs.touch(r.name)
	}
	r.cancel(err)
}

// giveUp ends a request with an error, and has its place removed from the row if
// it may have one.
func (rs *rows) giveUp(r *request, err error) {
	r.decide(err)
	r.state = leaving
	if r.session == nil || r.session.over { // no place, or one that ends with the session
		rs.forget(r)
		return
	}
	rs.touch(r.name)
}

// failTries fails the TryLock requests for a lock when the database does not answer.
func (rs *rows) failTries(n *name, err error) {
	for _, r := range slices.Clone(n.requests) {
		if r.try && r.state == wanted {
			rs.giveUp(r, err)
		}
	}
}

// shut ends the requests that wait, and lets no more of them begin.
func (rs *rows) shut() {
	rs.closing = true
	for n := range rs.active {
		for _, r := range slices.Clone(n.requests) {
			if r.state == wanted {
				rs.giveUp(r, ErrClosed)
			}
		}
	}
}

// forget drops a request that is out of the row.
func (rs *rows) forget(r *request) {
	r.name.requests = slices.DeleteFunc(r.name.requests, func(o *request) bool { return o == r })
	r.name.used = time.Now()
	if len(r.name.requests) == 0 {
		delete(rs.active, r.name)
	}
	close(r.left)
	if rs.closing {
		poke(rs.sessions)
	}
}

// decide answers a request, once.
func (r *request) decide(err error) {
	select {
	case <-r.decided:
	default:
		r.err = err
		close(r.decided)
	}
}

// why describes what a request was waiting for.
func (rs *rows) why(r *request) string {
	switch {
	case r.name.failure != nil:
		return fmt.Sprintf(" (the database: %v)", r.name.failure)
	case rs.failure != nil:
		return fmt.Sprintf(" (the database: %v)", rs.failure)
	case r.name.aside:
		return " (another transaction keeps its row locked)"
	}
	for _, p := range r.name.queue.Places {
		if p.Granted > 0 && p.ID != r.ID {
			of := r.name.queue.Processes[p.Process]
			return fmt.Sprintf(" (held by %s under token %d)", of.Owner, p.Granted)
		}
	}
	return ""
}
