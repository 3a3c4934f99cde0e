//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// countTable is where fenced transactions count. It is in the workers' schema.
const countTable = "soak_count"

// database is a schema for the workers of one run, and a connection that is not among theirs.
type database struct {
	kind, version string
	schema        string
	dsn           string  // names the schema
	db            *sql.DB // names none
}

// newDatabase creates a schema with the workers' tables on the server of the DSN.
func newDatabase(ctx context.Context, dsn string) (_ *database, err error) {
	d := &database{schema: "cronlease_soak_" + strings.ToLower(rand.Text()[:8])}
	if d.kind, d.version, err = dbserver.Ask(ctx, dsn); err != nil {
		return nil, err
	}
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("read the DSN: %w", err)
	}
	config.DBName = ""
	connector, err := mysql.NewConnector(config.Clone())
	if err != nil {
		return nil, fmt.Errorf("read the DSN: %w", err)
	}
	config.DBName = d.schema
	d.dsn = config.FormatDSN()
	d.db = sql.OpenDB(connector)
	d.db.SetMaxOpenConns(1)
	if err := d.create(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("create a schema: %w", err), d.drop())
	}
	return d, nil
}

func (d *database) create(ctx context.Context) (err error) {
	if _, err := d.db.ExecContext(ctx, "CREATE DATABASE "+d.schema); err != nil {
		return err
	}
	store, err := mysqlstore.Open(d.dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := store.Migrate(ctx); err != nil {
		return err
	}
	_, err = d.db.ExecContext(ctx, "CREATE TABLE "+d.schema+"."+countTable+" (name VARBINARY(128) PRIMARY KEY, times BIGINT NOT NULL)")
	return err
}

// drop removes the schema, also after the end of the run's context, and closes the connection.
func (d *database) drop() error {
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	_, err := d.db.ExecContext(ctx, "DROP DATABASE IF EXISTS "+d.schema)
	return errors.Join(err, d.db.Close())
}

// connections counts the workers' connections, as the server sees them.
func (d *database) connections(ctx context.Context) (int, error) {
	return dbserver.Sessions(ctx, d.db, "db = ?", d.schema)
}

// rows counts the rows of one of the workers' tables.
func (d *database) rows(ctx context.Context, table string) (int, error) {
	return d.number(ctx, "SELECT COUNT(*) FROM "+d.schema+"."+table)
}

// written is how often the fenced transactions of jobs have counted.
func (d *database) written(ctx context.Context) (int, error) {
	return d.number(ctx, "SELECT COALESCE(SUM(times), 0) FROM "+d.schema+"."+countTable+" WHERE name LIKE 'fence-%'")
}

func (d *database) number(ctx context.Context, query string, args ...any) (n int, err error) {
	err = d.db.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}

// leftConnections counts the workers' connections once the workers have ended. A server takes a moment to notice.
func (d *database) leftConnections(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		n, err := d.connections(ctx)
		if n == 0 || err != nil {
			return n, err
		}
		if !pause(ctx, 100*time.Millisecond) {
			return n, nil
		}
	}
}
