package main

import (
	"context"
	"database/sql"
	"time"
)

// insertDelete is a lock whose row exists while the lock is held.
var insertDelete = kind{
	name: "insert-delete",
	prepare: create(`
CREATE TABLE app_lock (
	name      VARCHAR(64) NOT NULL PRIMARY KEY,
	locked_at TIMESTAMP   NOT NULL DEFAULT CURRENT_TIMESTAMP
)`),
	open:  func(db *sql.DB, _ time.Duration) (Way, error) { return insertDeleteWay{db}, nil },
	table: "app_lock",
}

type insertDeleteWay struct{ db *sql.DB }

func (insertDeleteWay) Name() string { return insertDelete.name }

func (w insertDeleteWay) Lock(ctx context.Context, key string) (Held, error) {
	return poll(ctx, func() (Held, error) { return w.TryLock(ctx, key) })
}

func (w insertDeleteWay) TryLock(ctx context.Context, key string) (Held, error) {
	_, err := w.db.ExecContext(ctx, `
INSERT INTO app_lock (name) VALUES (?)`, key)
	if isError(err, duplicateEntry) {
		return nil, errTaken
	}
	if err != nil {
		return nil, err
	}
	return told{func(ctx context.Context) error {
		// Within the transaction of the caller, if it has one: what was done and
		// the end of the lock become visible together.
		_, err := executor(ctx, w.db).ExecContext(ctx, `
DELETE FROM app_lock WHERE name = ?`, key)
		return err
	}}, nil
}

// execer is what *sql.DB and *sql.Tx have in common here.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

type txKey struct{}

// withTx hands a transaction to the data layer, as services do that begin it
// around a whole request.
func withTx(ctx context.Context, tx *sql.Tx) context.Context {
	return context.WithValue(ctx, txKey{}, tx)
}

// executor returns the transaction of ctx, or else db.
func executor(ctx context.Context, db *sql.DB) execer {
	if tx, ok := ctx.Value(txKey{}).(*sql.Tx); ok {
		return tx
	}
	return db
}
