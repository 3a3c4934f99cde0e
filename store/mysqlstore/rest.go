package mysqlstore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// rest is a connection that rests until another client kills its statement, as a [notifier] is,
// for all terms of a store. It rests for long, and in statements that use no table, since an
// ALTER TABLE would wait for those, and all others for that. So it looks for requests on
// another connection, once it can be killed: while it rests it has the locks that are the
// addresses of its terms. The look sees earlier requests, and a later one ends the rest. Then
// it looks again for who was asked.
type rest struct {
	requests *requests
	series   *mysqlconn.Series

	// What follows is used by the goroutine that rests, and once that has ended by close.
	conn  *conn         // nil when there is none
	limit time.Duration // of one rest
	id    int           // of the session
	names []string      // of the locks that the session has, perhaps
	rests bool          // as in notifier

	mu      sync.Mutex // guards what follows
	terms   map[*requestSignal]*resting
	asks    bool               // there is a goroutine that rests
	all     bool               // its statement is for all terms
	on      string             // the lock of its session; empty before the first
	end     context.CancelFunc // of its statement
	signals int                // that are not closed
	stopped bool
	work    sync.WaitGroup
}

// resting is a term that waits.
type resting struct {
	*requestSignal
	known *uint64
	name  string // of the term's lock
	woken chan error
}

func newRest(r *requests) *rest {
	rester := &rest{requests: r, series: r.rows.conns.NewSeries(mysqlconn.LockLockWait), limit: requestWait, terms: map[*requestSignal]*resting{}}
	r.rows.conns.OnCrowd(rester.yield)
	return rester
}

// yield gives the connection up, which others need in the caller's pool: requests are found by heartbeats then.
func (r *rest) yield() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end != nil {
		r.end()
	}
}

// join has the connection rest for the term too. What it returns gets nil when it is worth
// looking.
func (r *rest) join(s *requestSignal, known *uint64) <-chan error {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &resting{requestSignal: s, known: known, woken: make(chan error, 1)}
	if s.closed || r.stopped || r.requests.rows.conns.Stopped() {
		t.woken <- mysqlconn.ErrClosed
		return t.woken
	}
	r.terms[s] = t
	switch {
	case !r.asks:
		r.asks, r.all = true, false
		r.work.Go(r.run)
	case r.all:
		r.all = false
		r.work.Go(r.interrupt)
	}
	return t.woken
}

// add counts a signal.
func (r *rest) add() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signals++
}

// remove forgets a signal. With the last one goes the connection.
func (r *rest) remove(s *requestSignal) {
	r.leave(s)
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	if r.signals--; r.signals == 0 && !r.asks {
		r.drop()
	}
}

// leave forgets a term that waits. The last one ends the rest.
func (r *rest) leave(s *requestSignal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.terms[s]; !ok {
		return
	}
	if delete(r.terms, s); len(r.terms) == 0 && r.end != nil {
		r.end()
	}
}

// interrupt ends the rest that is not for the newest terms.
func (r *rest) interrupt() {
	r.requests.rows.interrupt(func() (on string, done bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.on, r.all || !r.asks
	})
}

// run rests for as long as there are terms that wait.
func (r *rest) run() {
	ctx, end := r.requests.rows.conns.Bind(context.Background())
	defer end()
	for {
		limited, cancel := context.WithCancel(ctx)
		terms := r.begin(cancel)
		if len(terms) == 0 {
			cancel()
			return
		}
		asked, err := r.once(limited, terms)
		cancel()
		switch {
		case ctx.Err() != nil:
			err = mysqlconn.ErrClosed
		case limited.Err() != nil && err != nil: // all have left
		case err != nil:
			err = r.requests.rows.conns.Explain(err)
		}
		r.tell(terms, asked, err)
	}
}

