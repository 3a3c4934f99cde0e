package mysqlconn

import (
	"fmt"
	"strconv"

	"github.com/cronlease/cronlease/lease"
)

const (
	// leastKept is how many connections of a pool a store with one waiter keeps, at
	// the least that the ledger can do with.
	leastKept = 1 + readingConns + 1 + 1
	// mostKept is how many connections a store with one waiter keeps at most, without
	// locks: the least, all of the ledger's, and the one that waits for requests.
	mostKept = leastKept - 1 + ledgerConns + 1
	// lockConns is how many more it keeps for locks: those for their rows, and one for
	// their waiter.
	lockConns = lockRowConns + 1
)

// CheckSize reports that the caller's pool is too small for what is kept of it.
func (p *Pool) CheckSize() error {
	if most := p.source.Stats().MaxOpenConnections; most > 0 && most < leastKept+1 {
		return fmt.Errorf("mysqlstore: %w: the pool has SetMaxOpenConns(%d), and the store keeps %d connections: set at least %d, or 0 for no limit",
			lease.ErrSetup, most, leastKept, leastKept+1)
	}
	return nil
}

// needs is how many connections the caller's pool needs, if so many wait for hand-over signals and for requests: beside
// these, those of the lanes, of which the ledger has one at the least, and the caller's last.
func (p *Pool) needs(signals, requests int) int {
	n := leastKept - 1 + max(1, signals) + requests + 1
	if p.locksUsed.Load() {
		n += lockConns
	}
	return n
}

// lacks reports that the caller's pool does not have as many.
func (p *Pool) lacks(needs int) bool {
	most := p.source.Stats().MaxOpenConnections
	return most > 0 && most < needs
}

// checkLocks reports that the caller's pool is too small for locks as well.
func (p *Pool) checkLocks() error {
	if needs := p.needs(int(p.reserved.Load()), 0); p.lacks(needs) {
		return fmt.Errorf("%w: the pool has SetMaxOpenConns(%d), and locks need %d connections beside the rest: set at least %d, or 0 for no limit",
			lease.ErrSetup, p.source.Stats().MaxOpenConnections, lockConns, needs)
	}
	return nil
}

// Reserve says how many hand-over signals there are, each of which keeps a connection of
// [Pool.Open]: the ledger leaves them theirs.
func (p *Pool) Reserve(signals int) {
	if int(p.reserved.Swap(int32(signals))) < signals { //nolint:gosec // there are two at most
		p.crowd()
	}
}

// CheckReserved keeps hand-over signals from taking the connections that the lanes need from
// the caller's pool, and the caller's last.
func (p *Pool) CheckReserved() error {
	signals := int(p.reserved.Load())
	if needs := p.needs(signals, 0); p.lacks(needs) {
		return fmt.Errorf("the pool has SetMaxOpenConns(%d): %d hand-over signals need at least %d", p.source.Stats().MaxOpenConnections, signals, needs)
	}
	return nil
}

// ReserveRequests reserves a connection of [Pool.Open] that waits for requests, until
// FreeRequests. It fails when the caller's pool has none beside the others' and the
// caller's last: what cannot be woken finds out by its next heartbeat.
func (p *Pool) ReserveRequests() error {
	if needs := p.needs(int(p.reserved.Load()), int(p.requests.Add(1))); p.lacks(needs) {
		p.requests.Add(-1)
		return fmt.Errorf("the pool has SetMaxOpenConns(%d): to wait for requests too, it needs at least %d", p.source.Stats().MaxOpenConnections, needs)
	}
	p.trim()
	return nil
}

// FreeRequests takes back what ReserveRequests reserved.
func (p *Pool) FreeRequests() { p.requests.Add(-1) }

// OnCrowd has f called when others need the connection in the caller's pool that waits for requests.
func (p *Pool) OnCrowd(f func()) { p.onCrowd.Store(&f) }

// crowd is called when others need more connections of the caller's pool than before.
func (p *Pool) crowd() {
	p.trim()
	requests := int(p.requests.Load())
	if f := p.onCrowd.Load(); f != nil && requests > 0 && p.lacks(p.needs(int(p.reserved.Load()), requests)) {
		(*f)()
	}
}

// trim closes connections of the ledger that others need. Those that are in use follow: see [slot.give].
func (p *Pool) trim() {
	for _, l := range p.slots[Ledger][p.ledgerConns():] {
		select {
		case l.turn <- struct{}{}:
			l.give()
		default:
		}
	}
}

// ledgerConns is how many connections the ledger may keep, so that the other lanes
// and the caller have theirs.
func (p *Pool) ledgerConns() int {
	most := p.source.Stats().MaxOpenConnections
	if most == 0 {
		return ledgerConns
	}
	return min(1+max(0, most-p.needs(int(p.reserved.Load()), int(p.requests.Load()))), ledgerConns)
}

// maxConnections is how many connections the connection's account may have at a
// time, and which setting says so; 0: any number.
func (s *Server) maxConnections() (most int, setting string) {
	for _, name := range []string{"max_user_connections", "max_connections"} {
		// The session's max_user_connections is the account's own limit, if it has
		// one. It is not a number above zero where there is none.
		n, err := strconv.Atoi(s.variables[name])
		if err == nil && n > 0 && (most == 0 || n < most) {
			most, setting = n, name
		}
	}
	return most, setting
}

// fit refuses a server that gives the account fewer connections than one
// process needs. Where they are few, it lowers the limits of the store's own
// pools, so that jobs do not take the connections of heartbeats, and wait for
// one instead of failing.
func (p *Pool) fit(now *Server) error {
	most, setting := now.maxConnections()
	size := p.db.Stats().MaxOpenConnections
	if most == 0 || p.owned && size > 0 && most >= mostKept+size {
		return nil
	}
	if most < leastKept+1 {
		return fmt.Errorf("%w: the account may have %d connections (%s), and each process needs at least %d, a leader %d and those of its jobs: raise %s (docs/database.md has the numbers)",
			lease.ErrNotReady, most, setting, leastKept+1, mostKept, setting)
	}
	if p.owned {
		p.source.SetMaxOpenConns(most) // of which one is left for jobs: see ledgerConns
		p.db.SetMaxOpenConns(max(1, most-mostKept))
	}
	return nil
}
