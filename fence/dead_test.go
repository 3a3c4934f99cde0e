package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/fence"
)

// A dead connection of the pool is replaced before the transaction begins.
func TestDeadConnectionOfThePool(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		config := s.at.Config(t)
		config.CheckConnLiveness = false // so that the pool does not notice
		connector, err := mysql.NewConnector(config)
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(connector)
		defer db.Close()
		db.SetMaxOpenConns(1)
		for id := range 3 {
			var session int64
			if err := db.QueryRowContext(soon(t), "SELECT CONNECTION_ID()").Scan(&session); err != nil {
				t.Fatal(err)
			}
			s.exec(fmt.Sprint("KILL ", session))
			calls := 0
			err := fence.Do(s.ctx(), db, func(tx *sql.Tx) error {
				calls++
				return s.insert(tx, id)
			})
			// The driver may find out only when it reads the answer to BEGIN, which is
			// no ErrBadConn any more.
			if calls > 1 || err != nil && !errors.Is(err, fence.ErrBroken) || err == nil && calls != 1 {
				t.Errorf("called %d times: %v", calls, err)
			}
		}
	})
}

// dying is a connector of a few connections that are dead when a transaction begins.
type dying struct {
	driver.Connector
	left atomic.Int32
}

func (d *dying) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := d.Connector.Connect(ctx)
	if err != nil || d.left.Add(-1) < 0 {
		return c, err
	}
	return dead{c}, nil
}

type dead struct{ driver.Conn }

func (dead) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return nil, driver.ErrBadConn
}

// As many dead connections are replaced as database/sql replaces.
func TestDeadConnections(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		for n, stored := range map[int]int{3: 1, 4: 0} {
			connector, err := mysql.NewConnector(s.at.Config(t))
			if err != nil {
				t.Fatal(err)
			}
			few := &dying{Connector: connector}
			few.left.Store(int32(n))
			db := sql.OpenDB(few)
			defer db.Close()
			s.exec("DELETE FROM effect")
			err = fence.Do(s.ctx(), db, func(tx *sql.Tx) error { return s.insert(tx, 1) })
			if (err == nil) != (stored == 1) || err != nil && !errors.Is(err, fence.ErrBroken) {
				t.Errorf("after %d dead connections: %v", n, err)
			}
			s.wantStored(stored)
		}
	})
}
