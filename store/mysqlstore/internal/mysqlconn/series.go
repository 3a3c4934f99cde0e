package mysqlconn

import (
	"context"
	"sync/atomic"
	"time"
)

// Series is of connections that follow one another: none is opened while the server may still
// have the session of the one before. So a server that does not answer, or that the network
// has cut off, never has more sessions of a process than there are series, and one. Its methods are not
// called concurrently.
type Series struct {
	pool     *Pool
	lockWait time.Duration
	last     atomic.Pointer[session] // what the server may still have; nil: nothing
}

// NewSeries returns one of connections outside of the lanes.
func (p *Pool) NewSeries(lockWait time.Duration) *Series {
	return &Series{pool: p, lockWait: lockWait}
}

// Open returns a new connection. It waits until the server is rid of the session before.
func (s *Series) Open(ctx context.Context) (c *Conn, err error) {
	if s.pool.Stopped() {
		return nil, ErrClosed
	}
	if last := s.last.Load(); last != nil {
		if c, err = s.pool.watch.await(ctx, last); err != nil {
			return nil, err
		}
		s.last.Store(nil)
	}
	if c != nil {
		if err = c.Exec(ctx, setLockWait.Render(seconds(s.lockWait), seconds(s.lockWait))); err != nil {
			s.Drop(c)
			return nil, err
		}
		return c, nil
	}
	c, left, err := s.pool.open(ctx, s.lockWait)
	if left != nil {
		s.leave(left)
	}
	return c, err
}

// Drop closes a connection of the series.
func (s *Series) Drop(c *Conn) {
	c.Discard()
	s.leave(c.session)
}

func (s *Series) leave(left *session) {
	s.last.Store(left)
	s.pool.watch.add(left)
}

// isLeft reports whether the server may still have the session of the last connection.
func (s *Series) isLeft() bool {
	last := s.last.Load()
	return last != nil && !last.isGone()
}

// isStuck reports whether the server was seen to be busy with the last connection's statement,
// for which the next connection waits.
func (s *Series) isStuck() bool {
	last := s.last.Load()
	return last != nil && last.runs.Load() && !last.isGone()
}