// begin returns the terms for which to rest. Where there are none, this goroutine ends.
func (r *rest) begin(end context.CancelFunc) []*resting {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all, r.end = true, end
	if len(r.terms) == 0 {
		if r.asks, r.end = false, nil; r.signals == 0 {
			r.drop()
		}
	}
	return slices.Collect(maps.Values(r.terms))
}

// tell wakes the terms that were asked, or all after an error.
func (r *rest) tell(terms []*resting, asked map[*resting]bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range terms {
		if r.terms[t.requestSignal] == t && (err != nil || asked[t]) {
			t.woken <- err
			delete(r.terms, t.requestSignal)
		}
	}
}

// once rests once, and returns which terms were asked.
func (r *rest) once(ctx context.Context, terms []*resting) (asked map[*resting]bool, err error) {
	defer func() {
		switch {
		case mysqlerr.Number(err) == mysqlerr.Interrupted: // between two statements
			err = nil
		case err != nil:
			r.drop()
		}
	}()
	for patience := 0; ; {
		c, err := r.open(ctx)
		if err != nil {
			return nil, err
		}
		if err := r.free(ctx); err != nil {
			return nil, err
		}
		began := time.Now()
		over, looked := make(chan struct{}), make(chan map[*resting]bool, 1)
		statement := r.statement(terms, patience)
		go func() { looked <- r.look(ctx, terms, over) }()
		answer, err := c.Count(ctx, statement)
		close(over)
		asked = <-looked
		killed := mysqlerr.Number(err) == mysqlerr.Interrupted || err == nil && answer == 1 ||
			err == nil && answer == 0 && time.Since(began) < r.limit // what MariaDB answers when a wait for a lock is killed
		switch {
		case killed:
			if len(asked) == 0 && r.isForAll() { // another process has
				asked = r.whoIsAsked(ctx, terms)
			}
			return asked, nil
		case err != nil:
			if took := time.Since(began); ctx.Err() == nil && took > time.Second && mysqlconn.IsConnectionError(err) {
				r.limit = min(r.limit, max(time.Second, took*3/4)) // connections that are silent are cut off, perhaps
			}
			return nil, err
		case answer == 2 || answer == 4 && patience > 0:
			return nil, errNotOwn
		case answer == 3:
			if r.rests, err = r.requests.rows.giveRestLock(ctx, c); err != nil {
				return nil, err
			}
		case answer == 4: // an earlier connection of a term has its lock, which the server has not missed yet
			patience = 2
			if err := r.killHolders(ctx); err != nil {
				return nil, err
			}
		}
		if len(asked) > 0 || !r.isForAll() {
			return asked, nil
		}
	}
}

// isForAll reports whether the statement was for all terms that wait: else it is this process
// that has ended it.
func (r *rest) isForAll() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}

// statement takes the locks of the terms and rests.
func (r *rest) statement(terms []*resting, patience int) string {
	inner := r.requests.rows.rest(r.limit, r.rests)
	r.names = nil
	for _, t := range slices.Backward(terms) {
		t.name = r.requests.lockOf(r.conn, t.group, t.token)
		inner = sqltext.Raw(restWith.Render(t.name, patience, inner))
		r.names = append(r.names, t.name)
	}
	return restAs.Render(r.id, inner)
}

// free gives away the locks of the rest before.
func (r *rest) free(ctx context.Context) error {
	if len(r.names) == 0 {
		return nil
	}
	var each []string
	for _, name := range r.names {
		each = append(each, strings.TrimPrefix(releaseLock.Render(name), "SELECT "))
	}
	err := r.conn.Exec(ctx, "SELECT "+strings.Join(each, ","))
	if err == nil {
		r.names = nil
	}
	return err
}

// killHolders ends the other sessions that have locks of the terms.
func (r *rest) killHolders(ctx context.Context) error {
	for _, name := range r.names {
		n, err := r.conn.Count(ctx, anothers.Render(name))
		if err == nil && n == 1 {
			err = r.conn.Exec(ctx, killHolder.Render(name))
		}
		if err != nil && !mysqlconn.IsServerError(err) {
			return err
		}
	}
	return nil
}

