package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

const (
	defaultLimit = 100
	defaultBatch = 500

	// pruneLook is how many of a job's oldest runs one statement looks at, so
	// that it is short where there is nothing to delete.
	pruneLook = 10000
)

// Runs implements [jobs.Control]. It reads about as many rows as it returns, but
// for a job's runs of one state, which it looks for among all the job's.
func (s *Store) Runs(ctx context.Context, group string, filter jobs.Filter) ([]jobs.Record, error) {
	since, last := window(filter.Since, filter.Until)
	behind := filter.Behind != jobs.Key{}
	var at int64
	if behind {
		at = filter.Behind.Tick.UnixMicro()
		last = min(last, at)
	}
	query, args := s.runs.newest, []any{
		group, since, cmp.Or(max(filter.Limit, 0), defaultLimit), last, behind, at, filter.Behind.Job, number(filter.Behind.Trigger),
	}
	switch {
	case filter.Job != "":
		query, args = s.runs.newestOfJob, append(args, int(filter.State), filter.Job)
	case filter.State != 0:
		query, args = s.runs.newestOfState, append(args, int(filter.State))
	}
	var all []jobs.Record
	err := s.do(ctx, "read runs", func(ctx context.Context, c *sql.Conn, _ opened) (err error) {
		all, err = records(ctx, c, query, args...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// PassOver implements [store.Ledger]. It is one transaction.
func (s *Store) PassOver(ctx context.Context, h store.Holder, job string, after time.Time) (passed int, err error) {
	err = s.write(ctx, "pass over ticks", func(ctx context.Context, c *sql.Conn) error {
		return inTx(ctx, c, func(tx *sql.Tx) error {
			// The first statement writes, so that no takeover comes in between.
			n, err := changed(ctx, tx, s.runs.passOver, number(h.Token), h.Group, job, after.UnixMicro())
			if err != nil {
				return err
			}
			current := false
			if err := tx.QueryRowContext(ctx, s.runs.current, h.Group, h.Owner, number(h.Token)).Scan(&current); err != nil {
				return err
			}
			if !current {
				return store.ErrReplaced
			}
			const noTick int64 = math.MinInt64
			for _, statement := range []string{s.runs.rewind, s.runs.forget} {
				if _, err := tx.ExecContext(ctx, statement, h.Group, job, noTick); err != nil {
					return err
				}
			}
			passed = int(n)
			return nil
		})
	})
	if errors.Is(err, store.ErrReplaced) {
		return 0, store.ErrReplaced
	}
	return passed, err
}

// Prune implements [store.Ledger]. At most 500 rows are one statement, which
// looks at the 10,000 oldest runs of the job.
func (s *Store) Prune(ctx context.Context, group, job string, history jobs.History, batch int) (int, error) {
	if batch <= 0 {
		batch = defaultBatch
	}
	age, deleted := history.For.Microseconds(), 0
	for deleted < batch && (history.Keep > 0 || age > 0) {
		n, most := 0, min(defaultBatch, batch-deleted)
		err := s.write(ctx, "prune", func(ctx context.Context, c *sql.Conn) error {
			rows, err := exec(ctx, c, s.runs.prune, group, job, history.Keep, age, most, pruneLook)
			n = int(rows)
			return err
		})
		deleted += n
		if err != nil || n < most {
			return deleted, err
		}
	}
	return deleted, nil
}
