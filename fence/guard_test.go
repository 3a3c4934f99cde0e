package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"testing"

	"github.com/cronlease/cronlease/fence"
)

// oldDriver is a driver of the first days: it has nothing that is optional, and
// writes down what is sent.
type oldDriver struct {
	sent   []string
	fail   map[string]error // of a statement; "row" is of the second row
	answer func(text string) error
}

func (d *oldDriver) Connect(context.Context) (driver.Conn, error) { return (*oldConn)(d), nil }
func (d *oldDriver) Driver() driver.Driver                        { return d }
func (d *oldDriver) Open(string) (driver.Conn, error)             { return (*oldConn)(d), nil }

func (d *oldDriver) send(text string) error {
	d.sent = append(d.sent, text)
	if d.answer != nil {
		return d.answer(text)
	}
	return d.fail[text]
}

type (
	oldConn oldDriver
	oldTx   oldDriver
	oldStmt struct {
		d    *oldDriver
		text string
	}
	oldRows struct {
		d *oldDriver
		n int64
	}
)

func (c *oldConn) Prepare(text string) (driver.Stmt, error) {
	return &oldStmt{(*oldDriver)(c), text}, nil
}
func (c *oldConn) Begin() (driver.Tx, error) {
	return (*oldTx)(c), (*oldDriver)(c).send("begin")
}
func (c *oldConn) Close() error { return nil }

func (t *oldTx) Commit() error   { return (*oldDriver)(t).send("commit") }
func (t *oldTx) Rollback() error { return (*oldDriver)(t).send("rollback") }

func (s *oldStmt) Close() error  { return nil }
func (s *oldStmt) NumInput() int { return 1 }
func (s *oldStmt) Exec([]driver.Value) (driver.Result, error) {
	return driver.RowsAffected(1), s.d.send(s.text)
}
func (s *oldStmt) Query([]driver.Value) (driver.Rows, error) {
	return &oldRows{d: s.d}, s.d.send(s.text)
}

func (r *oldRows) Columns() []string { return []string{"n"} }
func (r *oldRows) Close() error      { return nil }
func (r *oldRows) Next(to []driver.Value) error {
	r.n++
	to[0] = r.n
	switch {
	case r.n == 2 && r.d.fail["row"] != nil:
		return r.d.fail["row"]
	case r.n == 3:
		return io.EOF
	}
	return nil
}

// A guard gives database/sql what a plain driver does, and takes each error of a
// driver that it does not know for the end of the transaction.
func TestGuardOfAPlainDriver(t *testing.T) {
	t.Parallel()
	bad := errors.New("bad")
	for name, c := range map[string]struct {
		fail  map[string]error
		sent  []string
		wrong bool
	}{
		"all well":         {nil, []string{"begin", "insert", "select", "update", "commit"}, false},
		"a statement":      {map[string]error{"insert": bad}, []string{"begin", "insert", "rollback"}, true},
		"a query":          {map[string]error{"select": bad}, []string{"begin", "insert", "select", "rollback"}, true},
		"a row":            {map[string]error{"row": bad}, []string{"begin", "insert", "select", "rollback"}, true},
		"the last one":     {map[string]error{"update": bad}, []string{"begin", "insert", "select", "update", "rollback"}, true},
		"the commit alone": {map[string]error{"commit": bad}, []string{"begin", "insert", "select", "update", "commit"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &oldDriver{fail: c.fail}
			db := sql.OpenDB(fence.Guard(d))
			defer db.Close()
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = tx.Exec("insert", 1)
			rows, err := tx.Query("select", 1)
			if err == nil {
				defer rows.Close()
				for rows.Next() {
					if err := rows.Scan(new(int)); err != nil {
						t.Error(err)
					}
				}
				if err := rows.Err(); !errors.Is(err, c.fail["row"]) {
					t.Errorf("rows: %v", err)
				}
			}
			_, _ = tx.Exec("update", 1)
			err = tx.Commit()
			if errors.Is(err, fence.ErrBroken) != c.wrong || c.wrong && !errors.Is(err, bad) || err == nil && c.fail != nil {
				t.Errorf("commit: %v", err)
			}
			if len(d.sent) != len(c.sent) {
				t.Fatalf("sent %q, want %q", d.sent, c.sent)
			}
			for i := range d.sent {
				if d.sent[i] != c.sent[i] {
					t.Errorf("sent %q, want %q", d.sent, c.sent)
				}
			}
			// The next transaction is a new one.
			d.fail = nil
			next, err := db.BeginTx(t.Context(), nil)
			if err == nil {
				_, err = next.Exec("insert", 1)
			}
			if err := errors.Join(err, next.Commit()); err != nil {
				t.Errorf("the next one: %v", err)
			}
			if _, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true}); err == nil {
				t.Error("a read-only transaction of a driver that has none")
			}
		})
	}
}
