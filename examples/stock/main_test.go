package main

import (
	"database/sql"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/dbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNothingIsOversold(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		var out strings.Builder
		if err := run(t.Context(), db.DSN, &out); err != nil {
			t.Fatal(err)
		}
		if got, want := out.String(), "15 orders of 2: 15 answered, 5 accepted, 0 of 10 left\n"; got != want {
			t.Errorf("got  %swant %s", got, want)
		}
	})
}

// TestWithoutTheLock shows what the lock is for: two transactions that both
// read before either writes sell the same goods twice.
func TestWithoutTheLock(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		pool := db.Open(t)
		if err := prepare(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		var read, all sync.WaitGroup
		read.Add(2)
		for number := range 2 {
			all.Go(func() {
				tx, err := pool.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
				if err != nil {
					t.Error(err)
					read.Done()
					return
				}
				var left int
				err = tx.QueryRow(`SELECT left_over FROM example_stock WHERE item = ?`, item).Scan(&left)
				read.Done()
				read.Wait()
				if err == nil {
					_, err = tx.Exec(`UPDATE example_stock SET left_over = ? WHERE item = ?`, left-each, item)
				}
				if err == nil {
					_, err = tx.Exec(`INSERT INTO example_order VALUES (?, ?, ?, TRUE)`, number, item, each)
				}
				if err == nil {
					err = tx.Commit()
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		var left, accepted int
		if err := pool.QueryRow(`SELECT left_over, (SELECT SUM(quantity) FROM example_order) FROM example_stock`).Scan(&left, &accepted); err != nil {
			t.Fatal(err)
		}
		if left+accepted <= inStock {
			t.Errorf("%d sold and %d left of %d: the test does not show what it is for", accepted, left, inStock)
		}
	})
}
