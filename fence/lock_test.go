package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store"
)

// client takes locks in the scene's database until the test ends.
func (s *scene) client() *locks.Client {
	s.t.Helper()
	c, err := locks.New(s.store.(store.Locks))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			s.t.Error(err)
		}
	})
	return c
}

// blindly is the context of a holder that knows nothing of its end.
func blindly(t *testing.T, l *locks.Lock) context.Context {
	holds := lease.Holds(l.Context())
	for i := range holds {
		holds[i].Trusted = nil
	}
	return lease.WithHold(soon(t), holds...)
}

// A lock is a hold like a lease: of transactions under it, those of its present
// holder are stored.
func TestLocks(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, s *scene, w way) {
		a, b := s.client(), s.client()
		for i, name := range []string{"stock", `label"}],"granted":1`} {
			id := 10 * i
			m := a.Mutex("stock", locks.Label(name))
			old, err := m.Lock(soon(t))
			if err != nil {
				t.Fatal(err)
			}
			write := func(ctx context.Context, id int) error {
				return w.run(ctx, s, func(tx *sql.Tx) error { return s.insert(tx, id) })
			}
			if err := write(old.Context(), id); err != nil {
				t.Errorf("under the lock: %v", err)
			}
			blind := blindly(t, old)
			if err := write(lease.WithHold(blind, s.hold), id+1); err != nil {
				t.Errorf("under the lock and a lease: %v", err)
			}
			if err := old.Unlock(soon(t)); err != nil {
				t.Fatal(err)
			}
			// It has ended, which the caller's own BeginTx finds out first.
			if err := write(old.Context(), id+2); !errors.Is(err, fence.ErrFenced) && !errors.Is(err, context.Canceled) {
				t.Errorf("with the context of a lock that was given back: %v", err)
			}
			if err := write(blind, id+3); !errors.Is(err, fence.ErrFenced) {
				t.Errorf("after it was given back: %v", err)
			}
			next, err := b.Mutex("stock").Lock(soon(t))
			if err != nil {
				t.Fatal(err)
			}
			if err := write(blind, id+4); !errors.Is(err, fence.ErrFenced) {
				t.Errorf("beside the next holder: %v", err)
			}
			if err := write(next.Context(), id+5); err != nil {
				t.Errorf("under the next lock: %v", err)
			}
			if err := next.Unlock(soon(t)); err != nil {
				t.Fatal(err)
			}
			s.wantStored(3 * (i + 1))
		}
	})
}

// Readers are holders too, each for itself.
func TestReadLocks(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		m := s.client().RWMutex("catalogue")
		var readers [2]*locks.Lock
		for i := range readers {
			var err error
			if readers[i], err = m.RLock(soon(t)); err != nil {
				t.Fatal(err)
			}
		}
		gone := blindly(t, readers[0])
		if err := readers[0].Unlock(soon(t)); err != nil {
			t.Fatal(err)
		}
		write := func(ctx context.Context, id int) error {
			return fence.Do(ctx, s.db, func(tx *sql.Tx) error { return s.insert(tx, id) })
		}
		if err := write(gone, 1); !errors.Is(err, fence.ErrFenced) {
			t.Errorf("a reader that is gone: %v", err)
		}
		if err := write(readers[1].Context(), 2); err != nil {
			t.Errorf("a reader that is there: %v", err)
		}
		if err := readers[1].Unlock(soon(t)); err != nil {
			t.Fatal(err)
		}
	})
}

// No other waiter gets the lock between the check and the end of a transaction.
func TestLockWaitsForItsTransaction(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		a, b := s.client(), s.client()
		held, err := a.Mutex("stock").Lock(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		tx, err := s.db.BeginTx(soon(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := s.store.CheckHold(soon(t), tx, lease.Holds(held.Context())[0]); !ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
		short, cancel := context.WithTimeout(soon(t), 200*time.Millisecond)
		defer cancel()
		if err := held.Unlock(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the lock was given back in the middle: %v", err)
		}
		if _, err := b.Mutex("stock").TryLock(soon(t)); !errors.Is(err, locks.ErrBusy) {
			t.Errorf("the next holder in the middle: %v", err)
		}
		if other, err := b.Mutex("other").Lock(soon(t)); err != nil {
			t.Error(err)
		} else if err := other.Unlock(soon(t)); err != nil {
			t.Error(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		next, err := b.Mutex("stock").Lock(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Unlock(soon(t)); err != nil {
			t.Fatal(err)
		}
	})
}

// A holder's transaction is stored while others queue up for its lock, which
// changes the lock's row: also where the server refuses to lock what has changed
// since the transaction's snapshot, as MariaDB does by default from 11.6.2 on.
func TestTransactionUnderALockWithAQueue(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		holder, waiter := s.client(), s.client()
		for _, setting := range []string{"ON", "OFF"} {
			config := s.at.Config(t)
			if dbserver.Dialect(s.kind) == dbserver.MariaDB {
				config.Params = map[string]string{"innodb_snapshot_isolation": setting}
			}
			connector, err := mysql.NewConnector(config)
			if err != nil {
				t.Fatal(err)
			}
			db := sql.OpenDB(connector)
			defer db.Close()
			for _, run := range []func(context.Context, *sql.DB, func(*sql.Tx) error, ...fence.Option) error{fence.Do, commit} {
				held, err := holder.Mutex("stock").Lock(soon(t))
				if err != nil {
					t.Fatal(err)
				}
				next := make(chan error, 1)
				before := s.stored()
				if err := run(held.Context(), db, func(tx *sql.Tx) error {
					var versions, version int
					const read = "SELECT version FROM cronlease_lock WHERE name = 'stock'"
					if err := tx.QueryRow(read).Scan(&version); err != nil {
						return err
					}
					go func() {
						l, err := waiter.Mutex("stock").Lock(soon(t))
						if err == nil {
							err = l.Unlock(soon(t))
						}
						next <- err
					}()
					for versions = version; versions == version; { // a wait for the next in line
						if err := s.db.QueryRowContext(soon(t), read).Scan(&versions); err != nil {
							return err
						}
					}
					return s.insert(tx, before)
				}); err != nil {
					t.Errorf("innodb_snapshot_isolation %s: %v", setting, err)
				}
				if err := held.Unlock(soon(t)); err != nil {
					t.Error(err)
				}
				if err := <-next; err != nil {
					t.Error(err)
				}
				s.wantStored(before + 1)
			}
		}
	})
}
