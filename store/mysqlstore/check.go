package mysqlstore

import (
	"context"
	"sync"

	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
)

// Check implements [store.Checker]. It changes nothing and needs no privileges
// beyond those of the other methods. It refuses a server that is too old or
// takes no writes, or whose shared locks hold up no writer, session settings that cannot be made safe, tables that are
// missing, of another version, not of InnoDB or without the needed grants, and
// a pool that is too small. Each of these errors matches [lease.ErrSetup] and
// names the setting and its cure; a server that takes no writes or gives the
// account too few connections, a refused login, and tables, grants or a database
// that are missing match [lease.ErrNotReady] too. Where connections are few,
// Check lowers the limits of the store's own pools. If none of several hosts takes
// writes, the error matches neither, because that may be over soon. Calls at the same
// time, as of many groups that start, share one answer.
func (s *Store) Check(ctx context.Context) error { return s.checks.share(ctx, s.check) }

// checks is what goes on for the first of several calls of [Store.Check].
type checks struct {
	mu  sync.Mutex
	now *answer // nil: nothing goes on
}

// answer is there once done is closed.
type answer struct {
	done chan struct{}
	err  error
	mine bool // the context of the first call has ended, which is no answer for others
}

// share calls f, or waits for a call that goes on. Its answer is that of f with ctx alone
// when ctx ends first.
func (c *checks) share(ctx context.Context, f func(context.Context) error) error {
	for ctx.Err() == nil {
		c.mu.Lock()
		a := c.now
		if a == nil {
			a = &answer{done: make(chan struct{})}
			c.now = a
			c.mu.Unlock()
			a.err = f(ctx)
			a.mine = ctx.Err() != nil
			c.mu.Lock()
			c.now = nil
			c.mu.Unlock()
			close(a.done)
			return a.err
		}
		c.mu.Unlock()
		select {
		case <-a.done:
			if !a.mine {
				return a.err
			}
		case <-ctx.Done():
		}
	}
	return f(ctx)
}

func (s *Store) check(ctx context.Context) error {
	if err := s.conns.CheckSize(); err != nil {
		return err
	}
	err := s.conns.Do(ctx, mysqlconn.Readings, mysqlconn.Read, "check database", func(ctx context.Context, c *conn) error {
		if err := s.conns.CheckServer(ctx, c); err != nil {
			return err
		}
		if err := s.checkVersion(ctx, c); err != nil {
			return err
		}
		if err := s.checkGrants(ctx, c); err != nil {
			return err
		}
		// Last: without a grant on it, a table looks as if it were not there.
		gaps, err := s.gaps(ctx, c)
		switch {
		case err != nil:
			return err
		case len(gaps) > 0:
			return gapsError(gaps)
		}
		return s.proveLocks(ctx, c)
	})
	if err != nil {
		return err
	}
	// The connection for heartbeats is there from now on.
	return s.conns.Do(ctx, mysqlconn.Heartbeats, mysqlconn.Write, "check database", func(ctx context.Context, c *conn) error {
		return c.Exec(ctx, s.leases.sql.release.Render("", "", uint64(0)))
	})
}

// checkGrants runs statements on a group that cannot exist, whose name is
// empty: the server checks tables, columns, grants and read_only first.
func (s *Store) checkGrants(ctx context.Context, c *conn) error {
	if _, _, err := readRows(ctx, c, s.leases.sql.read.Render("", "")); err != nil {
		return err
	}
	const none = uint64(0)
	all := []string{
		s.leases.sql.insertDeleted.Render(none, "", ""),
		s.leases.sql.insertFence.Render("", ""),
		s.leases.sql.acquire.Render("", none, "", none, none, none, "", none, none, none),
	}
	for _, probe := range s.schema.sql.probes {
		all = append(all, probe.Render())
	}
	if err := c.ExecAll(ctx, all...); err != nil {
		return err
	}
	_, err := s.load(ctx, c, "") // by keys that have to be there
	return err
}
