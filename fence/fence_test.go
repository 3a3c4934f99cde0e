package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

func TestHolderCommits(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, s *scene, w way) {
		s.db.SetMaxOpenConns(1) // the same connection again, as it was before
		for id := range 3 {
			if err := w.run(s.ctx(), s, func(tx *sql.Tx) error { return s.insert(tx, id) }); err != nil {
				t.Fatal(err)
			}
		}
		s.wantStored(3)
		if s.kind == sqlite || s.kind == postgres {
			return
		}
		var session, global int
		if err := s.db.QueryRowContext(soon(t), "SELECT @@SESSION.wait_timeout, @@GLOBAL.wait_timeout").Scan(&session, &global); err != nil {
			t.Fatal(err)
		}
		if session != global {
			t.Errorf("the session is left with a wait_timeout of %d s, not %d s", session, global)
		}
		if opened := s.db.Stats().MaxLifetimeClosed + s.db.Stats().MaxIdleClosed; opened != 0 {
			t.Errorf("%d connections were closed", opened)
		}
	})
}

// A holder is replaced at each possible moment. Its transaction is refused, whatever
// it has read before, and the error names the new holder.
func TestReplacedHolderIsRefused(t *testing.T) {
	t.Parallel()
	moments := map[string]func(s *scene, tx *sql.Tx, replace func()) error{
		"before its first statement": func(s *scene, tx *sql.Tx, replace func()) error {
			replace()
			return s.insert(tx, 1)
		},
		"after it has read the fence": func(s *scene, tx *sql.Tx, replace func()) error {
			var token uint64
			if err := tx.QueryRow("SELECT token FROM cronlease_fence").Scan(&token); err != nil {
				return err
			}
			replace()
			if s.kind == sqlite {
				return nil // which refuses to write after an old snapshot
			}
			return s.insert(tx, 1)
		},
		"after its statements": func(s *scene, tx *sql.Tx, replace func()) error {
			if s.kind == sqlite { // a write keeps the takeover waiting
				replace()
				return s.insert(tx, 1)
			}
			err := s.insert(tx, 1)
			replace()
			return err
		},
	}
	eachWay(t, func(t *testing.T, s *scene, w way) {
		for moment, fn := range moments {
			var next uint64
			owner := "next-" + strings.ReplaceAll(moment, " ", "-")
			err := w.run(s.ctx(), s, func(tx *sql.Tx) error {
				return fn(s, tx, func() { next = s.takeOver(owner) })
			})
			if !errors.Is(err, fence.ErrFenced) && s.kind == sqlite && errors.Is(err, fence.ErrBroken) {
				t.Errorf("%s: %v, though it was replaced", moment, err)
			}
			var fenced *fence.FencedError
			if !errors.As(err, &fenced) || !errors.Is(err, fence.ErrFenced) || fenced.Owner != owner || fenced.Token != next || fenced.Hold.Token != s.hold.Token {
				t.Errorf("%s: %v, want it refused for %s under token %d", moment, err, owner, next)
				continue
			}
			for _, part := range []string{group, fmt.Sprint(s.hold.Token), owner, fmt.Sprint(next)} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: the error does not say %s: %v", moment, part, err)
				}
			}
			s.wantStored(0)
			s.hold.Owner, s.hold.Token = owner, next
		}

		// The same with a plain transaction is stored: that is what the fence is for.
		tx, err := s.db.BeginTx(soon(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.takeOver("last")
		if err := errors.Join(s.insert(tx, 1), tx.Commit()); err != nil {
			t.Fatal(err)
		}
		s.wantStored(1)
	})
}

// Only the owner with the token is the holder: neither will do.
func TestOwnerAndTokenAreCompared(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		right := s.hold
		for what, change := range map[string]func(h *lease.Hold){
			"another owner":          func(h *lease.Hold) { h.Owner = "other" },
			"an older token":         func(h *lease.Hold) { h.Token-- },
			"a token yet to come":    func(h *lease.Hold) { h.Token++ },
			"another group":          func(h *lease.Hold) { h.Name = "other" },
			"a token past all bound": func(h *lease.Hold) { h.Token = 1<<64 - 1 },
		} {
			s.hold = right
			change(&s.hold)
			if err := fence.Do(s.ctx(), s.db, func(tx *sql.Tx) error { return s.insert(tx, 1) }); !errors.Is(err, fence.ErrFenced) {
				t.Errorf("%s: %v", what, err)
			}
		}
		s.wantStored(0)
		s.hold = right
		if err := fence.Do(s.ctx(), s.db, func(tx *sql.Tx) error { return s.insert(tx, 1) }); err != nil {
			t.Error(err)
		}
	})
}

