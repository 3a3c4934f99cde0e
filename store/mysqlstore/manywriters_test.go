package mysqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/store/mysqlstore"
)

// openManyWriters returns a store whose server says that it belongs to a cluster
// in which other nodes take writes too: so it writes the fence row, where it would
// lock it.
func openManyWriters(t testing.TB, dsn string) *mysqlstore.Store {
	t.Helper()
	connector, err := mysql.MySQLDriver{}.OpenConnector(dsn)
	if err != nil {
		t.Fatal(err)
	}
	pool := sql.OpenDB(multiPrimary{connector})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return openOn(t, pool)
}

// multiPrimary makes connections to a server that seems to be of such a cluster.
type multiPrimary struct{ driver.Connector }

func (m multiPrimary) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := m.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &multiPrimaryConn{c.(connection)}, nil
}

type multiPrimaryConn struct{ connection }

func (c *multiPrimaryConn) QueryContext(ctx context.Context, query string, values []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.connection.QueryContext(ctx, query, values)
	if err != nil || !strings.HasPrefix(query, "SHOW VARIABLES WHERE") {
		return rows, err
	}
	return &oneMore{Rows: rows, row: []driver.Value{"group_replication_single_primary_mode", "OFF"}}, nil
}

// oneMore are rows and one after them.
type oneMore struct {
	driver.Rows
	row []driver.Value // nil once it was read
}

func (r *oneMore) Next(row []driver.Value) error {
	err := r.Rows.Next(row)
	if !errors.Is(err, io.EOF) || r.row == nil {
		return err
	}
	copy(row, r.row)
	r.row = nil
	return nil
}
