package mysqlconn

import (
	"context"
	"fmt"
	"time"
)

const (
	// loginKept is how long a connection waits for a call whose login has outlived the one that began it.
	loginKept = 10 * time.Second
	// leastSilence is what any login may wait for an answer: a call may have had no time left when it began.
	leastSilence = 500 * time.Millisecond
)

// login makes one connection. It goes on for as long as the server keeps answering, and ends when it is silent for
// as long as the call had that began it. So where each login takes longer than an attempt at a statement, it costs some
// attempts, and a server that stands still is left within one.
type login struct {
	pool   *Pool
	made   chan *Conn    // gives the connection to one receiver
	failed chan struct{} // closed when there is no connection, or none any more
	err    error         // set before failed is closed
	left   *session      // that the server may have; set before failed is closed
}

// beginLogin begins a login on behalf of a call with this context.
func (p *Pool) beginLogin(ctx context.Context, lockWait time.Duration) *login {
	silence := AnswerLimit
	if end, ok := ctx.Deadline(); ok {
		silence = max(time.Until(end), leastSilence)
	}
	l := &login{pool: p, made: make(chan *Conn), failed: make(chan struct{}), err: ErrClosed}
	if !p.watch.work(func() { l.run(silence, lockWait) }) {
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
		// A login is some ten round trips, and a statement at most two.
		inTime, cancel = context.WithDeadline(ctx, end.Add(-time.Duration(l.pool.login.Load())/5))
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

func (l *login) run(silence, lockWait time.Duration) {
	p := l.pool
	defer close(l.failed)
	limited, cancel := context.WithTimeout(p.stopped, AnswerLimit)
	defer cancel()
	ctx, end := listen(limited, silence)
	defer end()
	began := time.Now()
	c, left, err := p.open(ctx, lockWait)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("connect: %w", context.Cause(ctx))
		}
		l.left, l.err = left, err
		return
	}
	p.login.Store(int64(time.Since(began)))
	select {
	case l.made <- c:
		return
	case <-p.stopped.Done():
	case <-time.After(loginKept):
	}
	c.Discard()
	l.left, l.err = c.session, ErrClosed
}
