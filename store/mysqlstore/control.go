package mysqlstore

import (
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
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// ask does what changes something for the leader, records it, both as one transaction,
// and wakes the leader. Refusals are recorded, too.
func (l *ledger) ask(ctx context.Context, op, group string, entry jobs.AuditEntry, do func(context.Context, *conn, *jobs.AuditEntry) error) error {
	var answer error
	err := l.do(ctx, mysqlconn.Write, op, func(ctx context.Context, c *conn) error {
		transaction := together
		if entry.Action == jobs.ActionTrigger || entry.Action == jobs.ActionBackfill {
			transaction = committed // which saves messages
		}
		_, err := transaction(ctx, c, func() (done mysqlconn.Change, err error) {
			entry := entry
			entry.Result = jobs.Done
			switch answer = do(ctx, c, &entry); {
			case ledgerrows.Refuses(answer):
				entry.Result = jobs.Refused
			case answer != nil:
				return done, answer
			}
			return done, c.Exec(ctx, l.note(group, entry))
		})
		return err
	})
	if err != nil {
		return err
	}
	if answer == nil {
		l.wake(ctx, mysqlconn.Ledger, group)
	}
	return answer
}

// Pause implements [jobs.Control]. A group may be paused before its first job
// is known.
func (l *ledger) Pause(ctx context.Context, group, job string) error {
	if job == "" {
		return l.setPaused(ctx, jobs.ActionPause, group, job, l.sql.pauseGroup.Render(group))
	}
	return l.setPaused(ctx, jobs.ActionPause, group, job, l.sql.pauseJob.Render(group, job))
}

// Resume implements [jobs.Control].
func (l *ledger) Resume(ctx context.Context, group, job string) error {
	if job == "" {
		return l.setPaused(ctx, jobs.ActionResume, group, job, l.sql.resumeGroup.Render(group))
	}
	return l.setPaused(ctx, jobs.ActionResume, group, job, l.sql.resumeJob.Render(group, job))
}

// ResumeSkipping implements [jobs.Control].
func (l *ledger) ResumeSkipping(ctx context.Context, group, job string) error {
	if job == "" {
		return l.setPaused(ctx, jobs.ActionSkipping, group, job, l.sql.resumeGroupSkipping.Render(group))
	}
	return l.setPaused(ctx, jobs.ActionSkipping, group, job, l.sql.resumeJobSkipping.Render(group, job))
}

// setPaused runs a statement that changes nothing when it is so already.
func (l *ledger) setPaused(ctx context.Context, action jobs.Action, group, job, statement string) error {
	if err := store.CheckName("group", group); err != nil {
		return err
	}
	entry := ledgerrows.Entry(ctx, action, jobs.Key{Job: job}, "")
	return l.ask(ctx, string(action), group, entry, func(ctx context.Context, c *conn, entry *jobs.AuditEntry) error {
		// For an insert that finds its row, some connections count that row.
		if job == "" && action == jobs.ActionPause {
			n, err := c.Count(ctx, l.sql.isPaused.Render(group))
			if err != nil {
				return err
			}
			if n > 0 {
				entry.Result = jobs.Unchanged
			}
		}
		n, err := c.Changed(ctx, statement)
		if err != nil || n > 0 {
			return err
		}
		entry.Result = jobs.Unchanged
		if job == "" {
			return nil
		}
		n, err = c.Count(ctx, l.sql.isJob.Render(group, job))
		if err == nil && n == 0 {
			return noJob(group, job)
		}
		return err
	})
}

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
	err := l.ask(ctx, "trigger", group, entry, func(ctx context.Context, c *conn, entry *jobs.AuditEntry) error {
		if r.Trigger != 0 { // as for setPaused
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
	})
	if err != nil {
		return jobs.Key{}, err
	}
	return ledgerrows.Plain(key), nil
}

// Args implements [jobs.Control].
func (l *ledger) Args(ctx context.Context, group string, key jobs.Key) (json.RawMessage, error) {
	if ledgerrows.CheckKey("mysqlstore", key) != nil {
		return nil, noRun(group, key) // the table cannot have it
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
		return nil, noRun(group, key)
	}
	return args, nil
}

// Cancel implements [jobs.Control].
func (l *ledger) Cancel(ctx context.Context, group string, key jobs.Key) error {
	if ledgerrows.CheckKey("mysqlstore", key) != nil {
		return noRun(group, key) // the table cannot have it
	}
	tick := key.Tick.UnixMicro()
	entry := ledgerrows.Entry(ctx, jobs.ActionCancel, key, "")
	return l.ask(ctx, "cancel", group, entry, func(ctx context.Context, c *conn, entry *jobs.AuditEntry) error {
		n, err := c.Changed(ctx, l.sql.cancel.Render(group, key.Job, tick, key.Trigger))
		if err != nil || n > 0 {
			return err
		}
		// There is none, or its end was asked for before, which is no change.
		entry.Result = jobs.Unchanged
		n, err = c.Count(ctx, l.sql.isOpen.Render(group, key.Job, tick, key.Trigger))
		if err == nil && n == 0 {
			return noRun(group, key)
		}
		return err
	})
}

func noJob(group, job string) error {
	return fmt.Errorf("%w: %q in group %q", jobs.ErrNoJob, job, group)
}

func noRun(group string, key jobs.Key) error {
	return fmt.Errorf("%w: tick %s of job %q in group %q", jobs.ErrNoRun, key.Tick.UTC().Format(time.RFC3339Nano), key.Job, group)
}
