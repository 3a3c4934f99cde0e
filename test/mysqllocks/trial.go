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
)

// limit bounds each step of setting up and tearing down.
const limit = time.Minute

// trial is one way in one scenario, in a schema of its own.
type trial struct {
	kind   kind
	config *mysql.Config // names the schema
	key    string        // a lock name that no other trial uses on this server
	admin  *sql.DB       // not the way's: looks, and does harm
	ends   []func(context.Context) error
}

// work is what the lock protects. A write of a holder with a token is refused
// once a later token has written.
const work = `
CREATE TABLE work (
	id     INT             NOT NULL PRIMARY KEY,
	token  BIGINT UNSIGNED NOT NULL DEFAULT 0,
	writes INT             NOT NULL DEFAULT 0
)`

// newTrial makes the schema. The caller calls end, whatever newTrial returned.
func newTrial(ctx context.Context, server *mysql.Config, k kind) (*trial, error) {
	name := "mysqllocks_" + strings.ToLower(rand.Text()[:16])
	t := &trial{kind: k, key: strings.ToLower(rand.Text()[:16]), config: server.Clone()}
	t.config.DBName = ""
	root, err := t.pool()
	if err != nil {
		return t, err
	}
	_, err = root.ExecContext(ctx, "CREATE DATABASE "+name)
	if err == nil || ctx.Err() != nil { // it may have been created nevertheless
		t.ends = append(t.ends, func(ctx context.Context) error {
			_, err := root.ExecContext(ctx, "DROP DATABASE IF EXISTS "+name)
			return err
		})
	}
	if err != nil {
		return t, fmt.Errorf("create a schema to try it in: %w", err)
	}
	t.config.DBName = name
	if t.admin, err = t.pool(); err != nil {
		return t, err
	}
	err = create(work, "INSERT INTO work (id) VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)")(ctx, t.admin)
	if err == nil {
		err = k.prepare(ctx, t.admin)
	}
	if err != nil {
		return t, fmt.Errorf("prepare %s: %w", k.name, err)
	}
	return t, nil
}

// end stops, closes and drops all that the trial has made, the last first.
func (t *trial) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	var errs []error
	for i := len(t.ends) - 1; i >= 0; i-- {
		errs = append(errs, t.ends[i](ctx))
	}
	t.ends = nil
	return errors.Join(errs...)
}

// change is a change of how one connects.
type change func(*mysql.Config)

func (t *trial) with(changes []change) *mysql.Config {
	config := t.config.Clone()
	for _, f := range changes {
		f(config)
	}
	return config
}

// set has each connection set a session variable.
func set(variable, value string) change {
	return func(c *mysql.Config) {
		if c.Params == nil {
			c.Params = map[string]string{}
		}
		c.Params[variable] = value
	}
}

// pool returns connections of their own, as another process would have.
func (t *trial) pool(changes ...change) (*sql.DB, error) {
	connector, err := mysql.NewConnector(t.with(changes))
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	t.ends = append(t.ends, func(context.Context) error { return db.Close() })
	return db, nil
}

// open returns the way on a pool of its own.
func (t *trial) open(lease time.Duration, changes ...change) (Way, error) {
	db, err := t.pool(changes...)
	if err != nil {
		return nil, err
	}
	return t.openOn(db, lease)
}

func (t *trial) openOn(db *sql.DB, lease time.Duration) (Way, error) {
	w, err := t.kind.open(db, lease)
	if c, ok := w.(closer); ok && err == nil {
		t.ends = append(t.ends, c.Close)
	}
	return w, err
}

// kill ends all connections to the schema, as a proxy, a restart or a timeout
// of the server does.
func (t *trial) kill(ctx context.Context) error {
	conn, err := t.admin.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var ids sql.NullString
	if err := dbserver.Listed(ctx, func() error {
		return conn.QueryRowContext(ctx, `SELECT GROUP_CONCAT(id) FROM information_schema.processlist
			WHERE db = DATABASE() AND id <> CONNECTION_ID()`).Scan(&ids)
	}); err != nil {
		return err
	}
	for id := range strings.SplitSeq(ids.String, ",") {
		if _, err := conn.ExecContext(ctx, "KILL "+id); err != nil && !isError(err, unknownThread) {
			return fmt.Errorf("kill connection %s: %w", id, err)
		}
	}
	return nil
}

// act writes to what the lock protects, as its holder would, and reports
// whether the write was accepted.
func act(ctx context.Context, db *sql.DB, held Held) (bool, error) {
	select {
	case <-held.Context().Done(): // it knows that it is no longer the holder
		return false, nil
	default:
	}
	if held.Token() == 0 {
		return one(db.ExecContext(ctx, "UPDATE work SET writes = writes + 1 WHERE id = 0"))
	}
	return one(db.ExecContext(ctx, "UPDATE work SET writes = writes + 1, token = ? WHERE id = 0 AND token <= ?",
		held.Token(), held.Token()))
}

// attempt is what came of trying to get a lock for a while.
type attempt struct {
	held Held          // nil: it was taken all the time
	took time.Duration // until it was got
	why  error         // what the last look saw
}

// within tries to get a lock for at most d.
func within(ctx context.Context, d time.Duration, lock func(context.Context) (Held, error)) (attempt, error) {
	begin := time.Now()
	soon, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	held, err := lock(soon)
	a := attempt{held, time.Since(begin), err}
	if err == nil || soon.Err() != nil && ctx.Err() == nil {
		return a, nil
	}
	return a, err
}

// wait returns after d, or the error of ctx.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// maintained runs f, and meanwhile again and again the task that comes with the
// way, if one does.
func maintained[T any](ctx context.Context, w Way, f func() (T, error)) (T, error) {
	m, ok := w.(maintainer)
	if !ok {
		return f()
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if _, err := m.Maintain(ctx); err != nil && ctx.Err() == nil {
				done <- fmt.Errorf("maintain: %w", err)
				return
			}
			_ = wait(ctx, pollEvery) // ends with ctx
		}
		done <- nil
	}()
	result, err := f()
	stop()
	return result, errors.Join(err, <-done)
}

// round makes a duration readable.
func round(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
