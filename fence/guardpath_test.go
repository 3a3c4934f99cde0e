package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/cronlease/cronlease/fence"
)

// A statement that would end the transaction is refused, however and whenever it was
// prepared, and a replaced holder stores nothing.
func TestGuardOfAStatementPreparedBefore(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		s.exec("CREATE TABLE staging (id INTEGER PRIMARY KEY)")
		db := s.guarded()
		db.SetMaxOpenConns(1)
		for _, text := range []string{"TRUNCATE TABLE staging", "COMMIT", "CREATE TABLE IF NOT EXISTS more (id INTEGER)"} {
			s.hold.Owner, s.hold.Token = "me", s.takeOver("me")
			stmt, err := db.Prepare(text)
			if err != nil {
				t.Fatal(err)
			}
			defer stmt.Close()
			ctx := s.ctx()
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.insert(tx, 1); err != nil {
				t.Fatal(err)
			}
			s.takeOver("next")
			if _, err := tx.Stmt(stmt).Exec(); err == nil { //nolint:sqlclosecheck // tx closes it
				t.Errorf("%s was let through", text)
			}
			if err := tx.StmtContext(ctx, stmt).QueryRow().Scan(new(any)); err == nil || errors.Is(err, sql.ErrNoRows) { //nolint:sqlclosecheck // tx closes it
				t.Errorf("%s was let through as a query", text)
			}
			if err := s.insert(tx, 2); err != nil {
				t.Error(err)
			}
			if err := fence.Commit(ctx, tx); !errors.Is(err, fence.ErrFenced) {
				t.Errorf("after %s: %v", text, err)
			}
			s.wantStored(0)
			if _, err := stmt.Exec(); err != nil { // outside of a transaction
				t.Errorf("%s: %v", text, err)
			}
		}
	})
}

// MariaDB commits before it makes a temporary sequence, other than before a temporary table.
// One that only its server can tell is seen afterwards.
func TestTemporarySequence(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		for _, w := range ways {
			s.exec("DELETE FROM effect")
			s.hold.Owner, s.hold.Token = "me", s.takeOver("me")
			err := w.run(s.ctx(), s, func(tx *sql.Tx) error {
				s.takeOver("next")
				if err := s.insert(tx, 1); err != nil {
					return err
				}
				_, _ = tx.Exec("CREATE OR REPLACE TEMPORARY SEQUENCE made") // MySQL has none
				_ = s.insert(tx, 2)
				return nil
			})
			if err == nil {
				t.Errorf("%s: no error", w.name)
			}
			if w.name == "Commit" { // of a pool without a guard, which finds out afterwards
				continue
			}
			s.wantStored(0)
		}
	})
}

// newDriver is an oldDriver with all that is optional.
type newDriver struct{ *oldDriver }

func (d newDriver) Connect(context.Context) (driver.Conn, error) {
	return &newConn{(*oldConn)(d.oldDriver), d.oldDriver}, nil
}

type (
	newConn struct {
		*oldConn // for what is not here
		d        *oldDriver
	}
	newStmt struct{ oldStmt }
)

func (c *newConn) Prepare(text string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), text)
}

func (c *newConn) PrepareContext(_ context.Context, text string) (driver.Stmt, error) {
	return &newStmt{oldStmt{c.d, text}}, c.d.send("prepare " + text)
}
func (c *newConn) Begin() (driver.Tx, error) { return (*oldTx)(c.d), c.d.send("begin") }
func (c *newConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return c.Begin()
}

func (c *newConn) ExecContext(ctx context.Context, text string, _ []driver.NamedValue) (driver.Result, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return driver.RowsAffected(1), c.d.send(text)
}

func (c *newConn) QueryContext(_ context.Context, text string, _ []driver.NamedValue) (driver.Rows, error) {
	return &oldRows{d: c.d}, c.d.send(text)
}
func (c *newConn) CheckNamedValue(*driver.NamedValue) error { return nil }
func (c *newConn) Ping(context.Context) error               { return c.d.send("ping") }
func (c *newConn) ResetSession(context.Context) error       { return c.d.fail["reset"] }
func (c *newConn) IsValid() bool                            { return true }

func (s *newStmt) ExecContext(context.Context, []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), s.d.send(s.text)
}

func (s *newStmt) QueryContext(context.Context, []driver.NamedValue) (driver.Rows, error) {
	return &oldRows{d: s.d}, s.d.send(s.text)
}
func (s *newStmt) CheckNamedValue(*driver.NamedValue) error  { return nil }
func (s *newStmt) ColumnConverter(int) driver.ValueConverter { return driver.DefaultParameterConverter }

