package dbserver_test

import (
	"context"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/mysqlerr"
)

// Sessions are counted while one of them runs a statement that MySQL cannot show.
func TestSessionsBesideAStatementThatCannotBeShown(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		pool := db.Open(t)
		strange, err := pool.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer strange.Close()
		if _, err := strange.ExecContext(ctx, "SET NAMES ascii"); err != nil {
			t.Fatal(err)
		}
		holder, err := pool.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer holder.Close()
		lock := db.Config(t).DBName
		if _, err := holder.ExecContext(ctx, "DO GET_LOCK(?, 0)", lock); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 2)
		go func() {
			_, err := strange.ExecContext(ctx, "DO GET_LOCK('"+lock+"', 600), '\xd0'")
			done <- err
		}()
		const condition = "info LIKE 'DO GET_LOCK%' AND db = DATABASE()"
		var n int
		var refused bool
		for !refused && n == 0 { // MariaDB shows all statements, and other versions of MySQL may
			err := pool.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE "+condition).Scan(&n)
			if refused = mysqlerr.Number(err) == mysqlerr.CannotConvert; err != nil && !refused {
				t.Fatal(err)
			}
		}
		go func() {
			_, err := dbserver.Sessions(ctx, pool, condition)
			done <- err
		}()
		select {
		case err := <-done:
			if err != nil || refused {
				t.Errorf("%v; it was to wait: %v", err, refused)
			}
			done <- nil
		case <-time.After(50 * time.Millisecond):
		}
		if _, err := holder.ExecContext(ctx, "DO RELEASE_LOCK(?)", lock); err != nil {
			t.Error(err)
		}
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}
