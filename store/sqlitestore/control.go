package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Pause implements [jobs.Control]. A group may be paused before its first job is
// known.
func (s *Store) Pause(ctx context.Context, group, job string) error {
	if job == "" {
		return s.setPaused(ctx, jobs.ActionPause, group, job, s.runs.pauseGroup, group)
	}
	return s.setPaused(ctx, jobs.ActionPause, group, job, s.runs.pauseJob, group, job)
}

// Resume implements [jobs.Control].
func (s *Store) Resume(ctx context.Context, group, job string) error {
	if job == "" {
		return s.setPaused(ctx, jobs.ActionResume, group, job, s.runs.resumeGroup, group)
	}
	return s.setPaused(ctx, jobs.ActionResume, group, job, s.runs.resumeJob, group, job)
}

// ResumeSkipping implements [jobs.Control].
func (s *Store) ResumeSkipping(ctx context.Context, group, job string) error {
	if job == "" {
		return s.setPaused(ctx, jobs.ActionSkipping, group, job, s.runs.resumeGroupSkipping, group)
	}
	return s.setPaused(ctx, jobs.ActionSkipping, group, job, s.runs.resumeJobSkipping, group, job)
}

// ask does what changes something for the leader, and records it, both as one
// transaction. Refusals are recorded, too.
func (s *Store) ask(ctx context.Context, action, group string, entry jobs.AuditEntry, do func(ctx context.Context, tx *sql.Tx, entry *jobs.AuditEntry) error) error {
	var answer error
	err := s.write(ctx, action, func(ctx context.Context, c *sql.Conn) error {
		return inTx(ctx, c, func(tx *sql.Tx) error {
			entry.Result = jobs.Done
			switch answer = do(ctx, tx, &entry); {
			case ledgerrows.Refuses(answer):
				entry.Result = jobs.Refused
			case answer != nil:
				return answer
			}
			return s.record(ctx, tx, group, entry)
		})
	})
	if err != nil {
		return err
	}
	return answer
}

// setPaused runs a statement that changes nothing when it is so already.
func (s *Store) setPaused(ctx context.Context, action jobs.Action, group, job, statement string, args ...any) error {
	if err := store.CheckName("group", group); err != nil {
		return err
	}
	entry := ledgerrows.Entry(ctx, action, jobs.Key{Job: job}, "")
	return s.ask(ctx, string(action), group, entry, func(ctx context.Context, tx *sql.Tx, entry *jobs.AuditEntry) error {
		n, err := changed(ctx, tx, statement, args...)
		if err != nil || n > 0 {
			return err
		}
		entry.Result = jobs.Unchanged
		if job == "" {
			return nil
		}
		var known bool
		if err := tx.QueryRowContext(ctx, s.runs.isJob, group, job).Scan(&known); err != nil {
			return err
		}
		if !known {
			return noJob(group, job)
		}
		return nil
	})
}

// writeRow returns how many rows matched.
func (s *Store) writeRow(ctx context.Context, action, statement string, args ...any) (n int64, err error) {
	err = s.write(ctx, action, func(ctx context.Context, c *sql.Conn) error {
		n, err = exec(ctx, c, statement, args...)
		return err
	})
	return n, err
}

