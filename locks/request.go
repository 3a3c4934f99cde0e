package locks

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/cronlease/cronlease/store"
)

// state is that of a request:
//
//	wanted --give--> held --close--> leaving --forget--> out of the row
//	wanted --giveUp, refuse--> leaving
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
	left    chan struct{} // closed when it is forgotten
	doubt   error         // set before that: why the database has not confirmed that it is out of the row

	// Once it has the lock:
	began  time.Time
	ctx    context.Context
	cancel context.CancelCauseFunc
	open   bool        // its holder has not unlocked it
	past   bool        // it was taken from its holder, whose Unlock has not returned that yet
	timer  *time.Timer // of the limit, nil when there is none
}

// isPlaced reports whether it has a place in a session that is not over.
func (r *request) isPlaced() bool { return r.session != nil && !r.session.over }

// decide answers a request, once.
func (r *request) decide(err error) {
	select {
	case <-r.decided:
	default:
		r.err = err
		close(r.decided)
	}
}

// requests are the requests of this process, each with a place in the present session or
// none yet. It moves them from state to state by what the rows show.
//
// A request holds its lock once a row has shown its place as granted, for as long as each
// later row shows the same, and its session lasts: a process that grants the lock to
// another place has removed this one first, which ends the one or the other. And a request that
// leaves is forgotten only when the database has confirmed that it is out: a row was seen without
// its place that no write of ours can put back, or its session was released. Where neither
// can be had, it is forgotten with the reason.
type requests struct {
	mu     *sync.Mutex // the client's, for timers
	grace  time.Duration
	self   process
	rounds *rounds
	sight  *sight

	active   map[*name]bool // the locks that have requests
	session  *session       // nil before the first one
	sessions chan struct{}  // capacity 1: a session may be needed, or may end
	number   uint64         // of requests that had a place
	closing  bool
}

// submit adds a request, and reports whether its lock has to be scheduled: it has a place
// to write.
func (rs *requests) submit(r *request) bool {
	r.name.add(r)
	rs.active[r.name] = true
	if !rs.inSession() {
		poke(rs.sessions)
		return false
	}
	rs.enter(r)
	return true
}

// enter gives the request its place in the present session. Its lock has to be scheduled.
func (rs *requests) enter(r *request) {
	rs.number++
	r.session = rs.session
	r.ID = rs.self.Group + "." + strconv.FormatUint(rs.number, 10)
	r.Since = rs.sight.now()
}

// inSession reports whether there is a session that is not over.
func (rs *requests) inSession() bool { return rs.session != nil && !rs.session.over }

// process is this one, in the present session.
func (rs *requests) process() process {
	self := rs.self
	self.Token = rs.session.held.Token()
	return self
}

// notice updates the requests from the row.
func (rs *requests) notice(n *name) {
	q := n.row.shown()
	for _, r := range n.all() {
		if !r.isPlaced() && r.state != leaving {
			continue
		}
		p := q.find(r.ID)
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
			if p == nil && !n.row.isUnsure() {
				rs.forget(r, nil)
			}
		}
	}
}

// give answers a request that was granted the lock.
func (rs *requests) give(r *request, p place) {
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
func (rs *requests) limit(r *request) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r.state != held {
		return
	}
	r.cancel(fmt.Errorf("%w (%v)", ErrLimit, r.For))
	r.timer = time.AfterFunc(rs.grace, func() {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		if r.state == held {
			rs.close(r)
			r.past = true
			r.state = leaving
			rs.rounds.touch(r.name)
		}
	})
}

// lose ends a lock that is not ours any more.
func (rs *requests) lose(r *request, cause error) {
	r.cancel(cause)
	r.state = leaving
	rs.forget(r, nil) // its holder is told by the cause
}

// breakOff ends the requests for a lock whose row cannot be decoded, but for those that
// may wait until it can, and reports whether there are any.
func (rs *requests) breakOff(n *name, err error) (left bool) {
	for _, r := range n.all() {
		switch {
		case r.state == held:
			rs.lose(r, fmt.Errorf("%w: %w", ErrLost, err))
		case r.state == leaving, r.try:
			r.decide(err)
			r.state = leaving
			rs.forget(r, err)
		}
	}
	return !n.isIdle()
}

// refuse ends a request that has no place in the row.
func (rs *requests) refuse(r *request, err error) {
	r.decide(err)
	r.state = leaving
	rs.forget(r, nil)
}

