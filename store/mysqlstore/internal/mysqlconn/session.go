package mysqlconn

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// session is what the server has of a connection. It may outlive that: the server does not
// notice that its client has left while it waits for something else, such as the replicas that
// have to confirm a commit, or when the network has swallowed the end.
type session struct {
	mark string // a random name
	port string // the client's, as it sees it; empty: not known
	// What follows is written before the connection is used, and is zero for one whose login, or
	// setting up, had no answer.
	id      int64
	locked  bool   // it has the user-level lock of its mark
	server  string // its identity
	unready bool   // a node of Galera without a majority, which does not end the transaction that may be open

	left time.Time     // when the process has left it
	gone chan struct{} // closed once the server is known to be rid of it, or nothing waits for that
	runs atomic.Bool   // when the server was last asked, it was busy with a statement that may write
}

func newSession(port string) *session {
	return &session{mark: rand.Text(), port: port, gone: make(chan struct{})}
}

// lock is the user-level lock that the session has, and no other one ever: what a proxy has
// made of it since, for another client, does not have it.
func (s *session) lock() string { return "cronlease:session:" + strings.ToLower(s.mark) }

// release lets what waits for the session's end go on. It is called with the watch's mutex.
func (s *session) release() {
	if !s.isGone() {
		close(s.gone)
	}
}

func (s *session) isGone() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

var (
	identify     = sqltext.Parse(`SELECT CONNECTION_ID(), GET_LOCK(?, 0)`)
	identifyOnly = sqltext.Parse(`SELECT CONNECTION_ID(), 0`)

	// sessionsOf shows sessions, and whether each is still that of the lock.
	sessionsOf = sqltext.Parse(`
SELECT id, user, command, COALESCE(time, 0), COALESCE(state, ''), LEFT(COALESCE(info, ''), 80), ELT(FIELD(id, ?), ?)
FROM information_schema.processlist WHERE id IN (?)`)
	usesLock    = sqltext.Parse(`IS_USED_LOCK(?)`)
	killSession = sqltext.Parse(`KILL IS_USED_LOCK(?)`)

	// idleFrom is an idle session of this account from the client's port ?, if the server sees this connection's
	// own port as the client does: no proxy and no address translation is in between.
	idleFrom = sqltext.Parse(`
SELECT s.id FROM information_schema.processlist AS own JOIN information_schema.processlist AS s
ON s.host = CONCAT(LEFT(own.host, LENGTH(own.host) - LENGTH(?)), ?) AND s.user = own.user AND s.command = 'Sleep' AND s.id <> own.id
WHERE own.id = CONNECTION_ID() AND own.host LIKE CONCAT('%:', ?)`)
	killID = sqltext.Parse(`KILL ?`)
)

// identify reads the session's id, and gives it its lock where the server has such locks.
func (s *session) identify(ctx context.Context, conn *sql.Conn) error {
	var locked sql.NullInt64
	err := conn.QueryRowContext(ctx, identify.Render(s.lock())).Scan(&s.id, &locked)
	if IsServerError(err) { // as some clusters refuse it
		err = conn.QueryRowContext(ctx, identifyOnly.Render()).Scan(&s.id, &locked)
	}
	s.locked = locked.Int64 == 1
	return err
}

// endNameless ends a session whose client has never learned its number, and which so has never done anything: by the
// lock that it may have got, or by the port of its client.
func (c *Conn) endNameless(ctx context.Context, s *session) error {
	if err := c.Exec(ctx, killSession.Render(s.lock())); err == nil {
		return nil
	} else if !IsServerError(err) {
		return err
	}
	if s.port == "" || c.session.port == "" {
		return nil
	}
	var id int64
	switch err := c.QueryRow(ctx, idleFrom.Render(c.session.port, s.port, c.session.port)).Scan(&id); {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil && !IsServerError(err):
		return err
	case err == nil:
		if err = c.Exec(ctx, killID.Render(id)); err != nil && !IsServerError(err) {
			return err
		}
	}
	return nil
}

// lingering is what a session does that this process has left, and the error of what has to
// wait for its end.
type lingering struct{ Stall }

func (e *lingering) Error() string {
	const waits = "a statement was given up and has not ended on the server, and nothing else is sent there in its place before it ends"
	if e.isUnacknowledged() || e.isFull() || e.isCommit() {
		return fmt.Sprintf("%s: %v: %s", waits, &e.Stall, e.Cure())
	}
	return fmt.Sprintf("%s (session %d of user %s has been in the state %q for %v with %q)", waits, e.ID, e.User, e.State, e.For, e.Info)
}

// shown is a session in the server's list.
type shown struct {
	lingering
	command string
	holder  int64 // of the session's lock; 0: there is none
}

// mayWrite reports whether the session is busy with a statement that may write, and which it
// would do harm to kill.
func (s *shown) mayWrite() bool {
	return s.command != "Sleep" && !strings.HasPrefix(strings.ToUpper(s.Info), "SELECT")
}

// sessions asks the connection's server for those of these that it has, by their ids.
func (c *Conn) sessions(ctx context.Context, all []*session) (map[int64]*shown, error) {
	var ids, locks sqltext.List
	for _, s := range all {
		ids = append(ids, s.id)
		locks = append(locks, sqltext.Raw(usesLock.Render(s.lock())))
	}
	rows, err := c.Query(ctx, sessionsOf.Render(ids, locks, ids))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[int64]*shown{}
	for rows.Next() {
		var (
			s       shown
			seconds int64
			holder  sql.NullInt64
		)
		if err := rows.Scan(&s.ID, &s.User, &s.command, &seconds, &s.State, &s.Info, &holder); err != nil {
			return nil, err
		}
		if s.State == "" {
			s.State = s.command
		}
		s.Info = strings.Join(strings.Fields(s.Info), " ")
		s.For, s.holder = time.Duration(seconds)*time.Second, holder.Int64
		found[s.ID] = &s
	}
	return found, rows.Err()
}
