package mysqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

const (
	// requestWait is how long one statement waits for a request. Nothing else is sent
	// meanwhile.
	requestWait = 10 * time.Minute
	// wakeLimit bounds how long a request takes to wake the holder.
	wakeLimit = 2 * time.Second
)

var (
	connectionID = sqltext.Parse(`SELECT CONNECTION_ID()`)
	// restAs takes a lock and rests, if its session is the one that was asked before,
	// and answers 2 if it is not, 4 if the lock is another's, and else as [notifier]'s.
	restAs        = sqltext.Parse(`SELECT IF(CONNECTION_ID() = ?, IF(GET_LOCK(?, ?), ?, 4), 2)`)
	restsAs       = sqltext.Parse(`SELECT IS_USED_LOCK(?) <=> ?`)
	killHolder    = sqltext.Parse(`KILL IS_USED_LOCK(?)`)
	noSlowQueries = sqltext.Parse(`SET long_query_time = 31536000`)
)

var errNotOwn = errors.New("the session of the connection is not its own, as behind a proxy that shares sessions")

// requestQueries are the statements of requests.
type requestQueries struct {
	beat, token, news sqltext.Query
}

func newRequestQueries(t tables) *requestQueries {
	sql := func(statement string) sqltext.Query { return t.query(statement) }
	return &requestQueries{
		// As renew, of one lease. The look is read without locks, as is all that a
		// statement like this reads of other tables in READ COMMITTED (not so an
		// update of two tables). The answer has room for one number: the clock, and
		// in its lowest bit whether the number of changes is another one.
		beat: sql(`
UPDATE {lease} FORCE INDEX (PRIMARY) SET heartbeat = ?,
	renewed_at = IF(LAST_INSERT_ID(2 * ` + micros + ` + ((` + changesOf + `) <> ?)), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))
WHERE name = ? AND owner = ? AND released = 0 AND token = ? AND heartbeat = ? AND resign_asked = ?`),
		token: sql(`SELECT token FROM {lease} WHERE name = ? AND released = 0`),

		news: sql(`
SELECT ? AND (` + changesOf + `) <> ? OR EXISTS(SELECT * FROM {lease} WHERE name = ? AND token = ? AND resign_asked = 1)`),
	}
}

// requests are what is asked of the holders of leases.
type requests struct {
	rows   *lockRows // whose restLock it uses
	sql    *requestQueries
	prefix string // of the tables

	mu      sync.Mutex
	signals map[*requestSignal]struct{}
}

// Beat implements [store.Heartbeats].
func (r *requests) Beat(ctx context.Context, owner string, heartbeat uint64, l store.Renewal, known uint64) (store.Beat, error) {
	if owner == "" {
		return store.Beat{}, ctx.Err()
	}
	statement := r.sql.beat.Render(heartbeat, l.Group, l.Group, known, l.Group, owner, l.Token, l.Heartbeat, l.ResignAsked)
	var beat store.Beat
	err := r.rows.conns.Do(ctx, mysqlconn.Heartbeats, mysqlconn.Write, "renew lease", func(ctx context.Context, c *conn) error {
		done, err := c.Change(ctx, statement)
		if err == nil && done.Rows > 0 {
			beat = store.Beat{Renewed: true, Asked: done.LastID&1 > 0, Now: time.UnixMicro(done.LastID >> 1).UTC(), Server: c.Server.Identity}
		}
		return err
	})
	if err != nil {
		return store.Beat{}, err
	}
	return beat, nil
}

// wake wakes the holder of a lease, after a request was committed. It says nothing of
// its failure: the holder's next heartbeat finds the request.
func (r *requests) wake(ctx context.Context, lane mysqlconn.Lane, group string) {
	ctx, cancel := context.WithTimeout(ctx, wakeLimit)
	defer cancel()
	_ = r.rows.conns.Do(ctx, lane, mysqlconn.Read, "wake the leader", func(ctx context.Context, c *conn) error {
		var token uint64
		err := c.QueryRow(ctx, r.sql.token.Render(group)).Scan(&token)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return c.Exec(ctx, killQuery.Render(r.lockOf(c, group, token)))
	})
}

// lockOf is the name of the lock that the holder's session has. Terms have names of
// their own, so that a connection of an earlier term is in nobody's way.
func (r *requests) lockOf(c *conn, group string, token uint64) string {
	sum := sha256.Sum256([]byte(c.Server.Database + "\x00" + r.prefix + "\x00" + group))
	return fmt.Sprintf("%s%x:%d", notifierLock, sum[:10], token)
}

// requestSignal is a connection that rests until another client kills its statement, as
// a [notifier] is. It rests for long, and in statements that use no table, since an
// ALTER TABLE would wait for those, and all others for that. So it looks for requests on
// another connection, once it can be killed: while it rests it has the lock that is its
// address, which follows from its term. The look sees earlier requests, and a later one
// ends the rest.
type requestSignal struct {
	requests *requests
	group    string
	token    uint64

	// What follows is used by Wait, and guarded by mu where Close uses it.
	limit time.Duration // of one rest
	id    int           // of the session
	name  string        // of the lock
	rests bool          // as in notifier
	has   bool          // the session has the lock

	mu     sync.Mutex
	conn   *conn // nil when there is none
	closed bool
}

// RequestSignal implements [store.RequestSignals]. It takes a connection of its own with
// the first Wait. Requests of another account, or on another node of a cluster, do not
// wake it.
func (r *requests) RequestSignal(group string, token uint64) store.RequestSignal {
	s := &requestSignal{requests: r, group: group, token: token, limit: requestWait}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rows.conns.Stopped() {
		s.closed = true
	} else {
		r.signals[s] = struct{}{}
	}
	return s
}

