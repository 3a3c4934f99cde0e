package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// Checkout is one replica.
type Checkout struct {
	store *mysqlstore.Store
	locks *locks.Client
	bank  *Bank
}

// Open connects a replica to the database and the bank.
func Open(ctx context.Context, dsn string, bank *Bank) (*Checkout, error) {
	store, err := mysqlstore.Open(dsn)
	if err != nil {
		return nil, err
	}
	if err := store.Migrate(ctx); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	client, err := locks.New(store, locks.WithLabel("checkout"))
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &Checkout{store, client, bank}, nil
}

// Close gives everything back.
func (c *Checkout) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(c.locks.Close(ctx), c.store.Close())
}

// Pay takes the payment for an order and returns its receipt; of an order that
// was paid for, the receipt that it has. While one replica pays, another that
// gets the same order waits, and then finds it paid for.
//
// The lock alone cannot keep a replica from charging that was paused before it
// called the bank. So the intention is stored before the call, under the key
// that the bank knows the charge by: the next holder of the lock repeats the call
// with that key, and the bank does nothing twice.
func (c *Checkout) Pay(ctx context.Context, order, cents int) (receipt string, err error) {
	err = c.locks.Do(ctx, fmt.Sprint("payment/", order), func(ctx context.Context) error {
		if receipt, err = c.intend(ctx, order, cents); receipt != "" || err != nil {
			return err
		}
		if receipt, err = c.bank.Charge(ctx, fmt.Sprint("order-", order), cents); err != nil {
			return err
		}
		return fence.Do(ctx, c.store.DB(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE example_payment SET receipt = ? WHERE order_id = ?`, receipt, order)
			return err
		})
	})
	return receipt, err
}

// intend stores that the order is about to be paid for, and returns the receipt
// if it has been.
func (c *Checkout) intend(ctx context.Context, order, cents int) (string, error) {
	var receipt sql.NullString
	err := fence.Do(ctx, c.store.DB(), func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `SELECT receipt FROM example_payment WHERE order_id = ?`, order).Scan(&receipt)
		if errors.Is(err, sql.ErrNoRows) {
			_, err = tx.ExecContext(ctx, `INSERT INTO example_payment (order_id, cents) VALUES (?, ?)`, order, cents)
		}
		return err
	})
	return receipt.String, err
}