// Every hold counts, not only the newest.
func TestAllHoldsAreChecked(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		if err := s.store.Prepare(soon(t), "another", ttl); err != nil {
			t.Fatal(err)
		}
		readings, err := s.store.Read(soon(t), "another")
		if err != nil {
			t.Fatal(err)
		}
		token, err := s.store.Acquire(soon(t), store.Acquire{Read: readings[0], Owner: "me", Heartbeat: 1, TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		ctx := lease.WithHold(s.ctx(), lease.Hold{Store: s.store, Name: "another", Owner: "me", Token: token})
		if err := fence.Do(ctx, s.db, func(tx *sql.Tx) error { return s.insert(tx, 1) }); err != nil {
			t.Fatal(err)
		}
		s.takeOver("next")
		var fenced *fence.FencedError
		err = fence.Do(ctx, s.db, func(tx *sql.Tx) error { return s.insert(tx, 2) })
		if !errors.As(err, &fenced) || fenced.Hold.Name != group {
			t.Errorf("with one of two lost: %v", err)
		}
		s.wantStored(1)
	})
}

// The end of a term is an ErrFenced with its cause; another end of the context is
// its cause alone.
func TestEndedContext(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, s *scene, w way) {
		for _, inside := range []bool{false, true} {
			for _, cause := range []error{lease.ErrLost, jobs.ErrTimeout} {
				trusted := true
				s.hold.Trusted = func() bool { return trusted }
				ctx, cancel := context.WithCancelCause(s.ctx())
				end := func() {
					trusted = !errors.Is(cause, lease.ErrLost)
					cancel(cause)
				}
				if !inside && w.name == "Do" {
					end()
				}
				err := w.run(ctx, s, func(tx *sql.Tx) error {
					err := s.insert(tx, 1)
					end()
					return err
				})
				if !errors.Is(err, cause) || errors.Is(err, fence.ErrFenced) != errors.Is(cause, lease.ErrLost) || errors.Is(err, fence.ErrUnknown) {
					t.Errorf("inside %v, %v: %v", inside, cause, err)
				}
			}
		}
		s.hold.Trusted = nil
		s.wantStored(0)

		// Untrusted by the clocks, though the context has not noticed.
		s.hold.Trusted = func() bool { return false }
		err := fence.Do(s.ctx(), s.db, func(*sql.Tx) error {
			t.Error("the function was called")
			return nil
		})
		if !errors.Is(err, fence.ErrFenced) {
			t.Errorf("not trusted: %v", err)
		}
		trusted, next := true, uint64(0)
		s.hold.Trusted = func() bool { return trusted }
		err = w.run(s.ctx(), s, func(*sql.Tx) error {
			trusted, next = false, s.takeOver("next")
			return nil
		})
		var fenced *fence.FencedError
		if !errors.As(err, &fenced) || fenced.Owner != "next" || fenced.Token != next {
			t.Errorf("not trusted any more: %v, want it to name the next holder", err)
		}
	})
}

func TestFunctionFails(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		s.db.SetMaxOpenConns(1)
		sorry := errors.New("sorry")
		if err := fence.Do(s.ctx(), s.db, func(tx *sql.Tx) error { return errors.Join(s.insert(tx, 1), sorry) }); !errors.Is(err, sorry) {
			t.Error(err)
		}
		s.wantStored(0)
		func() {
			defer func() {
				if v := recover(); v != "help" {
					t.Errorf("recovered %v", v)
				}
			}()
			_ = fence.Do(s.ctx(), s.db, func(tx *sql.Tx) error {
				if err := s.insert(tx, 1); err != nil {
					t.Error(err)
				}
				panic("help")
			})
		}()
		s.wantStored(0)
	})
}

