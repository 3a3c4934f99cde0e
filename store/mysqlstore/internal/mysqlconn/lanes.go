package mysqlconn

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// A Lane is a kind of work that has connections of its own.
type Lane int

// The lanes. WaitingLocks is the last two connections of Locks, for what may
// wait for a row: so the others are there for what does not.
const (
	Heartbeats Lane = iota
	Readings
	Ledger
	Locks
	WaitingLocks

	lanes = 4 // that have connections
)

// The lock waits are short, so that a statement whose client gave up does not live
// on for long, and with the default timing shorter than an attempt may take (3 s): then the
// error says that it was a lock. A heartbeat that waits for a row lock is of little use after
// that. A takeover waits for fenced transactions to end.
const (
	heartbeatLockWait = 1 * time.Second
	// ReadingLockWait is that of readings and takeovers.
	ReadingLockWait = 2 * time.Second
	ledgerLockWait  = 2 * time.Second // a claim waits as long as a takeover
	// LockLockWait is how long a write of a lock's row waits for a fenced
	// transaction under that lock to end.
	LockLockWait = 1 * time.Second

	longestLockWait = max(heartbeatLockWait, ReadingLockWait, ledgerLockWait, LockLockWait)
)

// Ledger connections above four make nothing faster, and hold up heartbeats in the
// server.
const (
	readingConns = 2
	ledgerConns  = 4
	lockRowConns = 4
	waitingConns = 2 // of those
)

var laneSizes = [lanes]struct {
	conns    int
	lockWait time.Duration
}{
	Heartbeats: {2, heartbeatLockWait}, // of which one is used
	Readings:   {readingConns, ReadingLockWait},
	Ledger:     {ledgerConns, ledgerLockWait},
	Locks:      {lockRowConns, LockLockWait},
}

// slot is the place of one connection, which is opened when needed and used by one
// caller at a time.
type slot struct {
	Series
	turn  chan struct{} // of capacity 1; filling it gives access to the connection
	place int           // among those of the ledger; 0 in the other lanes

	conn   *Conn         // nil when there is none; guarded by turn
	number atomic.Uint64 // the connection's, readable without the turn; 0 when there is none
}

func newSlot(p *Pool, lockWait time.Duration) *slot {
	return &slot{Series: Series{pool: p, lockWait: lockWait}, turn: make(chan struct{}, 1)}
}

// give gives the turn on. A connection of the ledger that others need goes: see [Pool.ledgerConns].
func (l *slot) give() {
	if l.place > 0 && l.conn != nil && l.place >= l.pool.ledgerConns() {
		l.drop()
	}
	<-l.turn
}

// takeFirst takes the first of at most four slots that is free, else whichever is
// next.
func takeFirst(ctx context.Context, slots []*slot) (*slot, error) {
	var turns [ledgerConns]chan struct{} // nil beyond the slots
	for i, l := range slots {
		turns[i] = l.turn
		select {
		case l.turn <- struct{}{}:
			return l, nil
		default:
		}
	}
	select {
	case turns[0] <- struct{}{}:
		return slots[0], nil
	case turns[1] <- struct{}{}:
		return slots[1], nil
	case turns[2] <- struct{}{}:
		return slots[2], nil
	case turns[3] <- struct{}{}:
		return slots[3], nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// split tells the slots that have a connection, or can open one, from those whose last statement
// does not end; for work that writes, also from those of which that is not known yet.
func split(slots []*slot, access Access) (able, stuck []*slot) {
	isStuck := func(l *slot) bool { return l.isLeft() && (access != Read || l.isStuck()) }
	if !slices.ContainsFunc(slots, isStuck) {
		return slots, nil
	}
	for _, l := range slots {
		if isStuck(l) {
			stuck = append(stuck, l)
		} else {
			able = append(able, l)
		}
	}
	return able, stuck
}

// takeAble takes a slot that is not stuck, if there is one. The last such slot is kept for
// what reads: where writes do not end, the next write waits for one that began before.
func takeAble(ctx context.Context, slots []*slot, access Access) (*slot, error) {
	if able, stuck := split(slots, Read); access != Read && len(stuck) > 0 && len(able) <= 1 {
		return takeFirst(ctx, stuck)
	}
	able, stuck := split(slots, access)
	if len(stuck) > 0 && (len(able) == 0 || len(able) == 1 && access != Read) {
		return takeFirst(ctx, stuck)
	}
	return takeFirst(ctx, able)
}

// take takes a slot of the lane. Work that writes may have fewer to choose from.
func (p *Pool) take(ctx context.Context, lane Lane, access Access) (*slot, error) {
	switch lane {
	case Heartbeats:
		// One statement that does not end must not stop all heartbeats.
		if able, _ := split(p.slots[Heartbeats], Read); len(able) > 0 {
			return takeFirst(ctx, able[:1])
		}
	case Ledger:
		most := p.ledgerConns()
		if server := p.server.Load(); server != nil && server.ManyWriters() && most > 1 {
			// What writes the fence row has one connection, since from different nodes it
			// would fail. So nothing else may hold that one up.
			if access != Write {
				return takeAble(ctx, p.slots[Ledger][1:most], access)
			}
			most = 1
		}
		return takeAble(ctx, p.slots[Ledger][:most], access)
	case Locks, WaitingLocks:
		if !p.locksUsed.Swap(true) {
			p.crowd()
		}
		if err := p.checkLocks(); err != nil {
			return nil, err
		}
		if lane == WaitingLocks {
			return takeAble(ctx, p.slots[Locks][lockRowConns-waitingConns:], access)
		}
	}
	return takeAble(ctx, p.slots[lane], access)
}

// usable reports whether there is a connection that was not closed by the server
// and, where there is another host to go to, takes writes. It drops one that is
// not. It is called with the turn.
func (l *slot) usable(ctx context.Context) bool {
	if l.conn != nil && !l.pool.Usable(ctx, l.conn) {
		l.drop()
	}
	return l.conn != nil
}

// Usable reports whether a connection was not closed by the server, was set up on one that
// was ready and, where there is another host to go to or the server is a single primary, is writable.
func (p *Pool) Usable(ctx context.Context, c *Conn) bool {
	return !c.session.unready && c.Alive(ctx) && (!p.several && !c.Server.isSinglePrimary() || c.writable(ctx))
}

// open returns the connection, a new one if need be. It is called with the turn.
func (l *slot) open(ctx context.Context) (c *Conn, fresh bool, err error) {
	if l.pool.Stopped() { // shut has been here, or waits for its turn
		return nil, false, ErrClosed
	}
	if l.usable(ctx) {
		return l.conn, false, nil
	}
	c, err = l.Open(ctx)
	if err != nil {
		return nil, false, err
	}
	l.conn = c
	l.number.Store(c.Number)
	l.pool.server.Store(&c.Server)
	return c, true, nil
}

// drop discards the connection. It is called with the turn.
func (l *slot) drop() {
	if l.conn != nil {
		l.number.Store(0)
		l.Drop(l.conn)
		l.conn = nil
	}
}

// shut drops the connection once it is free, which the pool's stop hastens.
func (l *slot) shut() {
	l.turn <- struct{}{}
	l.drop()
	l.give()
}
