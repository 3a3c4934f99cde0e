package locks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
)

// On real servers too, a transaction with a shared lock on a lock's row, such as a
// fenced one, delays no other lock of a process that waits for that one.
func TestSharedRowHoldsUpNoOthers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		a, b := onServer(t, db), onServer(t, db)
		held, err := a.Mutex("stock").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pool := db.Open(t)
		tx, err := pool.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(t.Context(), "SELECT * FROM cronlease_lock WHERE name = 'stock' LOCK IN SHARE MODE"); err != nil {
			t.Fatal(err)
		}
		waiter := make(chan error)
		go func() {
			l, err := b.Mutex("stock").Lock(t.Context())
			if err == nil {
				err = l.Unlock(t.Context())
			}
			waiter <- err
		}()
		waits := "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'UPDATE `cronlease_lock` SET%'"
		look := db.Open(t)
		look.SetMaxOpenConns(1)
		for count(t, look, waits) == 0 {
			select {
			case <-time.After(time.Millisecond):
			case <-t.Context().Done():
				t.Fatal("no statement waits for the row")
			}
		}
		var fastest time.Duration
		for i := range 20 {
			begin := time.Now()
			l, err := b.Mutex(fmt.Sprint("other/", i)).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); fastest == 0 || took < fastest {
				fastest = took
			}
			if err := l.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		// Some statement always waits for the row, for a second each: a lock that
		// queued behind it would take half a second at least once in twenty.
		if fastest > 300*time.Millisecond {
			t.Errorf("other locks take %v or more", fastest)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := held.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-waiter; err != nil {
			t.Error(err)
		}
	})
}
