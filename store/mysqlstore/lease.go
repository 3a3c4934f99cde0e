package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/cronlease/cronlease/internal/sqlscan"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// leases are the leases and their fences, and the hand-over signals of groups.
type leases struct {
	conns  *mysqlconn.Pool
	sql    *leaseQueries
	prefix string // of the tables
	wake   func(ctx context.Context, lane mysqlconn.Lane, group string)

	interrupt func(state func() (on string, done bool)) // [lockRows.interrupt]

	noteResign func(ctx context.Context, group string, token uint64, result jobs.Result) error

	mu         sync.Mutex // guards what follows
	signals    map[*signal]struct{}
	board      *board        // of all signals where there are several; set once
	signalWait time.Duration // longest wait for a lock that a read timeout has let through
}

// Read implements [store.Leases]. A connection that was lost while it was idle
// is replaced without an error; the readings name the new one.
func (l *leases) Read(ctx context.Context, groups ...string) ([]store.Reading, error) {
	if len(groups) == 0 {
		return nil, nil
	}
	names := make(sqltext.List, len(groups))
	for i, group := range groups {
		names[i] = group
	}
	query := l.sql.read.Render(names, names)
	var readings []store.Reading
	err := l.conns.Do(ctx, mysqlconn.Readings, mysqlconn.Read, "read lease", func(ctx context.Context, c *conn) error {
		found, now, err := readRows(ctx, c, query)
		if err != nil {
			return err
		}
		readings = make([]store.Reading, len(groups))
		for i, group := range groups {
			readings[i] = store.Reading{Group: group, Now: now, Server: c.Server.Identity, Session: c.Number}
			rows := found[group]
			if rows.Lease != nil {
				readings[i].Lease = new(*rows.Lease)
			}
			if rows.Fence != nil {
				readings[i].Fence = new(*rows.Fence)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return readings, nil
}

// readRows runs the read query. It scans no instants: how the driver makes
// those depends on the DSN.
func readRows(ctx context.Context, c *conn, query string) (map[string]store.Reading, time.Time, error) {
	rows, err := c.Query(ctx, query)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer rows.Close()
	found := map[string]store.Reading{}
	var now time.Time
	for rows.Next() {
		var (
			kind                    int
			name, owner             string
			token, heartbeat, ttl   uint64
			micros                  sql.NullInt64 // NULL for the date 0000-00-00, which is taken for long ago
			released, resignIsAsked bool
		)
		if err := rows.Scan(&kind, &name, &owner, &token, &heartbeat, &micros, &ttl, (*sqlscan.Bool)(&released), (*sqlscan.Bool)(&resignIsAsked)); err != nil {
			return nil, time.Time{}, err
		}
		r := found[name]
		switch kind {
		case nowRow:
			now = time.UnixMicro(micros.Int64).UTC()
			continue
		case leaseRow:
			r.Lease = &store.Lease{
				Owner: owner, Token: token, Heartbeat: heartbeat,
				RenewedAt: time.UnixMicro(micros.Int64).UTC(),
				TTL:       time.Duration(min(ttl, math.MaxInt64/uint64(time.Microsecond))) * time.Microsecond,
				Released:  released, ResignAsked: resignIsAsked,
			}
		case fenceRow:
			r.Fence = &store.Fence{Owner: owner, Token: token}
		}
		found[name] = r
	}
	if err := rows.Err(); err != nil {
		return nil, time.Time{}, err
	}
	if now.IsZero() {
		return nil, time.Time{}, errors.New("the answer has no clock")
	}
	return found, now, nil
}

// Prepare implements [store.Leases]. It inserts what is missing by up to three
// statements, each of which looks for itself; a context that ends leaves any
// of them undone, and another call completes them.
func (l *leases) Prepare(ctx context.Context, group string, ttl time.Duration) error {
	if err := store.CheckName("group", group); err != nil {
		return err
	}
	micros, err := ttlMicros(ttl)
	if err != nil {
		return err
	}
	for _, statement := range []string{
		l.sql.insertNew.Render(group, micros, group, group),
		l.sql.insertDeleted.Render(micros, group, group),
		l.sql.insertFence.Render(group, group),
	} {
		err := l.conns.Do(ctx, mysqlconn.Readings, mysqlconn.Write, "prepare lease", func(ctx context.Context, c *conn) error {
			return mysqlconn.RetryDeadlocks(ctx, func() error {
				return c.Exec(ctx, statement)
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Acquire implements [store.Leases]. It waits up to 2 s for fenced transactions
// of the previous holder to end.
func (l *leases) Acquire(ctx context.Context, a store.Acquire) (uint64, error) {
	return l.acquire(ctx, a, func(ctx context.Context, c *conn, micros, next uint64) (done mysqlconn.Change, err error) {
		statement := l.sql.acquire.Render(a.Owner, next, a.Owner, next, a.Heartbeat, micros,
			a.Read.Group, a.Read.Fence.Token, a.Read.Lease.Token, a.Read.Lease.Heartbeat)
		err = c.RetryConflicts(ctx, 1, func() (err error) {
			done, err = c.Change(ctx, statement)
			return err
		})
		return done, err
	})
}

// acquire runs an acquire, which is given the TTL and the least new token.
func (l *leases) acquire(ctx context.Context, a store.Acquire, run func(ctx context.Context, c *conn, micros, next uint64) (mysqlconn.Change, error)) (uint64, error) {
	if err := errors.Join(store.CheckName("group", a.Read.Group), store.CheckName("owner", a.Owner)); err != nil {
		return 0, err
	}
	micros, err := ttlMicros(a.TTL)
	if err != nil {
		return 0, err
	}
	if a.Read.Lease == nil || a.Read.Fence == nil {
		return 0, store.ErrChanged
	}
	highest := max(a.Read.Lease.Token, a.Read.Fence.Token, a.Floor)
	if highest == math.MaxUint64 {
		return 0, fmt.Errorf("acquire lease: the token of %q is %d, and there is no larger one: repair the row", a.Read.Group, highest)
	}
	var token uint64
	// No other connection than that of the reading.
	err = l.conns.DoOn(ctx, mysqlconn.Readings, a.Read.Session, "acquire lease", func(ctx context.Context, c *conn) error {
		done, err := run(ctx, c, micros, highest+1)
		if err != nil {
			return err
		}
		if done.Rows == 0 {
			return store.ErrChanged
		}
		token = uint64(done.LastID)
		if done.Rows != 2 || token <= highest {
			return fmt.Errorf("the server answered with token %d and %d changed rows", token, done.Rows)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return token, nil
}

// Renew implements [store.Leases]. Of several leases, those whose rows another
// transaction has locked are not renewed, and the others are at once. A renewal
// of a single lease waits for its row, for 1 s.
func (l *leases) Renew(ctx context.Context, r store.Renew) (int, error) {
	if len(r.Leases) == 0 || r.Owner == "" {
		return 0, ctx.Err()
	}
	statement := l.renewStatement(r)
	renewed := 0
	err := l.conns.Do(ctx, mysqlconn.Heartbeats, mysqlconn.Write, "renew lease", func(ctx context.Context, c *conn) error {
		var err error
		renewed, err = c.Changed(ctx, statement)
		return err
	})
	if err != nil {
		return 0, err
	}
	return renewed, nil
}

func (l *leases) renewStatement(r store.Renew) string {
	names, rows := make(sqltext.List, len(r.Leases)), make(sqltext.List, len(r.Leases))
	for i, l := range r.Leases {
		names[i] = l.Group
		rows[i] = sqltext.Row{l.Group, l.Token, l.Heartbeat, l.ResignAsked}
	}
	if len(r.Leases) == 1 {
		return l.sql.renew.Render(r.Heartbeat, names, r.Owner, rows)
	}
	return l.sql.renewFree.Render(names, r.Owner, rows, len(names), r.Heartbeat)
}

// Release implements [store.Leases].
func (l *leases) Release(ctx context.Context, group, owner string, token uint64) error {
	if owner == "" {
		return store.ErrChanged
	}
	_, err := l.mark(ctx, "release lease", l.sql.releaseFree.Render(group, owner, token),
		l.sql.release.Render(group, owner, token), l.sql.isReleased.Render(group, owner, token))
	return err
}

// recordMost is how long the record of a request may take that was granted.
const recordMost = 5 * time.Second

// AskResign implements [store.Leases].
func (l *leases) AskResign(ctx context.Context, group string, token uint64) error {
	changed, err := l.mark(ctx, "ask to resign", l.sql.askFree.Render(group, token),
		l.sql.askResign.Render(group, token), l.sql.isAsked.Render(group, token))
	result := jobs.Unchanged
	switch {
	case errors.Is(err, store.ErrChanged):
		result = jobs.Refused
	case err != nil:
		return err
	case changed:
		result = jobs.Done
	}
	if err == nil {
		l.wake(ctx, mysqlconn.Readings, group)
	}
	// Not in one transaction with the request: that would keep the lease row from
	// heartbeats. So the record goes on when the caller leaves in between.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordMost)
	defer cancel()
	if failed := l.noteResign(ctx, group, token, result); failed != nil {
		return fmt.Errorf("asked, but not recorded: %w", failed)
	}
	return err
}

// mark sets a mark, unless the query says that it is set already, and reports whether it
// has. The statement free skips a row that another transaction has locked, so that no
// heartbeat waits behind it. Only if it changes nothing does the other statement wait for
// the row, on another connection.
func (l *leases) mark(ctx context.Context, op, free, statement, isMarked string) (changed bool, err error) {
	done := false
	try := func(statement string) func(context.Context, *conn) error {
		return func(ctx context.Context, c *conn) error {
			n, err := c.Changed(ctx, statement)
			changed = err == nil && n > 0
			if err == nil && n == 0 {
				n, err = c.Count(ctx, isMarked)
			}
			done = err == nil && n > 0
			return err
		}
	}
	if err := l.conns.Do(ctx, mysqlconn.Heartbeats, mysqlconn.Write, op, try(free)); err != nil || done {
		return changed, err
	}
	if err := l.conns.Do(ctx, mysqlconn.Readings, mysqlconn.Write, op, try(statement)); err != nil || done {
		return changed, err
	}
	return false, store.ErrChanged
}

func ttlMicros(ttl time.Duration) (uint64, error) {
	if ttl <= 0 {
		return 0, fmt.Errorf("mysqlstore: TTL %v: must be positive", ttl)
	}
	return uint64(ttl.Microseconds()), nil
}
