package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/fence"
)

// SQLite runs several statements as one.
func TestSQLiteListOfStatements(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		if s.kind != sqlite {
			return
		}
		for list, goesOn := range map[string]bool{
			"DELETE FROM effect WHERE id = 9; COMMIT; BEGIN":              false,
			"DELETE FROM effect WHERE id = 9; ROLLBACK; BEGIN":            false,
			"DELETE FROM effect WHERE id = 9; COMMIT":                     false,
			"DELETE FROM effect WHERE id = 9; DELETE FROM effect WHERE 0": true,
		} {
			s.exec("DELETE FROM effect")
			err := fence.Do(s.ctx(), s.db, func(tx *sql.Tx) error {
				if err := s.insert(tx, 1); err != nil {
					return err
				}
				_, _ = tx.Exec(list)
				_ = s.insert(tx, 2)
				return nil
			})
			if goesOn && err != nil || !goesOn && (!errors.Is(err, fence.ErrUnfenced) || !strings.Contains(err.Error(), "a list of statements has ended the transaction")) {
				t.Errorf("%s: %v", list, err)
			}
			var late int
			if err := s.db.QueryRow("SELECT COUNT(*) FROM effect WHERE id = 2").Scan(&late); err != nil || (late > 0) != goesOn {
				t.Errorf("%s: %d rows came after it: %v", list, late, err)
			}
		}
	})
}

// SQLite ends a transaction on some errors: what follows must not be stored.
func TestSQLiteEndsTransaction(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		if s.kind != sqlite {
			return
		}
		careless := func(tx *sql.Tx) error {
			if err := s.insert(tx, 1); err != nil {
				return err
			}
			if _, err := tx.Exec("INSERT OR ROLLBACK INTO effect VALUES (1, 1)"); err == nil {
				t.Error("a key twice")
			}
			_ = s.insert(tx, 2)
			return nil
		}
		tx, err := s.db.BeginTx(soon(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = careless(tx)
		_ = tx.Rollback()
		s.wantStored(1) // why there is a guard
		s.exec("DELETE FROM effect")
		if err := fence.Do(s.ctx(), s.db, careless); !errors.Is(err, fence.ErrBroken) {
			t.Error(err)
		}
		s.wantStored(0)
		if err := fence.Do(s.ctx(), s.db, func(tx *sql.Tx) error { return s.insert(tx, 1) }); err != nil {
			t.Error(err)
		}
	})
}

// A COMMIT that SQLite refuses stores nothing, and the error says so.
func TestSQLiteRefusesCommit(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, s *scene, w way) {
		if s.kind != sqlite {
			return
		}
		s.exec("CREATE TABLE part (id INTEGER, of INTEGER REFERENCES effect (id) DEFERRABLE INITIALLY DEFERRED)")
		s.exec("PRAGMA foreign_keys = ON") // of the only connection in the pool
		err := w.run(s.ctx(), s, func(tx *sql.Tx) error {
			_, err := tx.Exec("INSERT INTO part VALUES (1, 1)")
			return err
		})
		if err == nil || errors.Is(err, fence.ErrUnknown) || !strings.Contains(err.Error(), "FOREIGN KEY") {
			t.Error(err)
		}
		s.wantStored(0)
	})
}

// A guard asks SQLite whether an error has ended the transaction. Then its rollback is no
// error, and the connection stays in the pool.
func TestGuardOfSQLite(t *testing.T) {
	t.Parallel()
	plain, err := sql.Open("sqlite", "")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	db := sql.OpenDB(fence.Guard(opener{plain.Driver(), filepath.Join(t.TempDir(), "effect.db")}))
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TEMP TABLE effect (id INTEGER PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		tx, err := db.BeginTx(soon(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("INSERT INTO effect VALUES (1)"); err != nil {
			t.Fatalf("the connection was replaced: %v", err)
		}
		if _, err := tx.Exec("INSERT OR ROLLBACK INTO effect VALUES (1)"); err == nil {
			t.Error("a key twice")
		}
		if _, err := tx.Exec("INSERT INTO effect VALUES (2)"); !errors.Is(err, fence.ErrBroken) {
			t.Errorf("after the end: %v", err)
		}
		if err := tx.Rollback(); err != nil {
			t.Errorf("rollback: %v", err)
		}
	}
}

// opener is the connector of a driver that has none.
type opener struct {
	of   driver.Driver
	name string
}

func (o opener) Connect(context.Context) (driver.Conn, error) { return o.of.Open(o.name) }
func (o opener) Driver() driver.Driver                        { return o.of }
