package mysqlstore

import (
	"context"
	"database/sql"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
)

// For the tests of package mysqlstore_test.
var (
	Fill       = fill
	LockName   = lockName
	Statements = statements
	ParseDSN   = parseDSN
	Newest     = len(migrations)
)

// AlwaysWrite has checks of fenced transactions write the fence row, as on a
// cluster with several writers.
func (s *Store) AlwaysWrite() { s.alwaysWrite = true }

// ManyWriters is what a store concludes from a server's variables.
func ManyWriters(variables map[string]string) bool { return server{variables: variables}.manyWriters() }

// IsRolledBack reports that a transaction was in the way of others.
func IsRolledBack(err error) bool { return isRolledBack(err) }

// LedgerTimeout is the wait_timeout of the ledger's first connection, in seconds.
func (s *Store) LedgerTimeout(ctx context.Context) (int, error) {
	n := 0
	err := s.onLedger(ctx, "read wait_timeout", true, func(ctx context.Context, one *session) (err error) {
		n, err = one.count(ctx, "SELECT @@wait_timeout")
		return err
	})
	return n, err
}

// Settle returns how the connects of a store with several hosts agree on one.
func Settle(addrs ...string) (next func(tried []bool) int, settle func(host int, tried []bool) bool) {
	h := newHosts(addrs)
	return h.next, h.settle
}

// RenewStatement is the statement that Renew sends.
func (s *Store) RenewStatement(r lease.Renew) string { return s.renewStatement(r) }

// SessionStatements make a connection what the store's own are.
func SessionStatements() []string { return sessionStatements(settings{lockWait: beatLockWait}) }

// Started is the second in which the connection's server was started.
func Started(ctx context.Context, conn *sql.Conn) (uint64, error) {
	var version string
	if err := conn.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return 0, err
	}
	_, started, _, err := readStart(ctx, conn, server{variables: map[string]string{"version": version}}.isMariaDB())
	return started, err
}

// LedgerStatements are the ledger's statements that run often, or over much.
func (s *Store) LedgerStatements(h jobs.Holder, claims []jobs.Claim, moves []jobs.Move) map[string]string {
	var keys, ticks table
	for _, c := range claims {
		keys = append(keys, row{c.Job, c.Tick.UnixMicro(), c.Trigger})
		ticks = append(ticks, row{c.Tick.UnixMicro(), c.Trigger})
	}
	k := claims[0].Key
	return map[string]string{
		"claim":         s.claimStatement(h, jobs.ClaimID{1}, claims),
		"move":          s.moveStatement(h, moves, nil),
		"read runs":     fill(s.runs.readRuns, keys, h.Group, h.Group),
		"changes":       fill(s.runs.changes, h.Group, h.Group),
		"summary":       fill(s.runs.summary, h.Group, h.Group, h.Group),
		"jobs":          fill(s.runs.jobs, h.Group),
		"open runs":     fill(s.runs.openRuns, h.Group),
		"runs":          s.runsQuery(h.Group, jobs.Filter{}),
		"runs of job":   s.runsQuery(h.Group, jobs.Filter{Job: k.Job}),
		"runs of state": s.runsQuery(h.Group, jobs.Filter{State: jobs.Failed}),
		"pause":         fill(s.runs.pauseJob, true, h.Group, k.Job),
		"trigger":       fill(s.runs.trigger, 1, h.Group, k.Job),
		"cancel":        fill(s.runs.cancel, h.Group, k.Job, k.Tick.UnixMicro(), 0),
		"bounds":        fill(s.runs.bounds, h.Group, k.Job),
		"kept from":     fill(s.runs.keptFrom, h.Group, k.Job, 10),
		"prunable":      fill(s.runs.prunable, h.Group, k.Job, k.Tick.UnixMicro(), 0, 0, 0, 0, 1, 1, 500),
		"prune":         fill(s.runs.prune, ticks, h.Group, k.Job),
	}
}

// Sizes of a statement.
const (
	ClaimChunk = claimChunk
	MoveChunk  = moveChunk
)
