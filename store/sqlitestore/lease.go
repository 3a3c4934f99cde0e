package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/sqlledger"
)

// Read implements [store.Leases].
func (s *Store) Read(ctx context.Context, groups ...string) ([]store.Reading, error) {
	if len(groups) == 0 {
		return nil, ctx.Err()
	}
	asked, err := json.Marshal(groups)
	if err != nil {
		return nil, err
	}
	readings := make([]store.Reading, len(groups))
	err = s.do(ctx, "read", func(ctx context.Context, c *sql.Conn, of opened) (err error) {
		rows, err := c.QueryContext(ctx, s.sql.read, string(asked))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			var (
				i                                     int
				now                                   int64
				file                                  string
				owner, fenceOwner                     sql.NullString
				token, heartbeat, renewed, ttl, fence sql.NullInt64
				released, resign                      sql.NullBool
			)
			if err := rows.Scan(&i, &now, &file, &owner, &token, &heartbeat, &renewed, &ttl, &released, &resign, &fenceOwner, &fence); err != nil {
				return err
			}
			r := store.Reading{Group: groups[i], Now: sqlledger.Instant(now), Server: serverOf(file, of), Session: of.session}
			if owner.Valid {
				r.Lease = &store.Lease{
					Owner: owner.String, Token: uint64(token.Int64), Heartbeat: uint64(heartbeat.Int64), RenewedAt: sqlledger.Instant(renewed.Int64),
					TTL: time.Duration(min(ttl.Int64, math.MaxInt64/int64(time.Microsecond))) * time.Microsecond, Released: released.Bool, ResignAsked: resign.Bool,
				}
			}
			if fenceOwner.Valid {
				r.Fence = &store.Fence{Owner: fenceOwner.String, Token: uint64(fence.Int64)}
			}
			readings[i] = r
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return readings, nil
}

// Prepare implements [store.Leases].
func (s *Store) Prepare(ctx context.Context, group string, ttl time.Duration) error {
	if err := store.CheckName("group", group); err != nil {
		return err
	}
	return s.do(ctx, "prepare", func(ctx context.Context, c *sql.Conn, _ opened) error {
		if _, err := exec(ctx, c, s.sql.prepare, group, ttl.Microseconds()); err != nil {
			return err
		}
		_, err := exec(ctx, c, s.sql.copyFence, group)
		return err
	})
}

// Acquire implements [store.Leases].
func (s *Store) Acquire(ctx context.Context, a store.Acquire) (uint64, error) {
	if err := store.CheckName("owner", a.Owner); err != nil {
		return 0, err
	}
	l, f := a.Read.Lease, a.Read.Fence
	if l == nil || f == nil || tooLarge(l.Token, l.Heartbeat, f.Token) {
		return 0, store.ErrChanged
	}
	var token int64
	err := s.do(ctx, "acquire", func(ctx context.Context, c *sql.Conn, of opened) (err error) {
		if of.session != a.Read.Session {
			return store.ErrChanged
		}
		rows, err := c.QueryContext(ctx, s.sql.acquire, a.Owner, f.Token, a.Floor, a.Heartbeat, a.TTL.Microseconds(), a.Read.Group, l.Token, l.Heartbeat)
		if err != nil {
			return err
		}
		// The statement has taken effect when it has been read to its end.
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			if err := rows.Scan(&token); err != nil {
				return err
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		if token == 0 {
			return store.ErrChanged
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return uint64(token), nil
}

// Renew implements [store.Leases].
func (s *Store) Renew(ctx context.Context, r store.Renew) (int, error) {
	held := make([][4]any, 0, len(r.Leases))
	for _, l := range r.Leases {
		if !tooLarge(l.Token, l.Heartbeat) {
			held = append(held, [4]any{l.Group, l.Token, l.Heartbeat, l.ResignAsked})
		}
	}
	if len(held) == 0 || r.Owner == "" {
		return 0, ctx.Err()
	}
	expected, err := json.Marshal(held)
	if err != nil {
		return 0, err
	}
	var n int64
	err = s.do(ctx, "renew", func(ctx context.Context, c *sql.Conn, _ opened) error {
		n, err = exec(ctx, c, s.sql.renew, string(expected), r.Heartbeat, r.Owner)
		return err
	})
	if err != nil {
		return 0, err
	}
	return int(n), nil
}

// Release implements [store.Leases].
func (s *Store) Release(ctx context.Context, group, owner string, token uint64) error {
	if owner == "" {
		return store.ErrChanged
	}
	return s.changeOne(ctx, "release", s.sql.release, group, owner, token)
}

// AskResign implements [store.Leases].
func (s *Store) AskResign(ctx context.Context, group string, token uint64) error {
	entry := ledgerrows.Entry(ctx, jobs.ActionResign, jobs.Key{}, fmt.Sprintf("token %d", token))
	is := false
	err := s.do(ctx, "ask to resign", func(ctx context.Context, c *sql.Conn, of opened) error {
		return inTx(ctx, c, func(tx *sql.Tx) error {
			n, err := changed(ctx, tx, s.sql.askResign, group, sqlledger.Number(token))
			if err != nil {
				return err
			}
			if err := tx.QueryRowContext(ctx, s.sql.isAsked, group, sqlledger.Number(token)).Scan(&is); err != nil {
				return err
			}
			switch {
			case n > 0:
				entry.Result = jobs.Done
			case is:
				entry.Result = jobs.Unchanged
			default:
				entry.Result = jobs.Refused
			}
			return s.Note(ctx, connection{tx, of}, group, entry)
		})
	})
	if err == nil && !is {
		return store.ErrChanged
	}
	return err
}

// changeOne runs a statement that changes the one row which is as expected.
func (s *Store) changeOne(ctx context.Context, action, statement string, args ...any) error {
	return s.do(ctx, action, func(ctx context.Context, c *sql.Conn, _ opened) error {
		n, err := exec(ctx, c, statement, args...)
		if err == nil && n == 0 {
			return store.ErrChanged
		}
		return err
	})
}
