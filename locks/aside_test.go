package locks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
)

// On real servers too, a transaction that shares the row of a lock, as a fenced one
// does, holds up no other lock of a process that waits for that one.
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
				t.Fatal("nobody waits for the row")
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
		// The row is waited for all the time, a second each: who is behind it
		// takes half of one at least, some time in twenty.
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
