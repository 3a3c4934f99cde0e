package postgresstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// silence is how long a session hears nothing until it asks whether the server is still there. Load balancers bear that.
const silence = 30 * time.Second

// errPooled is of a pooler, whose sessions are several clients': what one of them listens to and shows is not its own.
var errPooled = fmt.Errorf("%w behind a pooler: give the store a direct connection for signals (WithSignals)", errors.ErrUnsupported)

var errSessionLost = errors.New("the connection for signals was lost")

// session is the one connection on which a store hears what others notify of, and shows what it announces. All signals of
// the store share it. What it shows ends with it.
type session struct {
	ready chan struct{} // closed once it listens
	over  chan struct{} // closed when it has ended, because of err
	err   error
	calls chan call

	mu      sync.Mutex
	hearers map[string]map[*hearer]struct{} // by topic
	stir    context.CancelFunc              // ends the wait for a notification
}

// call is something to do on the connection.
type call struct {
	do   func(context.Context, *pgx.Conn) error
	done chan error // of capacity 1
}

// hearer is woken by each notification of a topic.
type hearer struct {
	*session
	topic string
	woken chan struct{} // of capacity 1
}

// session returns the session, once it listens. It begins one where there is none.
func (s *Store) session(ctx context.Context) (*session, error) {
	s.mu.Lock()
	if s.closing.Err() != nil {
		s.mu.Unlock()
		return nil, errClosed
	}
	is := s.hears
	if is == nil || is.isOver() {
		is = &session{ready: make(chan struct{}), over: make(chan struct{}), calls: make(chan call, 16), hearers: map[string]map[*hearer]struct{}{}}
		s.hears = is
		s.sessions.Go(func() {
			is.err = s.listen(is)
			close(is.over)
		})
	}
	s.mu.Unlock()
	select {
	case <-is.ready:
		return is, nil
	case <-is.over:
		return nil, is.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (is *session) isOver() bool {
	select {
	case <-is.over:
		return true
	default:
		return false
	}
}

// listen is the life of a session.
func (s *Store) listen(is *session) error {
	c, err := s.signals.Conn(s.closing)
	if err != nil {
		return err
	}
	defer c.Close()
	var ended error
	_ = c.Raw(func(dc any) error {
		pool, ok := dc.(*stdlib.Conn)
		if !ok {
			ended = notPgx(dc)
			return nil
		}
		ended = s.hear(is, pool.Conn())
		return driver.ErrBadConn // of no use to others any more
	})
	return ended
}

func (s *Store) hear(is *session, c *pgx.Conn) error {
	var channel string
	var pid uint32
	if err := c.QueryRow(s.closing, s.sql.channel).Scan(&channel, &pid); err != nil {
		return err
	}
	if pid != c.PgConn().PID() {
		return errPooled
	}
	if _, err := c.Exec(s.closing, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	close(is.ready)
	for {
		n, err := is.await(s.closing, c)
		switch {
		case s.closing.Err() != nil:
			return errClosed
		case n != nil:
			is.wake(n.Payload)
		case err != nil && !pgconn.Timeout(err) && !errors.Is(err, context.Canceled):
			return fmt.Errorf("%w: %w", errSessionLost, err)
		}
		if err := is.carryOut(s.closing, c, n == nil && pgconn.Timeout(err)); err != nil {
			return fmt.Errorf("%w: %w", errSessionLost, err)
		}
	}
}

// await waits for a notification, or a call, or for long enough to look whether the server is there.
func (is *session) await(ctx context.Context, c *pgx.Conn) (*pgconn.Notification, error) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	is.mu.Lock()
	is.stir = cancel
	if len(is.calls) > 0 {
		cancel()
	}
	is.mu.Unlock()
	return c.WaitForNotification(ctx)
}

// carryOut carries out calls, and asks the server for an answer if there is none and the connection was silent.
func (is *session) carryOut(ctx context.Context, c *pgx.Conn, silent bool) error {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	for {
		select {
		case one := <-is.calls:
			one.done <- one.do(ctx, c)
			silent = false
		default:
			if silent {
				return c.Ping(ctx)
			}
			return nil
		}
		if c.IsClosed() {
			return errors.New("a statement ended it")
		}
	}
}

// do carries something out on the connection.
func (is *session) do(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	one := call{f, make(chan error, 1)}
	select {
	case is.calls <- one:
	case <-is.over:
		return is.err
	case <-ctx.Done():
		return ctx.Err()
	}
	is.mu.Lock()
	if is.stir != nil {
		is.stir()
	}
	is.mu.Unlock()
	select {
	case err := <-one.done:
		return err
	case <-is.over:
		return is.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (is *session) wake(topic string) {
	is.mu.Lock()
	defer is.mu.Unlock()
	for h := range is.hearers[topic] {
		select {
		case h.woken <- struct{}{}:
		default:
		}
	}
}

// hearing begins to hear of a topic.
func (s *Store) hearing(ctx context.Context, topic string) (*hearer, error) {
	is, err := s.session(ctx)
	if err != nil {
		return nil, err
	}
	h := &hearer{is, topic, make(chan struct{}, 1)}
	is.mu.Lock()
	defer is.mu.Unlock()
	if is.hearers[topic] == nil {
		is.hearers[topic] = map[*hearer]struct{}{}
	}
	is.hearers[topic][h] = struct{}{}
	return h, nil
}

func (h *hearer) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.hearers[h.topic], h)
	if len(h.hearers[h.topic]) == 0 {
		delete(h.hearers, h.topic)
	}
}
