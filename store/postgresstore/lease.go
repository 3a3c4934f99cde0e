package postgresstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/sqlscan"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/sqlledger"
)

// Read implements [store.Leases]. A session of a reading stands for the server that answered.
func (s *Store) Read(ctx context.Context, groups ...string) ([]store.Reading, error) {
	if len(groups) == 0 {
		return nil, ctx.Err()
	}
	asked, err := json.Marshal(groups)
	if err != nil {
		return nil, err
	}
	readings := make([]store.Reading, len(groups))
	err = s.do(ctx, "read", func(ctx context.Context, c conn) error {
		return sqlledger.Each(ctx, c, s.sql.read, []any{string(asked)}, func(rows *sql.Rows) error {
			var (
				i, now                                int64
				server                                string
				owner, fenceOwner                     sql.NullString
				token, heartbeat, renewed, ttl, fence sql.NullInt64
				released, resign                      sql.NullBool
			)
			if err := rows.Scan(&i, &now, &server, &owner, &token, &heartbeat, &renewed, &ttl, &released, &resign, &fenceOwner, &fence); err != nil {
				return err
			}
			r := store.Reading{Group: groups[i], Now: sqlledger.Instant(now), Server: server, Session: sessionOf(server)}
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
			return nil
		})
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
	_, err := s.once(ctx, "prepare", nil,
		sqlledger.Statement{Text: s.sql.prepare, Args: []any{group, ttl.Microseconds()}},
		sqlledger.Statement{Text: s.sql.copyFence, Args: []any{group}})
	return err
}

// Acquire implements [store.Leases].
func (s *Store) Acquire(ctx context.Context, a store.Acquire) (uint64, error) {
	if err := store.CheckName("owner", a.Owner); err != nil {
		return 0, err
	}
	l, f, group := a.Read.Lease, a.Read.Fence, a.Read.Group
	if l == nil || f == nil || tooLarge(l.Token, l.Heartbeat, f.Token) || a.Read.Session != sessionOf(a.Read.Server) {
		return 0, store.ErrChanged
	}
	var token int64
	_, err := s.once(ctx, "acquire", func(rows pgx.Rows) error { return rows.Scan(&token) },
		sqlledger.Statement{Text: s.sql.queue, Args: []any{"fence " + group}},
		sqlledger.Statement{Text: s.sql.acquire, Args: []any{
			group, int64(f.Token), int64(l.Token), int64(l.Heartbeat), a.Owner, sqlledger.Number(a.Floor), int64(a.Heartbeat), a.TTL.Microseconds(), a.Read.Server,
		}})
	switch {
	case err != nil:
		return 0, err
	case token == 0:
		return 0, store.ErrChanged
	}
	return uint64(token), nil
}

// Renew implements [store.Leases].
func (s *Store) Renew(ctx context.Context, r store.Renew) (int, error) {
	var held []store.Renewal
	var list [][4]any
	for _, l := range r.Leases {
		if !tooLarge(l.Token, l.Heartbeat) {
			held, list = append(held, l), append(list, [4]any{l.Group, l.Token, l.Heartbeat, l.ResignAsked})
		}
	}
	if len(held) == 0 || r.Owner == "" {
		return 0, ctx.Err()
	}
	st := s.renewal(s.sql.renewOne, r.Owner, r.Heartbeat, held[0])
	if len(held) > 1 {
		expected, err := json.Marshal(list)
		if err != nil {
			return 0, err
		}
		st = sqlledger.Statement{Text: s.sql.renew, Args: []any{string(expected), int64(r.Heartbeat), r.Owner}}
	}
	n, err := database{s}.Exec(ctx, "renew", st)
	return int(n), err
}

// renewal is a statement that renews one lease, and waits for its row.
func (*Store) renewal(text, owner string, heartbeat uint64, r store.Renewal) sqlledger.Statement {
	return sqlledger.Statement{Text: text, Args: []any{r.Group, int64(r.Token), int64(r.Heartbeat), r.ResignAsked, owner, int64(heartbeat)}}
}

// Beat implements [store.Heartbeats].
func (s *Store) Beat(ctx context.Context, owner string, heartbeat uint64, r store.Renewal, known uint64) (store.Beat, error) {
	if owner == "" || tooLarge(r.Token, r.Heartbeat) {
		return store.Beat{}, ctx.Err()
	}
	var beat store.Beat
	_, err := s.once(ctx, "renew", func(rows pgx.Rows) error {
		var now int64
		var number uint64
		var server string
		err := rows.Scan(&now, &server, (*sqlscan.Uint)(&number))
		beat = store.Beat{Renewed: true, Asked: number != known, Now: sqlledger.Instant(now), Server: server}
		return err
	}, s.renewal(s.sql.beat, owner, heartbeat, r))
	if err != nil {
		return store.Beat{}, err
	}
	return beat, nil
}

// Release implements [store.Leases].
func (s *Store) Release(ctx context.Context, group, owner string, token uint64) error {
	if owner == "" || tooLarge(token) {
		return store.ErrChanged
	}
	n, err := database{s}.Exec(ctx, "release", sqlledger.Statement{Text: s.sql.release, Args: []any{group, owner, int64(token)}})
	if err == nil && n == 0 {
		return store.ErrChanged
	}
	return err
}

// AskResign implements [store.Leases].
func (s *Store) AskResign(ctx context.Context, group string, token uint64) error {
	entry := ledgerrows.Entry(ctx, jobs.ActionResign, jobs.Key{}, fmt.Sprintf("token %d", token))
	is := false
	err := s.do(ctx, "ask to resign", func(ctx context.Context, c conn) error {
		return c.inTx(ctx, nil, func(ctx context.Context) error {
			asked, err := c.ExecContext(ctx, s.sql.askResign, group, sqlledger.Number(token))
			if err != nil {
				return err
			}
			n, err := asked.RowsAffected()
			if err != nil {
				return err
			}
			if err := c.QueryRowContext(ctx, s.sql.isAsked, group, sqlledger.Number(token)).Scan(&is); err != nil {
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
			return s.Note(ctx, c, group, entry)
		})
	})
	if err == nil && !is {
		return store.ErrChanged
	}
	return err
}
