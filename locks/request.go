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
	wanted  state = iota // to be in the line, and then to hold the lock
	held                 // it has the lock
	leaving              // to be out of the line; nobody waits for it
)

// request is one call that wants a lock, from then on until its place is surely
// out of the lock's row. All fields that change are guarded by Client.mu.
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
	past   bool        // it was taken from its holder, who has not been told
	timer  *time.Timer // of the limit, nil when there is none
}

// name is one lock, as far as somebody here wants something of it or did so
// lately. All of it is guarded by Client.mu.
type name struct {
	text     string
	requests []*request // in the order in which they came
	dirty    bool       // in Client.dirty
	busy     bool       // in a round of the writer
	used     time.Time
	seen     time.Time // when its row was last read or written

	// What its row was when it was last seen. The cache is only ever a guess,
	// which the comparison in the next write checks.
	known   bool
	news    uint64 // counts what was learnt of it
	version uint64
	queue   queue
	// highest is the newest version seen since the row was last found to be
	// rewound, and floor the newest ever.
	highest, floor uint64
	// contended: others were seen to write the row, so it is read before it is
	// written, which costs less than a comparison that fails.
	contended bool
	// refused: a write was not carried out, and the row was not read since.
	refused bool
	// aside: its row is written alone, beside all others, because somebody keeps
	// it locked, or it cannot be written.
	aside bool
	// most is how many rows it may be written with, 0 for any number; failed is
	// when it was last written alone and that failed, and failure why its row
	// cannot be read or written, nil if it was.
	most    int
	failed  time.Time
	failure error
	// broken: its row could not be read. It is looked at again after that.
	broken time.Time
	// unsure: a write of ours was not answered and may still be carried out,
	// until another one succeeds.
	unsure bool
	// barred: nobody is given the lock before that. Its row was rewound, and
	// somebody may still trust what is gone.
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

// touch makes the writer look at the lock. It is called with mu held.
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

// decide ends the waiting of a request. It is called with mu held.
func (r *request) decide(err error) {
	select {
	case <-r.decided:
	default:
		r.err = err
		close(r.decided)
	}
}

// giveUp ends a request with an error; its place is taken out of the row when
// it may have one. It is called with mu held.
func (c *Client) giveUp(r *request, err error) {
	r.decide(err)
	r.state = leaving
	if r.term == nil || r.term.over { // it has none, or one that ends with the session
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

// give tells a request that it has the lock. It is called with mu held.
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

// limit ends a lock that was held for as long as was asked for. What still runs
// gets the grace, then the lock is given back all the same.
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

// close is called once for each lock that was given, when its holder has
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
