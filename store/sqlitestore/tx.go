package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
)

// inTx runs f as one transaction, which an error undoes. No other write comes in between.
func inTx(ctx context.Context, c *sql.Conn, f func(tx *sql.Tx) error) error {
	return transact(ctx, c, nil, f)
}

// inReadTx runs f, which only reads, so that all is of one instant.
func inReadTx(ctx context.Context, c *sql.Conn, f func(tx *sql.Tx) error) error {
	return transact(ctx, c, &sql.TxOptions{ReadOnly: true}, f)
}

func transact(ctx context.Context, c *sql.Conn, options *sql.TxOptions, f func(tx *sql.Tx) error) (err error) {
	tx, err := c.BeginTx(ctx, options)
	if err != nil {
		return err
	}
	defer func() {
		if undo := tx.Rollback(); !errors.Is(undo, sql.ErrTxDone) {
			err = errors.Join(err, undo)
		}
	}()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// changed returns how many rows a statement of a transaction matched.
func changed(ctx context.Context, tx *sql.Tx, statement string, args ...any) (int64, error) {
	result, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
