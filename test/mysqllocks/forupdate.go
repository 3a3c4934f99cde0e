package main

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// forUpdate is the lock of a row, held by a transaction around the work.
var forUpdate = kind{
	name: "for-update",
	prepare: create(`
CREATE TABLE row_lock (
	name VARCHAR(64) NOT NULL PRIMARY KEY
)`),
	open:    func(db *sql.DB, _ time.Duration) (Way, error) { return forUpdateWay{db}, nil },
	table:   "row_lock",
	session: true,
}

type forUpdateWay struct{ db *sql.DB }

func (forUpdateWay) Name() string { return forUpdate.name }

// Lock tries again when the server has had it wait for innodb_lock_wait_timeout.
func (w forUpdateWay) Lock(ctx context.Context, key string) (Held, error) {
	if _, err := w.db.ExecContext(ctx, `
INSERT IGNORE INTO row_lock (name) VALUES (?)`, key); err != nil && !isError(err, lockWaitTimeout) {
		return nil, err
	}
	var last error
	for {
		held, err := w.lockOnce(ctx, key)
		if err == nil {
			return held, nil
		}
		if !isError(err, lockWaitTimeout) {
			return nil, errors.Join(last, err)
		}
		last = err
		if ctx.Err() != nil {
			return nil, errors.Join(last, ctx.Err())
		}
	}
}

func (w forUpdateWay) lockOnce(ctx context.Context, key string) (_ Held, err error) {
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	// The transaction lives for as long as the work, and not as this ctx.
	tx, err := conn.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	var name string
	if err := tx.QueryRowContext(ctx, `
SELECT name FROM row_lock WHERE name = ? FOR UPDATE`, key).Scan(&name); err != nil {
		_ = tx.Rollback() // of a transaction that has done nothing
		_ = conn.Close()
		return nil, err
	}
	return told{func(context.Context) error {
		return errors.Join(tx.Commit(), conn.Close())
	}}, nil
}
