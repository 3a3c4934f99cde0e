package mysqlstore

import (
	"context"
	"fmt"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
)

// proveLocks makes sure, once for each start of a server, that a shared lock makes
// a writer on another connection wait. Claims and fenced transactions rely on
// that, and servers that only speak MySQL's protocol may ignore it: TiDB and
// Vitess, among others. The row is one of the table of locks that is always there;
// nothing is written. On a cluster with several writers no shared lock is relied on.
func (s *schema) proveLocks(ctx context.Context, c *conn) error {
	if c.Server.ManyWriters() || s.isProven(c.Server.Identity) {
		return nil
	}
	if err := c.Exec(ctx, begin); err != nil {
		return err
	}
	tried, waits, err := s.tryProof(ctx, c)
	// An error here ends the session, and with it the transaction.
	if undone := c.Exec(ctx, rollback); undone != nil {
		return undone
	}
	switch {
	case err != nil || !tried:
		return err
	case !waits:
		return fmt.Errorf("%w: the server (%s) lets a writer pass a shared lock (LOCK IN SHARE MODE): claims and fenced transactions would not be safe there: use MySQL or MariaDB itself, without a proxy that changes statements",
			lease.ErrSetup, c.Server.Version())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proven = c.Server.Identity
	return nil
}

func (s *schema) isProven(identity string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proven == identity
}

// tryProof takes the shared lock and asks on another connection for the one of a
// writer. It has not tried when that connection is of another server: during a
// failover, say.
func (s *schema) tryProof(ctx context.Context, c *conn) (tried, waits bool, err error) {
	if _, err := c.Count(ctx, s.sql.shareRow.Render()); err != nil {
		return false, false, err
	}
	err = s.conns.Do(ctx, mysqlconn.Heartbeats, mysqlconn.Write, "check locks", func(ctx context.Context, other *conn) error {
		if other.Server.Identity != c.Server.Identity {
			return nil
		}
		tried = true
		_, err := other.Count(ctx, s.sql.writeRow.Render())
		switch mysqlerr.Number(err) {
		case mysqlerr.LockWaitTimeout, mysqlerr.LockNotAvailable:
			waits = true
			return nil
		}
		return err
	})
	return tried, waits, err
}
