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

// checkLocks reports that the caller's pool is too small for locks as well.
func (p *Pool) checkLocks() error {
	const least = leastKept + lockConns + 1
	if most := p.source.Stats().MaxOpenConnections; most > 0 && most < least {
		return fmt.Errorf("%w: the pool has SetMaxOpenConns(%d), and locks need %d connections beside the rest: set at least %d, or 0 for no limit",
			lease.ErrSetup, most, lockConns, least)
	}
	return nil
}

// Reserve says how many hand-over signals there are, each of which keeps a connection of
// [Pool.Open]: the ledger leaves them theirs.
func (p *Pool) Reserve(signals int) { p.reserved.Store(int32(signals)) }

// CheckReserved keeps hand-over signals from taking the connections that the lanes need from
// the caller's pool, and the caller's last.
func (p *Pool) CheckReserved() error {
	most, signals := p.source.Stats().MaxOpenConnections, int(p.reserved.Load())
	if others := leastKept - 1; most > 0 && signals+others >= most {
		return fmt.Errorf("the pool has SetMaxOpenConns(%d): %d hand-over signals need at least %d", most, signals, signals+others+1)
	}
	return nil
}

// ReserveRequests reserves a connection of [Pool.Open] that waits for requests, until
// FreeRequests. It fails when the caller's pool has none beside the others' and the
// caller's last: what cannot be woken finds out by its next heartbeat.
func (p *Pool) ReserveRequests() error {
	signals := int(p.requests.Add(1)) + max(1, int(p.reserved.Load()))
	if most := p.source.Stats().MaxOpenConnections; most > 0 && signals+leastKept-1 >= most {
		p.requests.Add(-1)
		return fmt.Errorf("the pool has SetMaxOpenConns(%d): to wait for requests too, it needs at least %d", most, signals+leastKept)
	}
	return nil
}

// FreeRequests takes back what ReserveRequests reserved.
func (p *Pool) FreeRequests() { p.requests.Add(-1) }

// ledgerConns is how many connections the ledger may keep, so that the other lanes
// and the caller have theirs.
func (p *Pool) ledgerConns() int {
	most := p.source.Stats().MaxOpenConnections
	if most == 0 {
		return ledgerConns
	}
	others := 1 + readingConns + max(1, int(p.reserved.Load())) + int(p.requests.Load())
	if p.locksUsed.Load() {
		others += lockConns
	}
	return min(max(1, most-others-1), ledgerConns)
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
