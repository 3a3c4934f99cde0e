package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// pausing is a store whose process stands still right after the check.
type pausing struct {
	sqlStore
	after func()
}

func (p *pausing) CheckHold(ctx context.Context, tx store.Querier, h lease.Hold) (bool, error) {
	held, err := p.sqlStore.CheckHold(ctx, tx, h)
	p.after()
	return held, err
}

// A heartbeat passes a transaction that has checked and one that has not, and a
// takeover waits for the former to end.
func TestTakeoverWaitsAndHeartbeatsDoNot(t *testing.T) {
	t.Parallel()
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			eachServer(t, func(t *testing.T, s *scene) {
				beats := uint64(1)
				beat := func() {
					ctx, cancel := context.WithTimeout(soon(t), time.Second)
					defer cancel()
					n, err := s.store.Renew(ctx, store.Renew{Owner: s.hold.Owner, Heartbeat: beats + 1, Leases: []store.Renewal{
						{Group: group, Token: s.hold.Token, Heartbeat: beats},
					}})
					if n != 1 || err != nil {
						t.Errorf("%d renewed: %v", n, err)
					}
					beats++
				}
				taken := make(chan error, 1)
				hold := s.hold
				hold.Store = &pausing{s.store, func() {
					beat()
					go func() {
						_, err := s.tryTakeOver("next")
						taken <- err
					}()
					s.waitForStatement("UPDATE `cronlease_fence`")
					beat()
					if len(taken) > 0 {
						t.Error("a takeover went past a transaction that has checked")
					}
				}}
				err := w.run(lease.WithHold(soon(t), hold), s, func(tx *sql.Tx) error {
					err := s.insert(tx, 1)
					beat()
					return err
				})
				if err != nil {
					t.Error(err)
				}
				// A heartbeat was in between, so the takeover finds another row.
				if err := <-taken; !errors.Is(err, store.ErrChanged) {
					t.Errorf("the takeover after it: %v", err)
				}
				s.takeOver("next")
				s.wantStored(1)
			})
		})
	}
}

// waitForStatement waits until a session runs a statement that begins like this,
// which is a long time if it is one that waits.
func (s *scene) waitForStatement(prefix string) {
	s.t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for ctx := soon(s.t); ; <-look.C {
		n, err := dbserver.Sessions(ctx, s.db, "info LIKE ? AND db = DATABASE()", prefix+"%")
		if err != nil {
			s.t.Errorf("no connection runs %s: %v", prefix, err)
			return
		}
		if n > 0 {
			return
		}
	}
}

// A process that stands still between its check and COMMIT holds a takeover up
// for the bound, and then has stored nothing.
func TestPausedAfterItsCheck(t *testing.T) {
	t.Parallel()
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			eachServer(t, func(t *testing.T, s *scene) {
				var next uint64
				var heldUp time.Duration
				hold := s.hold
				hold.Store = &pausing{s.store, func() {
					began := time.Now()
					for next == 0 && time.Since(began) < patience/3 { // one that waits for longer than it may is tried again
						var err error
						if next, err = s.tryTakeOver("next"); err != nil {
							t.Log(err)
						}
					}
					heldUp = time.Since(began)
				}}
				err := w.run(lease.WithHold(soon(t), hold), s, func(tx *sql.Tx) error { return s.insert(tx, 1) }, fence.WithBound(time.Second))
				var fenced *fence.FencedError
				if !errors.As(err, &fenced) || fenced.Token != next {
					t.Errorf("it woke up to %v", err)
				}
				s.wantStored(0)
				if heldUp > 2*time.Second {
					t.Errorf("it held up a takeover for %v", heldUp)
				}
			})
		})
	}
}

// So it is on MariaDB with limits for transactions, which go before wait_timeout. The session has
// them back afterwards, and a guard sends no savepoints for the check's statements.
func TestPausedWithIdleLimits(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		if dbserver.Dialect(s.kind) != dbserver.MariaDB {
			return
		}
		for limit, statement := range map[string]string{
			"idle_transaction_timeout":          "REPLACE INTO effect VALUES (1, 1)",
			"idle_write_transaction_timeout":    "REPLACE INTO effect VALUES (1, 1)",
			"idle_readonly_transaction_timeout": "DO 1",
		} {
			for _, name := range []string{"Do", "Commit", "Commit of a guarded one"} {
				config := s.at.Config(t)
				config.Params = map[string]string{limit: "12"}
				connector, err := mysql.NewConnector(config)
				if err != nil {
					t.Fatal(err)
				}
				if name == "Commit of a guarded one" {
					connector = fence.Guard(connector)
				}
				db := sql.OpenDB(connector)
				defer db.Close()
				db.SetMaxOpenConns(1)
				run := commit
				if name == "Do" {
					run = fence.Do
				}
				work := func(tx *sql.Tx) error { _, err := tx.Exec(statement); return err }
				s.hold.Owner, s.hold.Token = "me", s.takeOver("me")
				if err := run(s.ctx(), db, work); err != nil {
					t.Fatal(err)
				}
				var after, wait, savepoints int
				if err := db.QueryRow("SELECT @@"+limit+", @@wait_timeout").Scan(&after, &wait); err != nil || after != 12 || wait < 100 {
					t.Errorf("%s, %s is %d s, and wait_timeout %d s: %v", name, limit, after, wait, err)
				}
				if err := db.QueryRow("SHOW SESSION STATUS LIKE 'Com_savepoint'").Scan(new(string), &savepoints); err != nil || savepoints > 1 {
					t.Errorf("%s: %d savepoints: %v", name, savepoints, err)
				}
				var heldUp time.Duration
				hold := s.hold
				hold.Store = &pausing{s.store, func() {
					began := time.Now()
					for next := uint64(0); next == 0 && time.Since(began) < patience/3; {
						if next, err = s.tryTakeOver("next"); err != nil {
							t.Log(err)
						}
					}
					heldUp = time.Since(began)
				}}
				err = run(lease.WithHold(soon(t), hold), db, work, fence.WithBound(time.Second))
				if !errors.Is(err, fence.ErrFenced) || heldUp > 3*time.Second {
					t.Errorf("%s, %s: it held up a takeover for %v, and woke up to %v", name, limit, heldUp, err)
				}
			}
		}
	})
}

// A session that has ended is noticed before COMMIT is sent.
func TestKilledAfterItsCheck(t *testing.T) {
	t.Parallel()
	for _, w := range []way{ways[0], ways[1], ways[3]} {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			eachServer(t, func(t *testing.T, s *scene) {
				var session int64
				hold := s.hold
				hold.Store = &pausing{s.store, func() {
					s.exec(fmt.Sprint("KILL ", session))
					s.waitForEnd(session)
				}}
				err := w.run(lease.WithHold(soon(t), hold), s, func(tx *sql.Tx) error {
					if err := tx.QueryRow("SELECT CONNECTION_ID()").Scan(&session); err != nil {
						return err
					}
					return s.insert(tx, 1)
				})
				if !errors.Is(err, fence.ErrBroken) || errors.Is(err, fence.ErrUnknown) {
					t.Error(err)
				}
				s.wantStored(0)
			})
		})
	}
}

// waitForEnd waits until a session is gone.
func (s *scene) waitForEnd(session int64) {
	s.t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for ctx := soon(s.t); ; <-look.C {
		n, err := dbserver.Sessions(ctx, s.db, "id = ?", session)
		if err != nil {
			s.t.Error(err)
			return
		}
		if n == 0 {
			return
		}
	}
}