// Trigger implements [jobs.Control]. After an error it may have asked for a run
// or not; [Store.Runs] tells.
func (s *Store) Trigger(ctx context.Context, group, job string, r jobs.Request) (jobs.Key, error) {
	key := jobs.Key{Job: job, Tick: r.Tick, Trigger: r.Trigger}
	if err := ledgerrows.CheckRequest("sqlitestore", job, r); err != nil {
		return jobs.Key{}, err
	}
	if err := checkTrigger(key); err != nil {
		return jobs.Key{}, err
	}
	var tick, args any // NULL
	if !r.Tick.IsZero() {
		tick = r.Tick.UnixMicro()
	}
	if r.Args != nil {
		args = []byte(r.Args)
	}
	entry := ledgerrows.Entry(ctx, ledgerrows.ActionOf(r), jobs.Key{Job: job}, r.Note)
	err := s.ask(ctx, "trigger", group, entry, func(ctx context.Context, tx *sql.Tx, entry *jobs.AuditEntry) error {
		done, err := s.insertRequest(ctx, tx, &key, group, job, tick, int64(r.Trigger), args, r.Backfill)
		if err != nil {
			return err
		}
		if !done {
			// There is no job, it has too many runs, or the one that was asked for is there.
			var known bool
			if err := tx.QueryRowContext(ctx, s.runs.isJob, group, job).Scan(&known); err != nil {
				return err
			}
			if !known || job == "" {
				return noJob(group, job)
			}
			err := tx.QueryRowContext(ctx, s.runs.args, group, job, tick, int64(r.Trigger)).Scan(new([]byte))
			if r.Trigger == 0 || errors.Is(err, sql.ErrNoRows) {
				return ledgerrows.ManyOpen(group, job)
			} else if err != nil {
				return err
			}
			entry.Result = jobs.Unchanged
		}
		entry.Key = ledgerrows.Plain(key)
		return nil
	})
	if err != nil {
		return jobs.Key{}, err
	}
	return ledgerrows.Plain(key), nil
}

// insertRequest reports whether it has inserted the row, and its key.
func (s *Store) insertRequest(ctx context.Context, c querier, key *jobs.Key, args ...any) (done bool, err error) {
	rows, err := c.QueryContext(ctx, s.runs.trigger, args...)
	if err != nil {
		return false, err
	}
	// The statement has taken effect when it has been read to its end.
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var tick int64
		if err := rows.Scan(&tick, &key.Trigger); err != nil {
			return false, err
		}
		key.Tick, done = instant(tick), true
	}
	return done, rows.Err()
}

// Args implements [jobs.Control].
func (s *Store) Args(ctx context.Context, group string, key jobs.Key) (json.RawMessage, error) {
	if ledgerrows.CheckKey("sqlitestore", key) != nil || checkTrigger(key) != nil {
		return nil, noRun(group, key) // the table cannot have it
	}
	var args []byte
	err := s.do(ctx, "read arguments", func(ctx context.Context, c *sql.Conn, _ opened) error {
		err := c.QueryRowContext(ctx, s.runs.args, group, key.Job, key.Tick.UnixMicro(), int64(key.Trigger)).Scan(&args)
		if errors.Is(err, sql.ErrNoRows) {
			return noRun(group, key)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return args, nil
}

// Cancel implements [jobs.Control].
func (s *Store) Cancel(ctx context.Context, group string, key jobs.Key) error {
	if ledgerrows.CheckKey("sqlitestore", key) != nil || checkTrigger(key) != nil {
		return noRun(group, key) // the table cannot have it
	}
	entry := ledgerrows.Entry(ctx, jobs.ActionCancel, key, "")
	return s.ask(ctx, "cancel", group, entry, func(ctx context.Context, tx *sql.Tx, entry *jobs.AuditEntry) error {
		args := []any{group, key.Job, key.Tick.UnixMicro(), int64(key.Trigger)}
		n, err := changed(ctx, tx, s.runs.cancel, args...)
		if err != nil || n > 0 {
			return err
		}
		// There is none, or its end was asked for before, which is no change.
		entry.Result = jobs.Unchanged
		var open bool
		if err := tx.QueryRowContext(ctx, s.runs.isOpen, args...).Scan(&open); err != nil {
			return err
		}
		if !open {
			return noRun(group, key)
		}
		return nil
	})
}

func noJob(group, job string) error {
	return fmt.Errorf("%w: %q in group %q", jobs.ErrNoJob, job, group)
}

func noRun(group string, key jobs.Key) error {
	return fmt.Errorf("%w: tick %s of job %q in group %q", jobs.ErrNoRun, key.Tick.UTC().Format(time.RFC3339Nano), key.Job, group)
}
