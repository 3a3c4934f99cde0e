package mysqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// wrapper is a connector, and a driver, around another one, as those are that
// trace statements.
type wrapper struct {
	driver.Connector
	hide bool // errors lose their type
}

func (w wrapper) Driver() driver.Driver { return tracingDriver{} }

func (w wrapper) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := w.Connector.Connect(ctx)
	if err != nil {
		return nil, w.wrap(err)
	}
	return &wrapped{c.(connection), w}, nil
}

func (w wrapper) wrap(err error) error {
	if w.hide && err != nil && !errors.Is(err, driver.ErrBadConn) {
		return errors.New(err.Error())
	}
	return err
}

type tracingDriver struct{}

func (tracingDriver) Open(string) (driver.Conn, error) { return nil, errors.ErrUnsupported }

// connection is what a connection of the driver can do.
type connection interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

type wrapped struct {
	connection
	by wrapper
}

func (c *wrapped) ExecContext(ctx context.Context, query string, values []driver.NamedValue) (driver.Result, error) {
	result, err := c.connection.ExecContext(ctx, query, values)
	return result, c.by.wrap(err)
}

func (c *wrapped) QueryContext(ctx context.Context, query string, values []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.connection.QueryContext(ctx, query, values)
	return rows, c.by.wrap(err)
}

func openWrapped(t *testing.T, db dbtest.Database, hide bool) *mysqlstore.Store {
	t.Helper()
	connector, err := mysql.NewConnector(db.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	pool := sql.OpenDB(wrapper{connector, hide})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return openOn(t, pool)
}

func TestWrappedDriver(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := openWrapped(t, db, false)
		if err := errors.Join(s.Migrate(soon(t)), s.Check(soon(t))); err != nil {
			t.Fatal(err)
		}
		token := take(t, s, "billing", "me")
		if n := renew(t, s, "billing", "me", token, 1, 2); n != 1 {
			t.Errorf("%d leases renewed", n)
		}
		signal := s.HandoverSignal("billing")
		if err := errors.Join(signal.Wait(soon(t)), signal.Close()); err != nil {
			t.Error(err)
		}
		hold := lease.Hold{Store: s, Name: "billing", Owner: "me", Token: token}
		exec(t, s.DB(), "CREATE TABLE note (n INT)")
		note := func(tx *sql.Tx) error {
			_, err := tx.ExecContext(soon(t), "INSERT INTO note VALUES (?)", 1)
			return err
		}
		if err := fence.Do(lease.WithHold(soon(t), hold), s.DB(), note); err != nil {
			t.Error(err)
		}
		hold.Token++
		if err := fence.Do(lease.WithHold(soon(t), hold), s.DB(), note); !errors.Is(err, fence.ErrFenced) {
			t.Errorf("under another token: %v", err)
		}
		if n := count(t, s.DB(), "SELECT COUNT(*) FROM note"); n != 1 {
			t.Errorf("%d notes", n)
		}
		// A connection that is lost is replaced.
		admin := db.Open(t)
		id := count(t, admin, "SELECT MAX(id) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()")
		exec(t, admin, fmt.Sprintf("KILL %d", id))
		for from := range uint64(3) {
			if n := renew(t, s, "billing", "me", token, from+2, from+3); n != 1 {
				t.Errorf("%d leases renewed", n)
			}
			read(t, s, "billing")
		}
	})
}

func TestDriverThatHidesErrors(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		err := openWrapped(t, db, true).Check(soon(t))
		if !keeper.Ends(err) || !strings.Contains(err.Error(), "tracingDriver") || !strings.Contains(err.Error(), "use Open") {
			t.Error(err)
		}
	})
}
