package fence_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/fence"
)

// After an error PostgreSQL takes nothing more of a transaction, but it goes back to a savepoint. Nothing is stored of one
// that has failed, and it may be tried again.
func TestPostgresErrors(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, s *scene, w way) {
		if s.kind != postgres {
			return
		}
		if err := w.run(s.ctx(), s, func(tx *sql.Tx) error {
			if err := s.insert(tx, 1); err != nil {
				return err
			}
			for _, statement := range []string{"SAVEPOINT before", "INSERT INTO effect VALUES (1, 1)", "ROLLBACK TO SAVEPOINT before"} {
				if _, err := tx.Exec(statement); err != nil != strings.HasPrefix(statement, "INSERT") {
					t.Errorf("%s: %v", statement, err)
				}
			}
			return s.insert(tx, 2)
		}); err != nil {
			t.Errorf("an error behind a savepoint: %v", err)
		}
		s.wantStored(2)
		s.exec("DELETE FROM effect")
		for _, careless := range []string{"INSERT INTO effect VALUES (1, 1)", "SELECT nonsense", "DO $$ BEGIN RAISE EXCEPTION 'no'; END $$", "SELECT 1; SELECT nonsense", "CALL nonsense()"} {
			err := w.run(s.ctx(), s, func(tx *sql.Tx) error {
				if err := s.insert(tx, 1); err != nil {
					return err
				}
				if _, err := tx.Exec(careless); err == nil {
					t.Errorf("%s: no error", careless)
				}
				_ = s.insert(tx, 2)
				return nil
			})
			// A list of statements, and one that calls others, are undone by themselves under a guard, as on other databases.
			if err != nil && !errors.Is(err, fence.ErrBroken) {
				t.Errorf("%s: %v, want nil or ErrBroken", careless, err)
			}
			if n := s.stored(); err != nil && n != 0 || err == nil && n != 2 {
				t.Errorf("%s: %v, and %d effects are stored", careless, err, n)
			}
			s.exec("DELETE FROM effect")
		}
		if err := w.run(s.ctx(), s, func(tx *sql.Tx) error { return s.insert(tx, 1) }); err != nil {
			t.Errorf("again: %v", err)
		}
	})
}

// What ends the transaction where its text does not show it is found out, also where another one has begun since, and has failed.
func TestPostgresHiddenEnds(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		if s.kind != postgres {
			return
		}
		for _, hidden := range []string{
			"SELECT 1; COMMIT; BEGIN", "SELECT 1; COMMIT", "SELECT 1; ROLLBACK; BEGIN", "SELECT 1; COMMIT; BEGIN; SELECT nonsense",
			"SELECT $$'$$; COMMIT; BEGIN --'", "SELECT E'\\'' || 'a\\'; COMMIT; BEGIN --'", "SELECT 1 /* /* */ ' */; COMMIT; BEGIN --'",
		} {
			for i, w := range []way{ways[0], ways[1]} {
				err := w.run(s.ctx(), s, func(tx *sql.Tx) error {
					if err := s.insert(tx, 1); err != nil {
						return err
					}
					_, _ = tx.Exec(hidden)
					return nil
				})
				if !errors.Is(err, fence.ErrUnfenced) {
					t.Errorf("%q, %d: %v, want ErrUnfenced", hidden, i, err)
				}
				s.exec("DELETE FROM effect")
			}
		}
	})
}

// A process that stands still after its check holds up the next leader for no longer than the bound.
func TestPostgresPause(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		if s.kind != postgres {
			return
		}
		tx, err := s.db.BeginTx(soon(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.Exec("SET LOCAL idle_in_transaction_session_timeout = 1000"); err != nil { // as a check does
			t.Fatal(err)
		}
		if held, err := s.store.CheckHold(soon(t), tx, s.hold); !held || err != nil {
			t.Fatal(held, err)
		}
		began := time.Now()
		s.takeOver("next")
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the takeover waited for %v", took)
		}
		if err := tx.Commit(); err == nil {
			t.Error("it committed")
		}
	})
}

// Above READ COMMITTED a transaction that began before a takeover is refused, or to be tried again.
func TestPostgresIsolation(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		if s.kind != postgres {
			return
		}
		for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
			options := fence.WithTxOptions(&sql.TxOptions{Isolation: level})
			if err := fence.Do(s.ctx(), s.db, func(tx *sql.Tx) error { return s.insert(tx, 1) }, options); err != nil {
				t.Errorf("%v: %v", level, err)
			}
			s.wantStored(1)
			s.exec("DELETE FROM effect")
			err := fence.Do(s.ctx(), s.db, func(tx *sql.Tx) error {
				if err := s.insert(tx, 1); err != nil {
					return err
				}
				s.takeOver("next")
				return nil
			}, options)
			if !errors.Is(err, fence.ErrFenced) {
				t.Errorf("%v: %v, want ErrFenced", level, err)
			}
			s.wantStored(0)
			s.hold.Owner, s.hold.Token = "first", s.takeOver("first")
		}
	})
}
