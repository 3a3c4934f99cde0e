package main

import (
	"context"
	"database/sql"
	"time"
)

// insertIgnore is a lock with an end, and a task that deletes what has ended.
var insertIgnore = kind{
	name: "insert-ignore",
	prepare: create(`
CREATE TABLE expiring_lock (
	name       VARCHAR(64) NOT NULL PRIMARY KEY,
	expires_at DATETIME    NOT NULL,
	KEY (expires_at)
)`),
	open: func(db *sql.DB, lease time.Duration) (Way, error) {
		return insertIgnoreWay{db, seconds(lease)}, nil
	},
	table: "expiring_lock",
}

type insertIgnoreWay struct {
	db    *sql.DB
	lease int64 // seconds
}

func (insertIgnoreWay) Name() string { return insertIgnore.name }

func (w insertIgnoreWay) Lock(ctx context.Context, key string) (Held, error) {
	return poll(ctx, func() (Held, error) { return w.TryLock(ctx, key) })
}

func (w insertIgnoreWay) TryLock(ctx context.Context, key string) (Held, error) {
	got, err := one(w.db.ExecContext(ctx, `
INSERT IGNORE INTO expiring_lock (name, expires_at) VALUES (?, NOW() + INTERVAL ? SECOND)`, key, w.lease))
	if err != nil {
		return nil, err
	}
	if !got {
		return nil, errTaken
	}
	return told{func(ctx context.Context) error {
		_, err := w.db.ExecContext(ctx, `
DELETE FROM expiring_lock WHERE name = ?`, key)
		return err
	}}, nil
}

// Maintain is the cleaning task.
func (w insertIgnoreWay) Maintain(ctx context.Context) (int64, error) {
	result, err := w.db.ExecContext(ctx, `
DELETE FROM expiring_lock WHERE expires_at < NOW()`)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
