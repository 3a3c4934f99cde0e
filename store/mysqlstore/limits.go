package mysqlstore

import (
	"fmt"
	"strconv"

	"github.com/cronlease/cronlease/lease"
)

// kept is how many connections a store with one bell keeps at most, without
// locks: what is pinned, and all of the ledger's.
const kept = pinned - 1 + ledgers

// maxConnections is how many connections the session's account may have at a
// time, and which setting says so; 0: any number.
func (s server) maxConnections() (most int, setting string) {
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
func (s *Store) fit(now server) error {
	most, setting := now.maxConnections()
	size := s.pool.Stats().MaxOpenConnections
	if most == 0 || s.owned && size > 0 && most >= kept+size {
		return nil
	}
	if most < pinned+1 {
		return fmt.Errorf("%w: the account may have %d connections (%s), and each process needs at least %d, a leader %d and those of its jobs: raise %s (docs/database.md has the numbers)",
			lease.ErrNotReady, most, setting, pinned+1, kept, setting)
	}
	if s.owned {
		s.pins.SetMaxOpenConns(most) // of which one is left for jobs: see ledgersInPool
		s.pool.SetMaxOpenConns(max(1, most-kept))
	}
	return nil
}
