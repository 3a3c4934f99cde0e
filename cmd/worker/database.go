package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
	"github.com/cronlease/cronlease/store/redisstore"
	"github.com/cronlease/cronlease/store/sqlitestore"
	"github.com/cronlease/cronlease/store/zkstore"
)

// database is the store of a configuration. Some are more: [withTables] and [withSQL].
type database interface {
	store.Jobs
	Close() error
}

// withTables is a database whose tables have to be made.
type withTables interface {
	Migrate(ctx context.Context) error
	MigrateSteps(ctx context.Context, patience time.Duration, made func(step string), held func(error)) (level int, err error)
}

// withSQL is a database that runs the statements of jobs.
type withSQL interface{ DB() *sql.DB }

// openDatabase opens the store of the database. It dials nothing.
func openDatabase(where config.Database) (database, error) {
	switch where.Kind() {
	case config.SQLite:
		return sqlitestore.Open(where.Open())
	case config.MySQL:
		return mysqlstore.Open(where.Open())
	case config.Redis:
		// The client would write failed connects to standard error by itself, which errors tell anyway.
		logging.Disable()
		return redisstore.Open(where.Open())
	case config.ZooKeeper:
		return zkstore.Open(where.Open())
	}
	return nil, fmt.Errorf("no store for a database of kind %q", where.Kind())
}

// pool is what runs the statements of jobs; nil: nothing does.
func pool(db database) *sql.DB {
	if s, ok := db.(withSQL); ok {
		return s.DB()
	}
	return nil
}