// closeRequests is called when the connections have been stopped.
func (r *requests) closeRequests() error {
	r.mu.Lock()
	signals := maps.Clone(r.signals)
	r.mu.Unlock()
	var errs []error
	for s := range signals {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// Wait implements [store.RequestSignal].
func (s *requestSignal) Wait(ctx context.Context, known *uint64) error {
	limited, end := s.requests.rows.conns.Bind(ctx)
	defer end()
	err := s.wait(limited, known)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case s.requests.rows.conns.Stopped():
		err = mysqlconn.ErrClosed
	default:
		err = s.requests.rows.conns.Explain(err)
	}
	return fmt.Errorf("wait for requests: %w", err)
}

func (s *requestSignal) wait(ctx context.Context, known *uint64) error {
	patience := 0
	for {
		c, err := s.open(ctx)
		if err != nil {
			return err
		}
		if s.has {
			if err := c.Exec(ctx, releaseLock.Render(s.name)); err != nil {
				s.drop()
				return err
			}
		}
		s.has = true
		began := time.Now()
		over, looked := make(chan struct{}), make(chan bool, 1)
		go func() { looked <- s.look(ctx, known, over) }()
		answer, err := c.Count(ctx, restAs.Render(s.id, s.name, patience, s.requests.rows.rest(s.limit, s.rests)))
		close(over)
		asked := <-looked
		switch {
		case mysqlerr.Number(err) == mysqlerr.Interrupted, err == nil && answer == 1:
			return nil
		case err == nil && answer == 0 && time.Since(began) < s.limit:
			return nil // what MariaDB answers when a wait for a lock is killed
		case err != nil:
			s.drop()
			if took := time.Since(began); ctx.Err() == nil && took > time.Second && mysqlconn.IsConnectionError(err) {
				s.limit = min(s.limit, max(time.Second, took*3/4)) // connections that are silent are cut off, perhaps
			}
			return err
		case answer == 2 || answer == 4 && patience > 0:
			s.drop()
			return errNotOwn
		case answer == 3:
			if s.rests, err = s.requests.rows.giveRestLock(ctx, c); err != nil {
				s.drop()
				return err
			}
		case answer == 4: // an earlier connection of this term has it, which the server has not missed yet
			s.has = false
			patience = 2
			if err := c.Exec(ctx, killHolder.Render(s.name)); err != nil && !mysqlconn.IsServerError(err) {
				s.drop()
				return err
			}
		}
		if asked {
			return nil
		}
	}
}

// look looks for a request once the connection rests, and ends the rest if there is
// one. It gives up when the rest is over.
func (s *requestSignal) look(ctx context.Context, known *uint64, over <-chan struct{}) (asked bool) {
	ctx, cancel := context.WithTimeout(ctx, wakeLimit)
	defer cancel()
	number := uint64(0)
	if known != nil {
		number = *known
	}
	news := s.requests.sql.news.Render(known != nil, s.group, s.group, number, s.group, s.token)
	again := retry.Forever(time.Millisecond, 100*time.Millisecond)
	for {
		resting := false
		err := s.requests.rows.conns.Do(ctx, mysqlconn.Readings, mysqlconn.Read, "look for requests", func(ctx context.Context, c *conn) error {
			n, err := c.Count(ctx, restsAs.Render(s.name, s.id))
			if resting = n == 1; err != nil || !resting {
				return err
			}
			n, err = c.Count(ctx, news)
			if asked = n == 1; err != nil || !asked {
				return err
			}
			return c.Exec(ctx, killQuery.Render(s.name))
		})
		if err != nil || resting {
			return asked // what failed is left to the heartbeat
		}
		timer := time.NewTimer(again.NextBackOff())
		select {
		case <-timer.C:
		case <-over:
			timer.Stop()
			return false
		}
	}
}

// open returns the connection, a new one if need be.
func (s *requestSignal) open(ctx context.Context) (*conn, error) {
	s.mu.Lock()
	c, closed := s.conn, s.closed
	s.mu.Unlock()
	if closed {
		return nil, errors.New("closed")
	}
	if c != nil && c.Alive(ctx) {
		return c, nil
	}
	s.drop()
	ctx, cancel := context.WithTimeoutCause(ctx, mysqlconn.AnswerLimit, fmt.Errorf("no answer within %v", mysqlconn.AnswerLimit))
	defer cancel()
	if err := s.requests.rows.conns.ReserveRequests(); err != nil {
		return nil, err
	}
	c, err := s.requests.rows.conns.Open(ctx, mysqlconn.LockLockWait)
	if err == nil {
		if err = s.prepare(ctx, c); err != nil {
			c.Discard()
		}
	}
	if err != nil {
		s.requests.rows.conns.FreeRequests()
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Discard()
		s.requests.rows.conns.FreeRequests()
		return nil, errors.New("closed")
	}
	s.conn = c
	return c, nil
}

// prepare makes the connection ready to rest.
func (s *requestSignal) prepare(ctx context.Context, c *conn) (err error) {
	s.has, s.name = false, s.requests.lockOf(c, s.group, s.token)
	if err = c.Exec(ctx, noSlowQueries.Render()); err != nil {
		return err
	}
	if s.id, err = c.Count(ctx, connectionID.Render()); err != nil {
		return err
	}
	s.rests, err = s.requests.rows.takeRestLock(ctx, c)
	return err
}

// drop discards the connection.
func (s *requestSignal) drop() {
	s.mu.Lock()
	c := s.conn
	s.conn = nil
	s.mu.Unlock()
	if c != nil {
		c.Discard()
		s.requests.rows.conns.FreeRequests()
	}
}

// Close implements [store.RequestSignal].
func (s *requestSignal) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.drop()
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	delete(s.requests.signals, s)
	return nil
}