// No method of a guarded connection or statement sends anything that would end its
// transaction, and none sends anything in a transaction that is broken. A method
// that is not named here fails the test: it has to say what it sends.
func TestNoMethodPassesTheGuard(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	const text = "COMMIT"
	var named []driver.NamedValue
	// What a method sends: "text" of it, or nothing.
	conn := map[string]func(c driver.Conn, text string) error{
		"Begin": func(c driver.Conn, _ string) error { _, err := c.Begin(); return err }, //nolint:staticcheck // drivers have it
		"BeginTx": func(c driver.Conn, _ string) error {
			_, err := c.(driver.ConnBeginTx).BeginTx(ctx, driver.TxOptions{})
			return err
		},
		"CheckNamedValue": func(c driver.Conn, _ string) error {
			return c.(driver.NamedValueChecker).CheckNamedValue(&driver.NamedValue{})
		},
		"ExecContext": func(c driver.Conn, text string) error {
			_, err := c.(driver.ExecerContext).ExecContext(ctx, text, named)
			return err
		},
		"IsValid": func(c driver.Conn, _ string) error { _ = c.(driver.Validator).IsValid(); return nil },
		"Ping":    func(c driver.Conn, _ string) error { return c.(driver.Pinger).Ping(ctx) },
		"Prepare": func(c driver.Conn, text string) error { _, err := c.Prepare(text); return err },
		"PrepareContext": func(c driver.Conn, text string) error {
			_, err := c.(driver.ConnPrepareContext).PrepareContext(ctx, text)
			return err
		},
		"QueryContext": func(c driver.Conn, text string) error {
			_, err := c.(driver.QueryerContext).QueryContext(ctx, text, named)
			return err
		},
		"ResetSession": func(c driver.Conn, _ string) error { return c.(driver.SessionResetter).ResetSession(ctx) },
	}
	stmt := map[string]func(s driver.Stmt) error{
		"CheckNamedValue": func(s driver.Stmt) error { return s.(driver.NamedValueChecker).CheckNamedValue(&driver.NamedValue{}) },
		"ColumnConverter": func(s driver.Stmt) error { _ = s.(driver.ColumnConverter).ColumnConverter(0); return nil }, //nolint:staticcheck // drivers have it
		"Exec":            func(s driver.Stmt) error { _, err := s.Exec(nil); return err },                             //nolint:staticcheck // drivers have it
		"ExecContext":     func(s driver.Stmt) error { _, err := s.(driver.StmtExecContext).ExecContext(ctx, named); return err },
		"NumInput":        func(s driver.Stmt) error { _ = s.NumInput(); return nil },
		"Query":           func(s driver.Stmt) error { _, err := s.Query(nil); return err }, //nolint:staticcheck // drivers have it
		"QueryContext":    func(s driver.Stmt) error { _, err := s.(driver.StmtQueryContext).QueryContext(ctx, named); return err },
		"Close":           func(s driver.Stmt) error { return s.Close() }, // the last, since it comes first otherwise
	}
	for _, c := range []struct {
		modern, broken bool
		sends          []string
	}{{false, false, nil}, {false, true, nil}, {true, false, []string{"ping"}}, {true, true, nil}} {
		t.Run(fmt.Sprintf("modern %v, broken %v", c.modern, c.broken), func(t *testing.T) {
			t.Parallel()
			d := &oldDriver{}
			connector := driver.Connector(d)
			if c.modern {
				connector = newDriver{d}
			}
			dc, err := fence.Guard(connector).Connect(ctx)
			if err != nil {
				t.Fatal(err)
			}
			before, err := dc.Prepare(text)
			if err != nil {
				t.Fatal(err)
			}
			insert, err := dc.Prepare("INSERT")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := dc.Begin(); err != nil { //nolint:staticcheck // drivers have it
				t.Fatal(err)
			}
			if c.broken {
				d.fail = map[string]error{"INSERT": errors.New("bad")}
				if _, err := insert.Exec(nil); err == nil { //nolint:staticcheck // drivers have it
					t.Fatal("it is not broken")
				}
			}
			d.sent = nil
			methods := func(v any) (names []string) {
				for m := range reflect.TypeOf(v).Methods() {
					names = append(names, m.Name)
				}
				return names
			}
			for _, method := range methods(dc) {
				call := conn[method]
				switch {
				case method == "Close": // it ends the transaction, with the session
					continue
				case call == nil:
					t.Errorf("a guard's %s has no case here", method)
					continue
				}
				_ = call(dc, text)
				if c.broken {
					_ = call(dc, "SELECT")
				}
			}
			for _, method := range methods(before) {
				if stmt[method] == nil {
					t.Errorf("a guarded statement's %s has no case here", method)
					continue
				}
				_ = stmt[method](before)
				if c.broken {
					_ = stmt[method](insert)
				}
			}
			if !slices.Equal(d.sent, c.sends) {
				t.Errorf("sent %q, want %q", d.sent, c.sends)
			}
		})
	}
}
