package mysqlconn

import (
	"context"
	"fmt"
	"time"
)

const (
	// loginPatience is the longest that a login may outlive the call that began it. It bounds how long a
	// server that takes connections and says nothing holds up the change to another one.
	loginPatience = 10 * time.Second
	// loginKept is how long its connection then waits for a call.
	loginKept = 10 * time.Second
)

// login makes one connection. It has as long as the call that began it, or longer where logins need it:
// after one that the server did not answer in time, the next one has twice that time, and after one that
// worked, at least twice what that took. So a network in which each login takes longer than an
// attempt at a statement costs some attempts, and on a fast one the pool turns to another host within
// the attempt.
type login struct {
	pool   *Pool
	made   chan *Conn    // gives the connection to one receiver
	failed chan struct{} // closed when there is no connection, or none any more
	err    error         // set before failed is closed
	left   *session      // that the server may have; set before failed is closed
}

// beginLogin begins a login on behalf of a call with this context.
func (p *Pool) beginLogin(ctx context.Context, lockWait time.Duration) *login {
	limit := AnswerLimit
	if end, ok := ctx.Deadline(); ok {
		limit = max(time.Until(end), time.Duration(p.patience.Load()))
	}
	l := &login{pool: p, made: make(chan *Conn), failed: make(chan struct{}), err: ErrClosed}
	if !p.watch.work(func() { l.run(limit, lockWait) }) {
		close(l.failed)
	}
	return l
}

// await returns the connection, or nil once the login has failed, or an error when ctx ends before.
// A connection that comes too late in ctx for a statement is left to the next call.
func (l *login) await(ctx context.Context) (*Conn, error) {
	select {
	case c := <-l.made: // it was there before
		return c, nil
	default:
	}
	inTime, cancel := ctx, context.CancelFunc(func() {})
	if end, ok := ctx.Deadline(); ok {
		// A login is some ten round trips, and a statement at most two: patience is at least twice a login.
		inTime, cancel = context.WithDeadline(ctx, end.Add(-time.Duration(l.pool.patience.Load())/8))
	}
	defer cancel()
	select {
	case c := <-l.made:
		return c, nil
	case <-l.failed:
		return nil, nil
	case <-inTime.Done():
		<-ctx.Done()
		return nil, fmt.Errorf("connect: %w", ctx.Err())
	}
}

func (l *login) run(limit, lockWait time.Duration) {
	p := l.pool
	defer close(l.failed)
	ctx, cancel := context.WithTimeout(p.stopped, limit)
	defer cancel()
	began := time.Now()
	c, left, err := p.open(ctx, lockWait)
	if err != nil {
		if left != nil && ctx.Err() != nil && !p.Stopped() {
			p.patience.Store(int64(min(2*limit, loginPatience)))
		}
		l.left, l.err = left, err
		return
	}
	p.patience.Store(int64(min(2*time.Since(began), loginPatience)))
	select {
	case l.made <- c:
		return
	case <-p.stopped.Done():
	case <-time.After(loginKept):
	}
	c.Discard()
	l.left, l.err = c.session, ErrClosed
}
