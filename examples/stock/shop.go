package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// Shop is one replica.
type Shop struct {
	store *mysqlstore.Store
	locks *locks.Client
}

// Open connects a replica to the database.
func Open(ctx context.Context, dsn string) (*Shop, error) {
	store, err := mysqlstore.Open(dsn)
	if err != nil {
		return nil, err
	}
	if err := store.Migrate(ctx); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	client, err := locks.New(store, locks.WithLabel("shop"))
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &Shop{store, client}, nil
}

// Close gives everything back.
func (s *Shop) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(s.locks.Close(ctx), s.store.Close())
}

// Order answers an order, once: with goods, or with the regret that there are
// not enough. The lock lets one replica at a time decide about an item; the
// fence keeps a replica that lost the lock, without having noticed yet, from
// storing what it decided. So what is read here may be relied on there.
func (s *Shop) Order(ctx context.Context, number int, item string, quantity int) error {
	return s.locks.Do(ctx, "stock/"+item, func(ctx context.Context) error {
		return fence.Do(ctx, s.store.DB(), func(tx *sql.Tx) error {
			return decide(ctx, tx, number, item, quantity)
		})
	})
}

// decide reads, thinks and writes, as services do.
func decide(ctx context.Context, tx *sql.Tx, number int, item string, quantity int) error {
	var left int
	if err := tx.QueryRowContext(ctx, `SELECT left_over FROM example_stock WHERE item = ?`, item).Scan(&left); err != nil {
		return err
	}
	accepted := left >= quantity
	if accepted {
		if _, err := tx.ExecContext(ctx, `UPDATE example_stock SET left_over = ? WHERE item = ?`, left-quantity, item); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO example_order VALUES (?, ?, ?, ?)`, number, item, quantity, accepted)
	return err
}