// look looks for requests once the connection rests, and ends the rest if there are
// any. It gives up when the rest is over.
func (r *rest) look(ctx context.Context, terms []*resting, over <-chan struct{}) map[*resting]bool {
	ctx, cancel := context.WithTimeout(ctx, wakeLimit)
	defer cancel()
	asked := map[*resting]bool{}
	last := terms[len(terms)-1].name // whose lock is taken last
	again := retry.Forever(time.Millisecond, 100*time.Millisecond)
	for {
		rests := false
		err := r.requests.rows.conns.Do(ctx, mysqlconn.Readings, mysqlconn.Read, "look for requests", func(ctx context.Context, c *conn) error {
			n, err := c.Count(ctx, restsAs.Render(last, r.id))
			if rests = n == 1; err != nil || !rests {
				return err
			}
			if err = r.ask(ctx, c, terms, asked); err != nil || len(asked) == 0 {
				return err
			}
			return c.Exec(ctx, killQuery.Render(last))
		})
		if err != nil || rests {
			return asked // what failed is left to the heartbeat
		}
		timer := time.NewTimer(again.NextBackOff())
		select {
		case <-timer.C:
		case <-over:
			timer.Stop()
			return asked
		}
	}
}

// ask notes the terms of which something is asked.
func (r *rest) ask(ctx context.Context, c *conn, terms []*resting, asked map[*resting]bool) error {
	for _, t := range terms {
		number := uint64(0)
		if t.known != nil {
			number = *t.known
		}
		n, err := c.Count(ctx, r.requests.sql.news.Render(t.known != nil, t.group, t.group, number, t.group, t.token))
		if err != nil {
			return err
		}
		if n == 1 {
			asked[t] = true
		}
	}
	return nil
}

// whoIsAsked returns the terms of which something is asked: all where that is not known.
func (r *rest) whoIsAsked(ctx context.Context, terms []*resting) map[*resting]bool {
	asked := map[*resting]bool{}
	if len(terms) > 1 {
		ctx, cancel := context.WithTimeout(ctx, wakeLimit)
		defer cancel()
		err := r.requests.rows.conns.Do(ctx, mysqlconn.Readings, mysqlconn.Read, "look for requests", func(ctx context.Context, c *conn) error {
			return r.ask(ctx, c, terms, asked)
		})
		if err == nil && len(asked) > 0 {
			return asked
		}
	}
	for _, t := range terms {
		asked[t] = true
	}
	return asked
}

// open returns the connection, a new one if need be.
func (r *rest) open(ctx context.Context) (*conn, error) {
	if r.conn != nil && r.conn.Alive(ctx) {
		return r.conn, nil
	}
	r.drop()
	ctx, cancel := context.WithTimeoutCause(ctx, mysqlconn.AnswerLimit, errors.New("no answer within "+mysqlconn.AnswerLimit.String()))
	defer cancel()
	conns := r.requests.rows.conns
	if err := conns.ReserveRequests(); err != nil {
		return nil, err
	}
	c, err := r.series.Open(ctx)
	if err != nil {
		conns.FreeRequests()
		return nil, err
	}
	r.conn, r.names = c, nil
	if err = c.Exec(ctx, noSlowQueries.Render()); err == nil {
		if r.id, err = c.Count(ctx, connectionID.Render()); err == nil {
			r.rests, err = r.requests.rows.takeRestLock(ctx, c)
		}
	}
	if err != nil {
		r.drop()
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on = c.LockName()
	return c, nil
}

// drop discards the connection.
func (r *rest) drop() {
	if r.conn == nil {
		return
	}
	r.series.Drop(r.conn)
	r.conn = nil
	r.requests.rows.conns.FreeRequests()
}

// close is called when the connections have been stopped.
func (r *rest) close() {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	r.work.Wait()
	r.drop()
}
