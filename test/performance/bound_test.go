package performance

import (
	"context"
	"database/sql"
	"net"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/test/internal/percentiles"
)

// BenchmarkBound is what a server takes for the parts that everything here is made
// of, by one client at a time: a message that does nothing, a commit of one row, and
// what wakes a connection that waits for a named lock: its release, the KILL of
// the statement, or the end of the holder's connection.
func BenchmarkBound(b *testing.B) {
	dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
		ctx := b.Context()
		config := db.Config(b)
		config.InterpolateParams = true
		var held net.Conn // the last connection that was made
		config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			held = conn
			return conn, err
		}
		connector, err := mysql.NewConnector(config)
		if err != nil {
			b.Fatal(err)
		}
		pool := sql.OpenDB(connector)
		defer pool.Close()
		connect := func() *sql.Conn {
			c, err := pool.Conn(ctx)
			if err != nil {
				b.Fatal(err)
			}
			return c
		}
		exec := func(c *sql.Conn, statement string, args ...any) {
			if _, err := c.ExecContext(ctx, statement, args...); err != nil {
				b.Fatal(err)
			}
		}
		x, y := connect(), connect()
		defer x.Close()
		defer y.Close()
		exec(x, "CREATE TABLE one (id INT PRIMARY KEY, n BIGINT)")
		exec(x, "INSERT INTO one VALUES (1, 0)")
		b.Run("message", func(b *testing.B) {
			var times []time.Duration
			for b.Loop() {
				at := time.Now()
				exec(x, "DO 0")
				times = append(times, time.Since(at))
			}
			percentiles.Report(b, "", times)
		})
		b.Run("commit", func(b *testing.B) {
			var times []time.Duration
			for b.Loop() {
				at := time.Now()
				exec(x, "UPDATE one SET n = n + 1 WHERE id = 1")
				times = append(times, time.Since(at))
			}
			percentiles.Report(b, "", times)
		})
		name := "bound." + config.DBName
		// waits has y wait for the lock, and returns when it has got it.
		waits := func() <-chan time.Time {
			woken := make(chan time.Time, 1)
			go func() {
				var got sql.NullInt64
				_ = y.QueryRowContext(ctx, "SELECT GET_LOCK(?, 20)", name).Scan(&got) // an error when it is killed
				woken <- time.Now()
			}()
			<-time.After(3 * time.Millisecond)
			return woken
		}
		b.Run("release", func(b *testing.B) {
			var times []time.Duration
			for b.Loop() {
				exec(x, "DO GET_LOCK(?, 1)", name)
				woken := waits()
				at := time.Now()
				exec(x, "DO RELEASE_LOCK(?)", name)
				times = append(times, (<-woken).Sub(at))
				exec(y, "DO RELEASE_LOCK(?)", name)
			}
			percentiles.Report(b, "", times)
		})
		b.Run("kill", func(b *testing.B) {
			var id int64
			if err := y.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
				b.Fatal(err)
			}
			exec(x, "DO GET_LOCK(?, 1)", name)
			var times []time.Duration
			for b.Loop() {
				woken := waits()
				at := time.Now()
				exec(x, "KILL QUERY ?", id)
				times = append(times, (<-woken).Sub(at))
			}
			exec(x, "DO RELEASE_LOCK(?)", name)
			percentiles.Report(b, "", times)
		})
		b.Run("death", func(b *testing.B) {
			var times []time.Duration
			for b.Loop() {
				holder := connect()
				exec(holder, "DO GET_LOCK(?, 1)", name)
				woken := waits()
				at := time.Now()
				_ = held.Close()
				times = append(times, (<-woken).Sub(at))
				exec(y, "DO RELEASE_LOCK(?)", name)
				_ = holder.Raw(func(any) error { return sql.ErrConnDone })
				_ = holder.Close()
			}
			percentiles.Report(b, "", times)
		})
	})
}
