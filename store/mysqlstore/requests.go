package mysqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

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
	// restAs rests, if its session is the one that was asked before, and answers 2 if it is
	// not, and else as [notifier]'s. restWith takes a lock before what follows, and
	// answers 4 if the lock is another's.
	restAs        = sqltext.Parse(`SELECT IF(CONNECTION_ID() = ?, ?, 2)`)
	restWith      = sqltext.Parse(`IF(GET_LOCK(?, ?), ?, 4)`)
	restsAs       = sqltext.Parse(`SELECT IS_USED_LOCK(?) <=> ?`)
	killHolder    = sqltext.Parse(`KILL IS_USED_LOCK(?)`)
	anothers      = sqltext.Parse(`SELECT COALESCE(IS_USED_LOCK(?) <> CONNECTION_ID(), 0)`)
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
	rester *rest
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
	_ = r.tryWake(ctx, lane, group)
}

// Wake implements [store.Spreads]. It wakes no holder of another account, or on another node of a cluster.
func (r *requests) Wake(ctx context.Context, group string) error {
	return r.tryWake(ctx, mysqlconn.Ledger, group)
}

func (r *requests) tryWake(ctx context.Context, lane mysqlconn.Lane, group string) error {
	return r.rows.conns.Do(ctx, lane, mysqlconn.Read, "wake the holder of a lease", func(ctx context.Context, c *conn) error {
		var token uint64
		err := c.QueryRow(ctx, r.sql.token.Render(group)).Scan(&token)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.Exec(ctx, killQuery.Render(r.lockOf(c, group, token))); !mysqlconn.IsServerError(err) {
			return err
		}
		return nil // it does not wait, or not here
	})
}

// lockOf is the name of the lock that the holder's session has. Terms have names of
// their own, so that a connection of an earlier term is in nobody's way.
func (r *requests) lockOf(c *conn, group string, token uint64) string {
	sum := sha256.Sum256([]byte(c.Server.Database + "\x00" + r.prefix + "\x00" + group))
	return fmt.Sprintf("%s%x:%d", notifierLock, sum[:10], token)
}

// requestSignal is the requests of one term.
type requestSignal struct {
	requests *requests
	group    string
	token    uint64
	closed   bool // guarded by the rest's mu
}

// RequestSignal implements [store.RequestSignals]. All of a store have one connection, which
// the first Wait takes. Requests of another account, or on another node of a cluster, do not
// wake it.
func (r *requests) RequestSignal(group string, token uint64) store.RequestSignal {
	r.rester.add()
	return &requestSignal{requests: r, group: group, token: token}
}

// Wait implements [store.RequestSignal].
func (s *requestSignal) Wait(ctx context.Context, known *uint64) error {
	r := s.requests.rester
	var err error
	select {
	case err = <-r.join(s, known):
	case <-ctx.Done():
		r.leave(s)
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("wait for requests: %w", err)
	}
	return nil
}

// Close implements [store.RequestSignal].
func (s *requestSignal) Close() error {
	s.requests.rester.remove(s)
	return nil
}
