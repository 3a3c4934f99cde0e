package main

import (
	"context"
	"database/sql"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// database is a store with its tables.
type database interface {
	store.Jobs
	Migrate(ctx context.Context) error
	MigrateSteps(ctx context.Context, made func(step string)) (level int, err error)
	DB() *sql.DB
	Close() error
}

// openDatabase opens the store of the database. It dials nothing.
func openDatabase(where config.Database) (database, error) {
	if where.Kind() == config.SQLite {
		return sqlitestore.Open(where.Open())
	}
	return mysqlstore.Open(where.Open())
}
