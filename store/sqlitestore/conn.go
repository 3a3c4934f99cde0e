package sqlitestore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
)

// sqliteDriver is this package's own driver, so that its function is not registered
// for other users of the module, nor theirs here.
var sqliteDriver = newDriver()

func newDriver() *sqlite.Driver {
	d := &sqlite.Driver{}
	d.MustRegisterScalarFunction("cronlease_micros", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		return time.Now().UnixMicro(), nil
	})
	return d
}

// connector opens connections to the store's file.
type connector struct {
	store  *Store
	create bool // the file when it is not there
	own    bool // connections run what this package runs, and nothing else
}

// Driver implements [driver.Connector].
func (c *connector) Driver() driver.Driver { return sqliteDriver }

// Connect implements [driver.Connector].
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := c.store
	before, err := os.Stat(s.path)
	if err != nil && !c.create {
		return nil, err
	}
	if before == nil {
		if err := createPrivate(s.path); err != nil {
			return nil, err
		}
	}
	dc, err := sqliteDriver.Open(s.uri(c.create, c.own))
	if err != nil {
		return nil, err
	}
	one, ok := dc.(sqliteConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the driver's connection is a %T, without what is needed", dc), dc.Close())
	}
	after, err := os.Stat(s.path)
	if err == nil && before != nil && !os.SameFile(before, after) {
		err = errors.New("the file was replaced while it was opened")
	}
	for _, setting := range settings {
		if err == nil {
			_, err = one.ExecContext(ctx, setting, nil)
		}
	}
	if err != nil {
		return nil, errors.Join(err, one.Close())
	}
	made := &conn{sqliteConn: one, path: s.path, opened: s.opened(after)}
	if c.own {
		made.prepared = map[string]statement{}
	}
	return made, nil
}

// createPrivate creates the file, empty, which SQLite takes for a new database,
// so that only its owner can read it: it holds what jobs have written. SQLite
// gives the files beside it the same mode. A file that is there keeps its own.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// settings of each connection. The wait for a lock ends with the statement's
// context; busy_timeout is what a statement without a deadline gets.
var settings = []string{
	"PRAGMA synchronous = FULL",
	"PRAGMA foreign_keys = ON",
	"PRAGMA busy_timeout = 600000",
}

// uri is the path as SQLite wants it, with special characters escaped. While a
// connection is opened, no context ends a wait for a lock, so the wait is short.
//
// Own transactions that write have the lock for that from their beginning, so that nothing comes in between what they
// read and what they write.
func (s *Store) uri(create, own bool) string {
	mode := "rw"
	if create {
		mode = "rwc"
	}
	if own {
		mode += "&_txlock=immediate"
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(s.path), RawQuery: "mode=" + mode + "&_pragma=busy_timeout(2000)&_error_rc=1"}
	return u.String()
}

// opened gives a file its session, a new one when it is not the last file.
func (s *Store) opened(file os.FileInfo) opened {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.file == nil || !os.SameFile(s.last.file, file) {
		s.last = opened{file, rand.Uint64()}
	}
	return s.last
}

// sqliteConn is what the driver's connections are.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// conn is a connection that is not used again once another file has the name.
type conn struct {
	sqliteConn
	opened
	path string
	// prepared are the statements that were run, by their texts, of which there are a few dozen: to prepare one takes
	// longer than to run it. None is run again before its rows are closed. Nil: statements are not kept.
	prepared map[string]statement
}

// statement is what the driver's statements are.
type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// ExecContext implements [driver.ExecerContext].
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.prepared == nil {
		return c.sqliteConn.ExecContext(ctx, query, args)
	}
	s, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args)
}

// QueryContext implements [driver.QueryerContext].
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.prepared == nil {
		return c.sqliteConn.QueryContext(ctx, query, args)
	}
	s, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args)
}

// statement prepares a statement, once.
func (c *conn) statement(ctx context.Context, query string) (statement, error) {
	if s, ok := c.prepared[query]; ok {
		return s, nil
	}
	ds, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	s, ok := ds.(statement)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the driver's statement is a %T, without what is needed", ds), ds.Close())
	}
	c.prepared[query] = s
	return s, nil
}

// Close implements [driver.Conn].
func (c *conn) Close() error {
	var errs []error
	for _, s := range c.prepared {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.sqliteConn.Close())...)
}

// ResetSession implements [driver.SessionResetter].
func (c *conn) ResetSession(ctx context.Context) error {
	if !c.current() {
		return driver.ErrBadConn
	}
	return c.sqliteConn.ResetSession(ctx)
}

// current reports whether the file still has the name.
func (c *conn) current() bool {
	now, err := os.Stat(c.path)
	return err == nil && os.SameFile(now, c.file)
}
