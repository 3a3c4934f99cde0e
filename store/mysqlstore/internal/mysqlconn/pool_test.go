package mysqlconn_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
)

// A connection is kept after an answer and given up after anything else, and what
// does no harm is done again on a new one.
func TestDo(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		pool, err := mysqlconn.New(db.Open(t))
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		// numbers are those of the connections on which work that fails is done.
		numbers := func(access mysqlconn.Access, failure error) (all []uint64, err error) {
			err = pool.Do(t.Context(), mysqlconn.Heartbeats, access, "work", func(_ context.Context, c *mysqlconn.Conn) error {
				all = append(all, c.Number)
				return failure
			})
			return all, err
		}
		for _, c := range []struct {
			name        string
			access      mysqlconn.Access
			failure     error
			times       int
			kept, named bool
		}{
			{"nothing", mysqlconn.Write, nil, 1, true, false},
			{"an expected answer", mysqlconn.Write, store.ErrChanged, 1, true, false},
			{"a lock wait", mysqlconn.Write, &mysql.MySQLError{Number: 1205}, 1, true, true},
			{"a deadlock", mysqlconn.Read, &mysql.MySQLError{Number: 1213}, 1, true, true},
			{"a refusal", mysqlconn.Write, &mysql.MySQLError{Number: 1064}, 1, false, true},
			{"a write that was lost", mysqlconn.Write, io.EOF, 1, false, true},
			{"a write that was never sent", mysqlconn.Write, driver.ErrBadConn, 2, false, true},
			{"a read that was lost", mysqlconn.Read, io.EOF, 2, false, true},
		} {
			before, err := numbers(mysqlconn.Write, nil)
			if err != nil {
				t.Fatal(err)
			}
			all, err := numbers(c.access, c.failure)
			if len(all) != c.times || all[0] != before[0] || len(slices.Compact(slices.Clone(all))) != c.times {
				t.Errorf("%s: done on the connections %d after %d, want %d", c.name, all, before, c.times)
			}
			if !errors.Is(err, c.failure) || c.named == (err == c.failure) { //nolint:errorlint // whether it is wrapped is the question
				t.Errorf("%s: %v", c.name, err)
			}
			after, err := numbers(mysqlconn.Write, nil)
			if err != nil || c.kept != (after[0] == before[0]) {
				t.Errorf("%s: connection %d after %d, %v", c.name, after, before, err)
			}
		}
		pool.Stop()
		if all, err := numbers(mysqlconn.Read, nil); !errors.Is(err, mysqlconn.ErrClosed) || len(all) > 0 {
			t.Errorf("after Stop: done on %d, %v", all, err)
		}
	})
}

// A session whose login had no answer has no number that the client knows. It is found by its lock, or by the port of
// its client.
func TestNamelessSessionIsEnded(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		target, err := mysqlconn.ParseDSN(db.DSN)
		if err != nil {
			t.Fatal(err)
		}
		pool, err := target.Open(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		for _, by := range []string{"lock", "port", "nothing"} {
			var port string
			config := db.Config(t)
			config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, addr)
				if err == nil {
					_, port, err = net.SplitHostPort(conn.LocalAddr().String())
				}
				return conn, err
			}
			connector, err := mysql.NewConnector(config)
			if err != nil {
				t.Fatal(err)
			}
			left := sql.OpenDB(connector)
			conn, err := left.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if by != "port" {
				port = ""
			}
			lock, find := pool.Nameless(t.Context(), port)
			if by == "lock" {
				if _, err := conn.ExecContext(t.Context(), "DO GET_LOCK(?, 0)", lock); err != nil {
					t.Fatal(err)
				}
			}
			if err := find(); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.ExecContext(t.Context(), "DO 1"); (err != nil) != (by != "nothing") {
				t.Errorf("by %s: the session left behind says %v", by, err)
			}
			_, _ = conn.Close(), left.Close()
		}
	})
}
