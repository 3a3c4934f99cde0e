package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/cronlease/cronlease/internal/sqlscan"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/sqlledger"
	"github.com/cronlease/cronlease/store/internal/waiting"
)

// Beat implements [store.Heartbeats].
func (s *Store) Beat(ctx context.Context, owner string, heartbeat uint64, r store.Renewal, known uint64) (store.Beat, error) {
	if owner == "" || tooLarge(r.Token, r.Heartbeat) {
		return store.Beat{}, ctx.Err()
	}
	expected, err := json.Marshal([][4]any{{r.Group, r.Token, r.Heartbeat, r.ResignAsked}})
	if err != nil {
		return store.Beat{}, err
	}
	var beat store.Beat
	err = s.do(ctx, "renew", func(ctx context.Context, c *sql.Conn, of opened) (err error) {
		rows, err := c.QueryContext(ctx, s.sql.beat, string(expected), heartbeat, owner)
		if err != nil {
			return err
		}
		// The statement has taken effect when it has been read to its end.
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			var now int64
			var file string
			var number uint64
			if err := rows.Scan(&now, &file, (*sqlscan.Uint)(&number)); err != nil {
				return err
			}
			beat = store.Beat{Renewed: true, Asked: number != known, Now: sqlledger.Instant(now), Server: serverOf(file, of)}
		}
		return rows.Err()
	})
	if err != nil {
		return store.Beat{}, err
	}
	return beat, nil
}

// requestSignal watches the file, as [signal] does.
type requestSignal struct {
	*waiting.Closer
	store *Store
	group string
	token uint64
	seen  *uint64 // the number of changes at the last look; nil: there was none
}

// RequestSignal implements [store.RequestSignals]. It looks ten times a second whether
// the file was changed, and only then at the rows.
func (s *Store) RequestSignal(group string, token uint64) store.RequestSignal {
	return &requestSignal{Closer: waiting.New(s.closing, "sqlitestore: wait for requests"), store: s, group: group, token: token}
}

// Wake implements [store.Spreads]. It counts as a change of the group.
func (s *Store) Wake(ctx context.Context, group string) error {
	_, err := database{s}.Exec(ctx, "wake a holder", sqlledger.Statement{Text: s.sql.wake, Args: []any{group}})
	return err
}

// Wait implements [store.RequestSignal].
func (r *requestSignal) Wait(ctx context.Context, known *uint64) error {
	return r.Until(ctx, func(ctx context.Context) error { return r.wait(ctx, known) })
}

func (r *requestSignal) wait(ctx context.Context, known *uint64) error {
	return r.store.do(ctx, "wait for requests", func(ctx context.Context, c *sql.Conn, of opened) error {
		seen := int64(-1)
		every := time.NewTicker(signalEvery)
		defer every.Stop()
		for {
			version, changed, err := changedSince(ctx, c, seen)
			if err != nil {
				return err
			}
			if changed {
				asked, err := r.look(ctx, c, known)
				if asked || err != nil {
					return err
				}
			}
			seen = version
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-every.C:
			}
		}
	})
}

// look reports whether there is a request. Who knows no number is woken by any change since the last look.
func (r *requestSignal) look(ctx context.Context, c *sql.Conn, known *uint64) (bool, error) {
	if known == nil {
		known = r.seen
	}
	var resign bool
	var number uint64
	err := c.QueryRowContext(ctx, r.store.sql.requests, r.group, int64(r.token)).Scan((*sqlscan.Uint)(&number), &resign)
	r.seen = &number
	return resign || known != nil && number != *known, err
}
