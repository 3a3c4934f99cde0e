package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// getLock is a named lock of the server, on a connection that is kept for it.
var getLock = kind{
	name:    "get-lock",
	prepare: create(),
	open:    func(db *sql.DB, _ time.Duration) (Way, error) { return getLockWay{db}, nil },
	session: true,
}

type getLockWay struct{ db *sql.DB }

func (getLockWay) Name() string { return getLock.name }

func (w getLockWay) Lock(ctx context.Context, key string) (Held, error) {
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	for {
		got, err := ask(ctx, conn, `
SELECT GET_LOCK(?, 10)`, key)
		if err != nil {
			_ = conn.Close()
			return nil, err
		}
		if got {
			break
		}
	}
	return told{func(ctx context.Context) error {
		released, err := ask(ctx, conn, `
SELECT RELEASE_LOCK(?)`, key)
		if err == nil && !released {
			err = errNotMine
		}
		return errors.Join(err, conn.Close())
	}}, nil
}

// getLockPooled is the same on whatever connection the pool gives.
var getLockPooled = kind{
	name:    "get-lock-pooled",
	prepare: create(),
	open:    func(db *sql.DB, _ time.Duration) (Way, error) { return getLockPooledWay{db}, nil },
	session: true,
}

type getLockPooledWay struct{ db *sql.DB }

func (getLockPooledWay) Name() string { return getLockPooled.name }

func (w getLockPooledWay) Lock(ctx context.Context, key string) (Held, error) {
	return poll(ctx, func() (Held, error) {
		got, err := ask(ctx, w.db, `
SELECT GET_LOCK(?, 0)`, key)
		if err == nil && !got {
			err = errTaken
		}
		if err != nil {
			return nil, err
		}
		return told{func(ctx context.Context) error {
			_, err := ask(ctx, w.db, `
SELECT RELEASE_LOCK(?)`, key)
			return err // few look at the answer, which is 0 here
		}}, nil
	})
}

// errNotMine says that RELEASE_LOCK released nothing.
var errNotMine = errors.New("mysqllocks: this connection does not have the lock")

// asker is what *sql.DB and *sql.Conn have in common here.
type asker interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// ask returns whether the server answered 1.
func ask(ctx context.Context, on asker, query string, args ...any) (bool, error) {
	var answer sql.NullInt64
	if err := on.QueryRowContext(ctx, query, args...).Scan(&answer); err != nil {
		return false, fmt.Errorf("named lock: %w", err)
	}
	return answer.Int64 == 1, nil
}
