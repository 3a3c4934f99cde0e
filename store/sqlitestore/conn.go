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
	dc, err := sqliteDriver.Open(s.uri(c.create))
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
	return &conn{sqliteConn: one, path: s.path, opened: s.opened(after)}, nil
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
func (s *Store) uri(create bool) string {
	mode := "rw"
	if create {
		mode = "rwc"
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
