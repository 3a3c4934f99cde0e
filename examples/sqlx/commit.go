package main

import (
	"context"
	"database/sql"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/jobs"
)

// open returns a pool whose transactions do not go on once the server has rolled
// them back.
func open(dsn string) (*sqlx.DB, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sqlx.NewDb(sql.OpenDB(fence.Guard(connector)), "mysql"), nil
}

// Forget deletes the reminders of earlier terms, in a transaction that it begins
// itself.
func (d *Dunning) Forget(ctx context.Context, run jobs.Run) error {
	tx, err := d.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "DELETE FROM reminder WHERE token < ?", run.Token); err != nil {
		return err
	}
	return fence.Commit(ctx, tx.Tx)
}
