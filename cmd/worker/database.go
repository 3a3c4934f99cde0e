package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/cronlease/cronlease/cmd/worker/internal/config"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
	"github.com/cronlease/cronlease/store/postgresstore"
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
	case config.PostgreSQL:
		return postgresstore.Open(where.Open())
	case config.Redis:
		// The client would write failed connects to standard error by itself, which errors tell anyway.
		logging.Disable()
		return redisstore.Open(where.Open())
	case config.ZooKeeper:
		return zkstore.Open(where.Open())
	}
	return nil, fmt.Errorf("no store for a database of kind %q", where.Kind())
}

// stores are open databases, each opened once: its users share its connections.
type stores map[config.Database]database

func (s stores) of(where config.Database) (database, error) {
	if db, ok := s[where]; ok {
		return db, nil
	}
	db, err := openDatabase(where)
	if err == nil {
		s[where] = db
	}
	return db, err
}

func (s stores) close() error {
	var errs []error
	for _, db := range s {
		errs = append(errs, db.Close())
	}
	return errors.Join(errs...)
}

// killers is a pool over which statements are ended. It has a few connections, and they dial when they are needed.
func killers(db database) *sql.DB {
	p := pool(db)
	p.SetMaxOpenConns(2)
	p.SetConnMaxIdleTime(time.Second)
	return p
}

// pool is what runs the statements of jobs; nil: nothing does.
func pool(db database) *sql.DB {
	if s, ok := db.(withSQL); ok {
		return s.DB()
	}
	return nil
}
