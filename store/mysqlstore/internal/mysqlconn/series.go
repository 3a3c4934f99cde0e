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
	login    *login                  // that outlived the call that began it; nil: none
}

// NewSeries returns one of connections outside of the lanes.
func (p *Pool) NewSeries(lockWait time.Duration) *Series {
	return &Series{pool: p, lockWait: lockWait}
}

// Open returns a new connection. It waits until the server is rid of the session before. A login that the server
// keeps answering goes on when ctx ends, and a later call takes its connection: one that finds it, or that has time
// left to use it.
func (s *Series) Open(ctx context.Context) (*Conn, error) {
	for attempt := 0; ; attempt++ {
		if s.pool.Stopped() {
			return nil, ErrClosed
		}
		if last := s.last.Load(); last != nil {
			if err := s.pool.watch.await(ctx, last); err != nil {
				return nil, err
			}
			s.last.Store(nil)
		}
		own := s.login == nil
		if own {
			s.login = s.pool.beginLogin(ctx, s.lockWait)
		}
		c, err := s.login.await(ctx)
		switch {
		case c != nil && (own || c.Alive(ctx)):
			s.login = nil
			return c, nil
		case c != nil:
			s.login = nil
			s.Drop(c)
		case err != nil:
			return nil, err
		default:
			left, err := s.login.left, s.login.err
			s.login = nil
			if left != nil {
				s.leave(left)
			}
			// One that this call did not begin met what was before it. One that was lost while it was set up is
			// replaced once the server is rid of its session.
			wasLost := left != nil && IsConnectionError(err)
			if own && (!wasLost || attempt >= 3) || ctx.Err() != nil {
				return nil, err
			}
		}
	}
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
