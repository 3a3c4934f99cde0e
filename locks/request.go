package locks

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// state is that of a request.
type state int

const (
	wanted  state = iota // to be queued, and then to hold the lock
	held                 // it has the lock
	leaving              // to be taken out of the queue; its caller no longer waits for the lock
)

// request is one call that wants a lock, from the call until its place is known
// to be out of the lock's row. All fields that change are guarded by Client.mu.
type request struct {
	name *name
	try  bool
	place

	state   state
	term    *term         // the session that its place belongs to; nil before it has one
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

// name is what this process knows of one lock that it uses or has used lately.
// All of it is guarded by Client.mu.
type name struct {
	text     string
	requests []*request // in order of arrival
	dirty    bool       // in Client.dirty
	busy     bool       // in a round of the writer
	used     time.Time
	seen     time.Time // when its row was last read or written

	// The row as it was last seen. This cache is only a guess, which the
	// comparison in the next write checks.
	known   bool
	news    uint64 // counts the updates of this cache
	version uint64
	queue   queue
	// highest is the newest version seen since the row was last found to be
	// rewound, and floor the newest ever.
	highest, floor uint64
	// contended: other processes were seen to write the row, so it is read before
	// it is written, which costs less than a failed comparison.
	contended bool
	// refused: a write was not carried out, and the row was not read since.
	refused bool
	// aside: its row is written separately from all others, because another
	// transaction keeps it locked, or because it cannot be written.
	aside bool
	// most is the largest batch that it may be written in, 0 for no limit; failed is
	// when a write of it alone last failed, and failure the error of the last read
	// or write of its row, nil if that succeeded.
	most    int
	failed  time.Time
	failure error
	// broken: its row could not be decoded. It is read again after this instant.
	broken time.Time
	// unsure: a write of ours was not answered and may still be carried out,
	// until another one succeeds.
	unsure bool
	// barred: the lock is not granted before this instant. Its row was rewound,
	// and a holder may still trust a place that is gone.
	barred time.Time
}

// name returns the lock of that name. It is called with mu held.
func (c *Client) name(text string) *name {
	n := c.names[text]
	if n == nil {
		n = &name{text: text}
		c.names[text] = n
	}
	n.used = time.Now()
	return n
}

// submit adds a request. It is called with mu held.
func (c *Client) submit(r *request) {
	r.name.requests = append(r.name.requests, r)
	c.active[r.name] = true
	if c.term == nil || c.term.over {
		c.poke(c.sessions)
		return
	}
	c.enter(r)
}

// enter gives the request its place in the present session. It is called with
// mu held.
func (c *Client) enter(r *request) {
	c.number++
	r.term = c.term
	r.ID = fmt.Sprintf("%s.%d", c.self.Group, c.number)
	r.Since = c.databaseNow()
	c.touch(r.name)
}

// touch schedules the lock for the writer. It is called with mu held.
func (c *Client) touch(n *name) {
	if n.dirty {
		return
	}
	n.dirty = true
	c.dirty = append(c.dirty, n)
	if n.aside {
		c.poke(c.asides)
	} else {
		c.poke(c.writes)
	}
}

// decide answers a request, once. It is called with mu held.
func (r *request) decide(err error) {
	select {
	case <-r.decided:
	default:
		r.err = err
		close(r.decided)
	}
}

// giveUp ends a request with an error, and has its place removed from the row if
// it may have one. It is called with mu held.
func (c *Client) giveUp(r *request, err error) {
	r.decide(err)
	r.state = leaving
	if r.term == nil || r.term.over { // no place, or one that ends with the session
		c.forget(r)
		return
	}
	c.touch(r.name)
}

// forget drops a request that is out of the row. It is called with mu held.
func (c *Client) forget(r *request) {
	r.name.requests = slices.DeleteFunc(r.name.requests, func(o *request) bool { return o == r })
	r.name.used = time.Now()
	if len(r.name.requests) == 0 {
		delete(c.active, r.name)
	}
	close(r.left)
	if c.closing {
		c.poke(c.sessions)
	}
}

// give answers a request that was granted the lock. It is called with mu held.
func (c *Client) give(r *request, p place) {
	r.place = p
	r.state = held
	r.open = true
	r.term.open++
	r.began = time.Now()
	if r.For > 0 {
		r.timer = time.AfterFunc(r.For, func() { c.limit(r) })
	}
	r.decide(nil)
}

// limit ends a lock whose limit has passed. Work that still runs gets the grace,
// then the lock is released anyway.
func (c *Client) limit(r *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.state != held {
		return
	}
	r.cancel(fmt.Errorf("%w (%v)", ErrLimit, r.For))
	r.timer = time.AfterFunc(c.timing.Grace, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.state == held {
			c.close(r)
			r.past = true
			r.state = leaving
			c.touch(r.name)
		}
	})
}

// lose ends a lock that is not ours any more. It is called with mu held.
func (c *Client) lose(r *request, cause error) {
	r.cancel(cause)
	r.state = leaving
	c.forget(r)
}

// close is called once for each lock that was granted, when its holder has
// stopped. It is called with mu held.
func (c *Client) close(r *request) {
	r.open = false
	r.term.open--
	if r.timer != nil {
		r.timer.Stop()
	}
	if r.term.over {
		c.poke(c.sessions)
	}
}
