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

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store"
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

// Rows of the archive that others have locked hold up no claim, also where all writes of
// the fence row share one connection.
func TestLockedArchiveHoldsUpNoClaim(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		s := openManyWriters(t, db.DSN)
		h := holder(t, s, "billing", "me")
		note := func() error { return s.NoteTerm(soon(t), store.TermNote{Holder: h}) }
		if err := note(); err != nil {
			t.Fatal(err)
		}
		tx, err := db.Open(t).BeginTx(soon(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, tx, "UPDATE cronlease_term SET early = 1 - early")
		noted := make(chan error, 1)
		go func() { noted <- note() }()
		eventually(t, "the note waits", waits(t, db, "SELECT %cronlease_term"))
		claim(t, s, h, running("a", 1)...)
		if len(noted) > 0 {
			t.Error("the claim waited for the note of the term")
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := <-noted; err != nil {
			t.Error(err)
		}
	})
}