// turnAway ends requests that cannot be served.
func (rs *requests) turnAway(busy []*request) {
	for _, r := range busy {
		err := ErrFull
		if r.try {
			err = ErrBusy
		}
		if r.name.row.isUnsure() {
			rs.giveUp(r, err) // its place may still come
		} else {
			rs.refuse(r, err)
		}
	}
}

// close is called once for each lock that was granted, when its holder has
// stopped.
func (rs *requests) close(r *request) {
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
func (rs *requests) withdraw(r *request, err error) {
	switch r.state {
	case wanted:
		rs.giveUp(r, err)
	case held:
		r.state = leaving
		rs.rounds.touch(r.name)
	}
	r.cancel(err)
}

// giveUp ends a request with an error, and has its place removed from the row if
// it may have one.
func (rs *requests) giveUp(r *request, err error) {
	if !r.isPlaced() { // no place, or one that ends with the session
		rs.refuse(r, err)
		return
	}
	r.decide(err)
	r.state = leaving
	rs.rounds.touch(r.name)
}

// giveUpTries fails the TryLock requests for a lock when the database does not answer.
func (rs *requests) giveUpTries(n *name, err error) {
	for _, r := range n.all() {
		if r.try && r.state == wanted {
			rs.giveUp(r, err)
		}
	}
}

// shut ends the requests that wait, and lets no more of them begin.
func (rs *requests) shut() {
	rs.closing = true
	for n := range rs.active {
		for _, r := range n.all() {
			if r.state == wanted {
				rs.giveUp(r, ErrClosed)
			}
		}
	}
}

func (rs *requests) isClosing() bool { return rs.closing }

// locks are those that have requests.
func (rs *requests) locks() iter.Seq[*name] { return maps.Keys(rs.active) }

// forget drops a request that is out of the row, or may be in it: doubt says why.
func (rs *requests) forget(r *request, doubt error) {
	if r.name.remove(r); r.name.isIdle() {
		delete(rs.active, r.name)
	}
	if r.doubt = doubt; doubt != nil && r.session != nil {
		r.session.doubtful = true
	}
	close(r.left)
	if rs.closing {
		poke(rs.sessions)
	}
}

// needs reports whether there are requests, and whether the client is closed and has
// none left.
func (rs *requests) needs() (session, done bool) {
	return len(rs.active) > 0, rs.closing && len(rs.active) == 0
}

// begin gives every waiting request a place in the new session.
func (rs *requests) begin(s *session) {
	rs.session = s
	for n := range rs.active {
		for _, r := range n.all() {
			if r.state == wanted {
				rs.enter(r)
				rs.rounds.touch(n)
			}
		}
	}
}

// end takes all locks of a session from their holders, and returns how many there were.
// Waiting requests go on waiting, in the next session; those that leave, until finish.
func (rs *requests) end(s *session, cause error) (lost int) {
	s.over = true
	for n := range rs.active {
		for _, r := range n.all() {
			if r.session != s {
				continue
			}
			switch r.state {
			case held:
				lost++
				rs.lose(r, cause)
			case wanted:
				r.session = nil
			}
		}
	}
	return lost
}

// finish drops the requests that leave a session which has ended. Without doubt it was
// released, and its places with it.
func (rs *requests) finish(s *session, doubt error) {
	for n := range rs.active {
		for _, r := range n.all() {
			if r.session == s {
				rs.forget(r, doubt)
			}
		}
	}
}

// touchAfter schedules locks after a while, those that have requests then.
func (rs *requests) touchAfter(wait time.Duration, names ...*name) {
	time.AfterFunc(wait, func() {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		for _, n := range names {
			if !n.isIdle() {
				rs.rounds.touch(n)
			}
		}
	})
}

// waiting returns the locks that this process waits for, and for each the mark that
// its row contains until the first of these waiters is granted the lock. The ones
// behind it cannot be granted before it is. Without a session there are no places,
// but the holders and waiters that will be ahead of them are watched nevertheless.
func (rs *requests) waiting() (names []*name, rows []store.LockWatch) {
	for n := range rs.active {
		switch p := n.waits(); {
		case n.turn.isBusy(): // the write in flight will show
		case p != nil:
			names = append(names, n)
			rows = append(rows, store.LockWatch{Name: n.text, Mark: p.mark()})
		case rs.session != nil && rs.session.over && n.has(wanted):
			names = append(names, n)
		}
	}
	return names, rows
}
