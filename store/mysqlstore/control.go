package mysqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// Trigger implements [jobs.Control]. After an error it may have asked for a run
// or not; [Store.Runs] tells.
func (l *ledger) Trigger(ctx context.Context, group, job string, r jobs.Request) (jobs.Key, error) {
	if err := ledgerrows.CheckRequest("mysqlstore", job, r); err != nil {
		return jobs.Key{}, err
	}
	key := jobs.Key{Job: job, Tick: r.Tick, Trigger: r.Trigger}
	query, tick, args := l.sql.triggerOnce, sqltext.Raw("LAST_INSERT_ID("+micros+")"), any(sqltext.Raw("NULL"))
	if key.Trigger == 0 {
		query, key.Trigger = l.sql.trigger, 1+uint64(rand.Uint32N(1<<32-1))
	}
	if !r.Tick.IsZero() {
		tick = sqltext.Raw(strconv.FormatInt(r.Tick.UnixMicro(), 10))
	}
	if r.Args != nil {
		args = string(r.Args)
	}
	entry := ledgerrows.Entry(ctx, ledgerrows.ActionOf(r), jobs.Key{Job: job}, r.Note)
	var answer error
	trigger := func(ctx context.Context, c *conn, entry *jobs.AuditEntry) error {
		// For an insert that finds its row, some connections count that row.
		if r.Trigger != 0 {
			n, err := c.Count(ctx, l.sql.isRun.Render(group, job, tick, key.Trigger))
			if err != nil {
				return err
			}
			if n > 0 {
				entry.Result = jobs.Unchanged
			}
		}
		if entry.Result != jobs.Unchanged {
			n, err := c.Count(ctx, l.sql.countOpen.Render(group, job))
			if err != nil {
				return err
			}
			if n >= jobs.MaxOpen {
				return ledgerrows.ManyOpen(group, job)
			}
		}
		done, err := c.Change(ctx, query.Render(tick, key.Trigger, args, r.Backfill, group, job))
		if err != nil {
			return err
		}
		if r.Tick.IsZero() {
			key.Tick = time.UnixMicro(done.LastID).UTC()
		}
		if done.Rows > 0 {
			entry.Key = ledgerrows.Plain(key)
			return nil
		}
		// There is no job, or the run that was asked for is there.
		n, err := c.Count(ctx, l.sql.isJob.Render(group, job))
		if err == nil && (n == 0 || job == "" || r.Trigger == 0) {
			return noJob(group, job)
		}
		entry.Key, entry.Result = ledgerrows.Plain(key), jobs.Unchanged
		return err
	}
	err := l.do(ctx, mysqlconn.Write, "trigger", func(ctx context.Context, c *conn) error {
		_, err := committed(ctx, c, func() (done mysqlconn.Change, err error) {
			entry := entry
			entry.Result = jobs.Done
			switch answer = trigger(ctx, c, &entry); {
			case ledgerrows.Refuses(answer):
				entry.Result = jobs.Refused
			case answer != nil:
				return done, answer
			}
			return done, c.Exec(ctx, l.note(group, entry))
		})
		return err
	})
	if err := cmp.Or(err, answer); err != nil {
		return jobs.Key{}, err
	}
	l.wake(ctx, mysqlconn.Ledger, group)
	return ledgerrows.Plain(key), nil
}

// Args implements [jobs.Control].
func (l *ledger) Args(ctx context.Context, group string, key jobs.Key) (json.RawMessage, error) {
	if ledgerrows.CheckKey("mysqlstore", key) != nil {
		return nil, ledgerrows.NoRun(group, key) // the table cannot have it
	}
	var args []byte
	found := false
	err := l.do(ctx, mysqlconn.Read, "read arguments", func(ctx context.Context, c *conn) error {
		err := c.QueryRow(ctx, l.sql.args.Render(group, key.Job, key.Tick.UnixMicro(), key.Trigger)).Scan(&args)
		if found = err == nil; errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, ledgerrows.NoRun(group, key)
	}
	return args, nil
}

func noJob(group, job string) error {
	return fmt.Errorf("%w: %q in group %q", jobs.ErrNoJob, job, group)
}