// A function cannot get around the check.
func TestFunctionEndsItsTransaction(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		try := func(what string, f func(tx *sql.Tx) error) {
			t.Helper()
			var inner error
			err := fence.Do(s.ctx(), s.db, func(tx *sql.Tx) error {
				if err := s.insert(tx, 1); err != nil {
					return err
				}
				inner = f(tx)
				s.takeOver("next")
				return nil
			})
			if err == nil {
				t.Errorf("%s: nothing (%v)", what, inner)
			}
			s.wantStored(0)
		}
		s.exec("CREATE TABLE other (id INTEGER)")
		try("Rollback", func(tx *sql.Tx) error { return tx.Rollback() })
		try("Commit", func(tx *sql.Tx) error {
			err := tx.Commit()
			if err == nil {
				t.Error("it committed")
			}
			return err
		})
		if s.kind == sqlite {
			return // it waits for the takeover, which waits for it
		}
		statements := []string{"COMMIT", "commit and chain", "/* so */ ROLLBACK", "BEGIN", "SET autocommit = 1", "COMMIT AND NO CHAIN NO RELEASE", "COMMIT AND NO CHAIN"}
		if s.kind == postgres {
			statements = append(statements, "END", "abort")
		} else {
			statements = append(statements, "TRUNCATE other", "CREATE TABLE more (id INTEGER)", "ALTER TABLE other ADD COLUMN more INTEGER")
		}
		for _, statement := range statements {
			try(statement, func(tx *sql.Tx) error {
				_, err := tx.Exec(statement)
				if err == nil {
					t.Errorf("%s was let through", statement)
				}
				return err
			})
			try("prepared "+statement, func(tx *sql.Tx) error {
				prepared, err := tx.Prepare(statement)
				if err == nil {
					defer prepared.Close()
					t.Errorf("%s was let through", statement)
				}
				return err
			})
		}
	})
}

// A transaction is not kept, nor used, after its function has returned.
func TestKeptTransaction(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		var kept *sql.Tx
		if err := fence.Do(s.ctx(), s.db, func(tx *sql.Tx) error {
			kept = tx
			return s.insert(tx, 1)
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.insert(kept, 2); !errors.Is(err, sql.ErrTxDone) {
			t.Error(err)
		}
		s.wantStored(1)
	})
}

// The error names what was held, its present holder and why the work has ended, as far as is known.
func TestFencedError(t *testing.T) {
	t.Parallel()
	h, l := lease.Hold{Kind: lease.HoldLease, Name: "g", Token: 7}, lease.Hold{Kind: lease.HoldLock, Name: "l", Token: 7}
	for want, e := range map[string]*fence.FencedError{
		`fence: refused: group "g", token 7: the term is over`:                                   {Hold: h},
		`fence: refused: lock "l", token 7: the term is over: lease: lost`:                       {Hold: l, Cause: errors.New("lease: lost")},
		`fence: refused: group "g", token 7: the term is over: next has it now under token 9`:    {Hold: h, Owner: "next", Token: 9},
		`fence: refused: lock "l", token 7: the term is over: next has it now under token 9: no`: {Hold: l, Owner: "next", Token: 9, Cause: errors.New("no")},
	} {
		if e.Error() != want {
			t.Errorf("%v, want %s", e, want)
		}
	}
}

func TestNoHold(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, s *scene, w way) {
		err := w.run(soon(t), s, func(tx *sql.Tx) error { return s.insert(tx, 1) })
		if !errors.Is(err, fence.ErrNoHold) {
			t.Error(err)
		}
		s.wantStored(0)
	})
}

func TestOptions(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		for _, bad := range []time.Duration{0, -time.Second, 1500 * time.Millisecond, time.Hour} {
			if err := fence.Do(s.ctx(), s.db, func(*sql.Tx) error { return nil }, fence.WithBound(bad)); err == nil || !strings.Contains(err.Error(), "WithBound") {
				t.Errorf("WithBound(%v): %v", bad, err)
			}
		}
		for _, good := range []time.Duration{time.Second, time.Minute} {
			if err := fence.Do(s.ctx(), s.db, func(*sql.Tx) error { return nil }, fence.WithBound(good)); err != nil {
				t.Errorf("WithBound(%v): %v", good, err)
			}
		}
		if s.kind == sqlite || s.kind == postgres {
			return
		}
		none := fence.WithTxOptions(&sql.TxOptions{Isolation: sql.LevelLinearizable})
		if err := fence.Do(s.ctx(), s.db, func(*sql.Tx) error { return nil }, none); err == nil || !strings.Contains(err.Error(), "isolation level") {
			t.Errorf("a level that the driver does not have: %v", err)
		}
		var level string
		if err := fence.Do(s.ctx(), s.db, func(tx *sql.Tx) error {
			// A second transaction sees what this one has not committed, if it may.
			if err := s.insert(tx, 1); err != nil {
				return err
			}
			return fence.Do(s.ctx(), s.db, func(tx *sql.Tx) error {
				var n int
				err := tx.QueryRow("SELECT COUNT(*) FROM effect").Scan(&n)
				level = fmt.Sprint(n)
				return err
			}, fence.WithTxOptions(&sql.TxOptions{Isolation: sql.LevelReadUncommitted}))
		}); err != nil || level != "1" {
			t.Errorf("READ UNCOMMITTED saw %s rows: %v", level, err)
		}
	})
}
