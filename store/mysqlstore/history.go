package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

const (
	defaultLimit = 100
	defaultBatch = 500

	// longAgo is a tick before all others.
	longAgo int64 = -1 << 62
)

// Runs implements [jobs.Control]. It reads about as many rows as it returns,
// but for a job's runs of one state, which it looks for among all the job's.
func (l *ledger) Runs(ctx context.Context, group string, filter jobs.Filter) ([]jobs.Record, error) {
	query := l.runsQuery(group, filter)
	var all []jobs.Record
	err := l.do(ctx, mysqlconn.Read, "read runs", func(ctx context.Context, c *conn) error {
		var err error
		all, err = records(ctx, c, query)
		return err
	})
	return all, err
}

func (l *ledger) runsQuery(group string, filter jobs.Filter) string {
	limit := filter.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	since, last := window(filter.Since, filter.Until)
	behind := filter.Behind != jobs.Key{}
	var at int64
	if behind {
		at = filter.Behind.Tick.UnixMicro()
		last = min(last, at)
	}
	job, trigger := filter.Behind.Job, filter.Behind.Trigger
	var keys []string
	switch {
	case filter.Job != "":
		state := int(filter.State)
		keys = append(keys, l.sql.newestOfJob.Render(group, filter.Job, since, last, state, state, behind, at, job, trigger, limit))
	case filter.State != 0:
		keys = append(keys, l.sql.newestIn.Render(group, int(filter.State), since, last, behind, at, job, trigger, limit))
	default:
		for state := jobs.Running; state <= jobs.Interrupted; state++ {
			keys = append(keys, l.sql.newestIn.Render(group, int(state), since, last, behind, at, job, trigger, limit))
		}
	}
	return l.sql.newestRuns.Render(sqltext.Raw(strings.Join(keys, "\nUNION ALL\n")), limit, group)
}

// PassOver implements [store.Ledger]. It is one transaction.
func (l *ledger) PassOver(ctx context.Context, h store.Holder, job string, after time.Time) (int, error) {
	tick, passed := after.UnixMicro(), 0
	runs := l.sql.passOver.Render(h.Group, h.Owner, h.Token, h.Group, job, tick, h.Token, h.Token)
	attempts := l.sql.passOverAttempts.Render(h.Token, h.Token, h.Group, job, tick)
	err := l.do(ctx, mysqlconn.Write, "pass over ticks", func(ctx context.Context, c *conn) error {
		done, err := l.transaction(ctx, c, h, func() (mysqlconn.Change, error) {
			done, err := c.Change(ctx, runs)
			if err == nil && done.Rows > 0 {
				err = c.Exec(ctx, attempts)
			}
			return done, err
		})
		if passed = done.Rows; err != nil || passed > 0 {
			return err
		}
		return l.checkHolder(ctx, c, h)
	})
	return passed, err
}

// Prune implements [store.Ledger]. It counts a run's time from its end, and needs
// the privilege DELETE on the tables of runs and attempts. It waits for no claim and holds none
// up.
func (l *ledger) Prune(ctx context.Context, group, job string, history jobs.History, batch int) (int, error) {
	if history.Keep < 0 || history.For < 0 {
		return 0, fmt.Errorf("mysqlstore: history of job %q: keep %d for %v: must not be negative", job, history.Keep, history.For)
	}
	if history.Keep == 0 && history.For == 0 {
		return 0, nil
	}
	if batch <= 0 {
		batch = defaultBatch
	}
	deleted := 0
	err := l.do(ctx, mysqlconn.Unfenced, "prune", func(ctx context.Context, c *conn) error {
		keys, err := l.prunable(ctx, c, group, job, history, batch-deleted)
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(keys, defaultBatch) {
			n, err := c.Changed(ctx, l.sql.prune.Render(chunk, group, job))
			deleted += n
			if mysqlerr.Number(err) == mysqlerr.CommandDenied {
				return fmt.Errorf("%w: %w: grant DELETE on %s to prune the history, or prune as a user with that privilege", lease.ErrSetup, err, l.table)
			}
			if err != nil {
				return err
			}
		}
		if len(keys) == 0 {
			return nil
		}
		return l.pruneAttempts(ctx, c, group, job, keys[len(keys)-1][0])
	})
	return deleted, err
}

// pruneAttempts deletes the attempts up to a tick whose run is gone.
func (l *ledger) pruneAttempts(ctx context.Context, c *conn, group, job string, last any) error {
	for {
		orphans, err := l.orphans(ctx, c, group, job, last)
		if err != nil || len(orphans) == 0 {
			return err
		}
		if err := c.Exec(ctx, l.sql.pruneAttempts.Render(orphans, group, job)); err != nil || len(orphans) < defaultBatch {
			return err
		}
	}
}

func (l *ledger) orphans(ctx context.Context, c *conn, group, job string, last any) (orphans sqltext.Values, err error) {
	rows, err := c.Query(ctx, l.sql.orphans.Render(group, job, last, defaultBatch))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var tick, claimed int64
		var trigger uint64
		var attempt int
		if err := rows.Scan(&tick, &trigger, &attempt, &claimed); err != nil {
			return nil, err
		}
		orphans = append(orphans, sqltext.Row{tick, trigger, attempt, claimed})
	}
	return orphans, rows.Err()
}

// prunable returns the keys of the oldest runs that need not be kept.
func (l *ledger) prunable(ctx context.Context, c *conn, group, job string, history jobs.History, batch int) (sqltext.Values, error) {
	var (
		now         int64
		newest      sql.NullInt64
		keptTick    = longAgo
		keptTrigger uint64
	)
	if err := c.QueryRow(ctx, l.sql.bounds.Render(group, job)).Scan(&now, &newest); err != nil {
		return nil, err
	}
	if !newest.Valid {
		newest.Int64 = longAgo
	}
	if history.Keep > 0 {
		err := c.QueryRow(ctx, l.sql.keptFrom.Render(group, job, history.Keep)).Scan(&keptTick, &keptTrigger)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
	}
	last, age := keptTick, history.For.Microseconds()
	if history.For > 0 {
		// A run ends after its tick, so that those which ended before then are
		// at the beginning of the key.
		last = max(last, now-age)
	}
	rows, err := c.Query(ctx, l.sql.prunable.Render(group, job, last, newest.Int64,
		keptTick, keptTick, keptTrigger, age, age, batch))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var keys sqltext.Values
	for rows.Next() {
		var tick int64
		var trigger uint64
		if err := rows.Scan(&tick, &trigger); err != nil {
			return nil, err
		}
		keys = append(keys, sqltext.Row{tick, trigger})
	}
	return keys, rows.Err()
}
