package mysqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// checked calls a function once a transaction has checked its hold.
type checked struct {
	*mysqlstore.Store
	then func()
}

func (c *checked) CheckHold(ctx context.Context, tx store.Querier, h lease.Hold) (bool, error) {
	held, err := c.Store.CheckHold(ctx, tx, h)
	c.then()
	return held, err
}

// Where a check writes the fence row, it changes the row each time, heartbeats do
// not wait, a takeover waits, and a holder that was replaced is refused.
func TestCheckThatWrites(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		s := openManyWriters(t, db.DSN)
		pool := db.Open(t)
		exec(t, pool, "CREATE TABLE effect (id INTEGER PRIMARY KEY)")
		token := take(t, s, "billing", "me")
		beat := uint64(1)
		taken := make(chan error, 1)
		after := func() {
			if n := renew(t, s, "billing", "me", token, beat, beat+1); n != 1 {
				t.Errorf("%d renewed beside a transaction that has checked", n)
			}
			beat++
		}
		do := func(id int, then func()) error {
			hold := lease.Hold{Store: &checked{s, then}, Name: "billing", Owner: "me", Token: token}
			return fence.Do(lease.WithHold(soon(t), hold), pool, func(tx *sql.Tx) error {
				_, err := tx.Exec("INSERT INTO effect VALUES (?)", id)
				return err
			})
		}
		for id := range 2 {
			if err := do(id, after); err != nil {
				t.Error(err)
			}
		}
		if n := count(t, pool, "SELECT checks FROM cronlease_fence"); n != 2 {
			t.Errorf("2 checks have written %d times", n)
		}
		if err := do(2, func() {
			request := request(t, s, "billing", "next")
			go func() {
				_, err := s.Acquire(soon(t), request)
				taken <- err
			}()
			eventually(t, "the takeover waits", waits(t, db, "UPDATE `cronlease_fence`"))
			if len(taken) > 0 {
				t.Error("a takeover went past a transaction that has checked")
			}
		}); err != nil {
			t.Error(err)
		}
		if err := <-taken; err != nil {
			t.Errorf("takeover: %v", err)
		}
		if err := do(3, func() {}); !errors.Is(err, fence.ErrFenced) {
			t.Errorf("replaced: %v", err)
		}
		owner, now := "next", read(t, s, "billing").Fence.Token
		for what, h := range map[string]lease.Hold{
			"another owner": {Name: "billing", Owner: "me", Token: now},
			"another token": {Name: "billing", Owner: owner, Token: now - 1},
			"another group": {Name: "other", Owner: owner, Token: now},
		} {
			h.Store = s
			if err := fence.Do(lease.WithHold(soon(t), h), pool, func(*sql.Tx) error { return nil }); !errors.Is(err, fence.ErrFenced) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if n := count(t, pool, "SELECT COUNT(*) FROM effect"); n != 3 {
			t.Errorf("%d effects", n)
		}
	})
}

// A schema's name may be anything, and a store that has not been used finds it.
func TestCheckOfAFreshStore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		token := take(t, migrated(t, db.DSN), "billing", "me")
		s := open(t, db.DSN)
		hold := lease.Hold{Store: s, Name: "billing", Owner: "me", Token: token}
		if err := fence.Do(lease.WithHold(soon(t), hold), db.Open(t), func(*sql.Tx) error { return nil }); err != nil {
			t.Error(err)
		}
	})
}
