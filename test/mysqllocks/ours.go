package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// ours is package locks.
var ours = kind{
	name: "ours",
	prepare: func(ctx context.Context, db *sql.DB) error {
		store, err := mysqlstore.New(db)
		if err != nil {
			return err
		}
		return errors.Join(store.Migrate(ctx), store.Close())
	},
	open: func(db *sql.DB, ttl time.Duration) (Way, error) {
		store, err := mysqlstore.New(db)
		if err != nil {
			return nil, err
		}
		client, err := locks.New(store, locks.WithTiming(lease.Timing{TTL: ttl}))
		if err != nil {
			return nil, err
		}
		return &oursWay{store, client}, nil
	},
	table: "cronlease_lock", realTime: true, beside: true,
}

type oursWay struct {
	store  *mysqlstore.Store
	client *locks.Client
}

// Name implements [Way].
func (*oursWay) Name() string { return "ours" }

// Lock implements [Way].
func (w *oursWay) Lock(ctx context.Context, key string) (Held, error) {
	l, err := w.client.Mutex(key).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Close implements closer.
func (w *oursWay) Close(ctx context.Context) error {
	return errors.Join(w.client.Close(ctx), w.store.Close())
}
