package main

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// counter is a lock for readers and writers: a row counts them, a log lists them,
// and a job repairs the row from the log.
var counter = kind{
	name: "counter",
	prepare: create(`
CREATE TABLE rw_lock (
	name    VARCHAR(64) NOT NULL PRIMARY KEY,
	readers INT         NOT NULL DEFAULT 0,
	writers INT         NOT NULL DEFAULT 0
)`, `
CREATE TABLE rw_lock_log (
	id    BIGINT      NOT NULL AUTO_INCREMENT PRIMARY KEY,
	name  VARCHAR(64) NOT NULL,
	mode  CHAR(1)     NOT NULL,
	since TIMESTAMP   NOT NULL DEFAULT CURRENT_TIMESTAMP,
	KEY (name)
)`),
	open: func(db *sql.DB, lease time.Duration) (Way, error) {
		return counterWay{db, seconds(lease)}, nil
	},
	table: "rw_lock",
}

type counterWay struct {
	db    *sql.DB
	limit int64 // seconds after which the job takes an entry of the log for dead
}

func (counterWay) Name() string { return counter.name }

// Lock is for a writer.
func (w counterWay) Lock(ctx context.Context, key string) (Held, error) {
	return poll(ctx, func() (Held, error) {
		return w.enter(ctx, key, "w", `
UPDATE rw_lock SET writers = 1 WHERE name = ? AND writers = 0 AND readers = 0`, `
UPDATE rw_lock SET writers = 0 WHERE name = ?`)
	})
}

// RLock is for a reader.
func (w counterWay) RLock(ctx context.Context, key string) (Held, error) {
	return poll(ctx, func() (Held, error) {
		return w.enter(ctx, key, "r", `
UPDATE rw_lock SET readers = readers + 1 WHERE name = ? AND writers = 0`, `
UPDATE rw_lock SET readers = readers - 1 WHERE name = ? AND readers > 0`)
	})
}

func (w counterWay) enter(ctx context.Context, key, mode, enter, leave string) (Held, error) {
	if _, err := w.db.ExecContext(ctx, `
INSERT IGNORE INTO rw_lock (name) VALUES (?)`, key); err != nil {
		return nil, err
	}
	var entry int64
	err := transact(ctx, w.db, func(tx *sql.Tx) error {
		got, err := one(tx.ExecContext(ctx, enter, key))
		if err == nil && !got {
			err = errTaken
		}
		if err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, `
INSERT INTO rw_lock_log (name, mode) VALUES (?, ?)`, key, mode)
		if err != nil {
			return err
		}
		entry, err = result.LastInsertId()
		return err
	})
	if err != nil {
		return nil, err
	}
	return told{func(ctx context.Context) error {
		return transact(ctx, w.db, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, leave, key); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `
DELETE FROM rw_lock_log WHERE id = ?`, entry)
			return err
		})
	}}, nil
}

// Maintain is the repair job.
func (w counterWay) Maintain(ctx context.Context) (freed int64, err error) {
	err = transact(ctx, w.db, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, `
DELETE FROM rw_lock_log WHERE since < NOW() - INTERVAL ? SECOND`, w.limit)
		if err != nil {
			return err
		}
		if freed, err = result.RowsAffected(); err != nil || freed == 0 {
			return err
		}
		_, err = tx.ExecContext(ctx, `
UPDATE rw_lock l SET
	readers = (SELECT COUNT(*) FROM rw_lock_log g WHERE g.name = l.name AND g.mode = 'r'),
	writers = (SELECT COUNT(*) FROM rw_lock_log g WHERE g.name = l.name AND g.mode = 'w')`)
		return err
	})
	return freed, err
}

// transact runs f in a transaction.
func transact(ctx context.Context, db *sql.DB, f func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		if end := tx.Rollback(); end != nil && !errors.Is(end, sql.ErrTxDone) {
			return errors.Join(err, end)
		}
		return err
	}
	return tx.Commit()
}
