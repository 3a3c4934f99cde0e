package main

import (
	"context"
	"database/sql"
	"time"
)

// upsert is a lock with an end and an owner, taken over by one statement.
var upsert = kind{
	name: "upsert",
	prepare: create(`
CREATE TABLE owned_lock (
	name       VARCHAR(64) NOT NULL PRIMARY KEY,
	owner      VARCHAR(64) NOT NULL,
	expires_at DATETIME    NOT NULL
)`),
	open: func(db *sql.DB, lease time.Duration) (Way, error) {
		return upsertWay{db, seconds(lease)}, nil
	},
	table: "owned_lock",
}

type upsertWay struct {
	db    *sql.DB
	lease int64 // seconds
}

func (upsertWay) Name() string { return upsert.name }

func (w upsertWay) Lock(ctx context.Context, key string) (Held, error) {
	return poll(ctx, func() (Held, error) { return w.TryLock(ctx, key) })
}

func (w upsertWay) TryLock(ctx context.Context, key string) (Held, error) {
	owner := newOwner()
	result, err := w.db.ExecContext(ctx, `
INSERT INTO owned_lock (name, owner, expires_at) VALUES (?, ?, NOW() + INTERVAL ? SECOND)
ON DUPLICATE KEY UPDATE
	owner      = IF(expires_at < NOW(), VALUES(owner), owner),
	expires_at = IF(expires_at < NOW(), VALUES(expires_at), expires_at)`, key, owner, w.lease)
	if err != nil {
		return nil, err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return nil, err
	}
	// 1: inserted, 2: taken over, 0: unchanged, so another client holds it.
	if n == 0 {
		return nil, errTaken
	}
	return told{func(ctx context.Context) error {
		_, err := w.db.ExecContext(ctx, `
DELETE FROM owned_lock WHERE name = ? AND owner = ?`, key, owner)
		return err
	}}, nil
}
