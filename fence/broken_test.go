package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// How a transaction breaks while its caller looks away.
var breaks = []struct {
	name string
	// half is what a plain transaction stores of 1, 2 and 3, where 2 is what broke.
	half int
	err  uint16
	only string // a dialect; empty: each
	do   func(t *testing.T, s *scene, tx *sql.Tx) error
}{
	// The server rolls 1 back and leaves the transaction; 3 is stored by itself.
	{"1213", 1, 1213, "", func(t *testing.T, s *scene, tx *sql.Tx) error {
		other, err := s.db.BeginTx(soon(t), nil)
		if err != nil {
			return err
		}
		defer func() { _ = other.Rollback() }()
		// The other has changed more, so that this one is the victim.
		for _, statement := range []string{"UPDATE big SET n = n + 1", "UPDATE pair SET n = n + 1 WHERE id = 1"} {
			if _, err := other.ExecContext(soon(t), statement); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(soon(t), "UPDATE pair SET n = n + 1 WHERE id = 2"); err != nil {
			return err
		}
		done := make(chan error, 1)
		go func() {
			_, err := other.ExecContext(soon(t), "UPDATE pair SET n = n + 1 WHERE id = 2")
			done <- err
		}()
		s.waitForStatement("UPDATE pair SET n = n + 1 WHERE id = 2")
		_, err = tx.ExecContext(soon(t), "UPDATE pair SET n = n + 1 WHERE id = 1")
		if err := <-done; err != nil {
			t.Errorf("the other was the victim: %v", err)
		}
		return err
	}},
	// The server rolls 2 back alone.
	{"1205", 2, 1205, "", func(t *testing.T, s *scene, tx *sql.Tx) error {
		other, err := s.db.BeginTx(soon(t), nil)
		if err != nil {
			return err
		}
		defer func() { _ = other.Rollback() }()
		if _, err := other.ExecContext(soon(t), "UPDATE pair SET n = n + 1 WHERE id = 1"); err != nil {
			return err
		}
		if _, err := tx.ExecContext(soon(t), "SET SESSION innodb_lock_wait_timeout = 1"); err != nil {
			return err
		}
		_, err = tx.ExecContext(soon(t), "UPDATE pair SET n = n + 1 WHERE id = 1")
		return err
	}},
	// A row that has changed since the snapshot: the server rolls all of it back.
	{"1020", 1, 1020, dbserver.MariaDB, func(t *testing.T, s *scene, tx *sql.Tx) error {
		for _, statement := range []string{"SET SESSION innodb_snapshot_isolation = ON", "SELECT n FROM pair"} {
			if _, err := tx.ExecContext(soon(t), statement); err != nil {
				return err
			}
		}
		s.exec("UPDATE pair SET n = n + 1 WHERE id = 1")
		_, err := tx.ExecContext(soon(t), "UPDATE pair SET n = n + 1 WHERE id = 1")
		return err
	}},
	// The connection is lost; the plain transaction is too.
	{"killed", 0, 0, "", func(t *testing.T, s *scene, tx *sql.Tx) error {
		var id int64
		if err := tx.QueryRowContext(soon(t), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			return err
		}
		s.exec(fmt.Sprint("KILL ", id))
		_, err := tx.ExecContext(soon(t), "UPDATE pair SET n = n + 1 WHERE id = 1")
		return err
	}},
	// The statement is ended while its rows come.
	{"1317 in a row", 2, 1317, "", func(t *testing.T, s *scene, tx *sql.Tx) error {
		var id int64
		if err := tx.QueryRowContext(soon(t), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			return err
		}
		// MySQL answers an interrupted SLEEP with 1, and goes on: so it is asked often.
		rows, err := tx.QueryContext(soon(t), "SELECT REPEAT('x', 100000), SLEEP(0.01) FROM big a CROSS JOIN big b")
		if err != nil {
			return err
		}
		defer rows.Close()
		for n := 0; rows.Next(); n++ {
			if n == 10 {
				s.exec(fmt.Sprint("KILL QUERY ", id))
			}
		}
		return rows.Err()
	}},
}

func (s *scene) tables() {
	s.exec("CREATE TABLE pair (id INTEGER PRIMARY KEY, n INTEGER)")
	s.exec("INSERT INTO pair VALUES (1, 0), (2, 0)")
	s.exec("CREATE TABLE big (id INTEGER PRIMARY KEY, n INTEGER)")
	s.exec("INSERT INTO big VALUES (1,0),(2,0),(3,0),(4,0),(5,0),(6,0),(7,0),(8,0),(9,0),(10,0),(11,0),(12,0),(13,0),(14,0),(15,0),(16,0)")
}

func TestBrokenTransaction(t *testing.T) {
	t.Parallel()
	for _, b := range breaks {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			eachServer(t, func(t *testing.T, s *scene) {
				if b.only != "" && dbserver.Dialect(s.kind) != b.only {
					return
				}
				s.tables()
				// careless stores 1 and 3, and does not look at what became of 2.
				var last error
				careless := func(tx *sql.Tx) error {
					if err := s.insert(tx, 1); err != nil {
						return err
					}
					err := b.do(t, s, tx)
					if err == nil || b.err != 0 && !is(err, b.err) {
						t.Errorf("it did not break: %v", err)
					}
					last = s.insert(tx, 3)
					return nil
				}
				tx, err := s.db.BeginTx(soon(t), nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := careless(tx); err != nil {
					t.Fatal(err)
				}
				_ = tx.Commit()
				s.wantStored(b.half) // why there is a guard
				s.exec("DELETE FROM effect")

				for _, w := range []way{ways[0], ways[1], ways[3]} {
					err := w.run(s.ctx(), s, careless)
					if !errors.Is(err, fence.ErrBroken) || !errors.Is(last, fence.ErrBroken) || b.err != 0 && (!is(err, b.err) || !is(last, b.err)) {
						t.Errorf("%s: %v, after the statement %v", w.name, err, last)
					}
					s.wantStored(0)
				}
				guarded, err := s.guarded().BeginTx(soon(t), nil)
				if err != nil {
					t.Fatal(err)
				}
				_ = careless(guarded)
				if err := guarded.Commit(); !errors.Is(err, fence.ErrBroken) {
					t.Errorf("a guarded transaction committed: %v", err)
				}
				s.wantStored(0)

				// A caller that looks finds the cause.
				err = fence.Do(s.ctx(), s.db, func(tx *sql.Tx) error { return b.do(t, s, tx) })
				if b.err != 0 && !is(err, b.err) {
					t.Errorf("the caller's error: %v", err)
				}
				s.exec("UPDATE pair SET n = 0") // nothing is locked any more
				s.wantStored(0)
			})
		})
	}
}

func is(err error, number uint16) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && e.Number == number
}

// MariaDB rolls the whole transaction back at some errors that are of one statement elsewhere, and says
// nothing: it goes on as if it were the same one.
func TestErrorThatHidesARollback(t *testing.T) {
	t.Parallel()
	const twice = "CREATE TEMPORARY TABLE twice (PRIMARY KEY (a)) SELECT 1 AS a UNION ALL SELECT 1"
	const unchecked = "SET unique_checks = 0, foreign_key_checks = 0"
	for name, c := range map[string]struct {
		first, statement string
		harmless         bool   // on MariaDB too
		only             string // a dialect; empty: each
	}{
		"a temporary table":             {statement: twice},
		"in a list":                     {statement: "DO 1; " + twice},
		"another one":                   {statement: "CREATE OR REPLACE TEMPORARY TABLE twice (a TINYINT) AS WITH w AS (SELECT 1000 AS a) SELECT a FROM w", only: dbserver.MariaDB},
		"with a setting":                {statement: "SET STATEMENT sort_buffer_size = 100000 FOR " + twice, only: dbserver.MariaDB},
		"of a query":                    {statement: "CREATE TEMPORARY TABLE twice SELECT (SELECT n FROM pair) AS a"},
		"of a procedure":                {statement: "CALL creates()"},
		"prepared by the server":        {first: "PREPARE p FROM '" + twice + "'", statement: "EXECUTE p"},
		"into an empty table":           {first: unchecked, statement: "INSERT INTO nothing VALUES (1), (1)"},
		"much into an empty table":      {first: unchecked, statement: "INSERT INTO nothing SELECT 1 FROM big a, big b, big c, big d"},
		"of a trigger":                  {first: unchecked, statement: "UPDATE source SET id = id + 1"},
		"a key twice":                   {statement: "INSERT INTO pair VALUES (1, 1)", harmless: true},
		"no temporary table":            {statement: "CREATE TEMPORARY TABLE t (a INT, a INT)", harmless: true},
		"a syntax error":                {statement: "CREATE TEMPORARY TABLE t SELECT FROM", harmless: true},
		"a procedure that says no":      {statement: "CALL says_no()", harmless: true},
		"a temporary table, and then 1": {first: "CREATE TEMPORARY TABLE t SELECT 1 AS a", statement: "INSERT INTO pair VALUES (1, 1)", harmless: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachServer(t, func(t *testing.T, s *scene) {
				if c.only != "" && dbserver.Dialect(s.kind) != c.only {
					return
				}
				s.tables()
				for _, statement := range []string{
					"CREATE TABLE nothing (id INTEGER PRIMARY KEY)", "CREATE TABLE source (id INTEGER)", "INSERT INTO source VALUES (1)",
					"CREATE TRIGGER copies AFTER UPDATE ON source FOR EACH ROW INSERT INTO nothing SELECT 1 FROM big a, big b, big c, big d",
					"CREATE PROCEDURE creates() " + twice, "CREATE PROCEDURE says_no() SIGNAL SQLSTATE '45000'",
				} {
					s.exec(statement)
				}
				for way, run := range map[string]func(fn func(*sql.Tx) error) error{
					"Do":              func(fn func(*sql.Tx) error) error { return fence.Do(s.ctx(), s.lists(false), fn) },
					"Do on a guard":   func(fn func(*sql.Tx) error) error { return fence.Do(s.ctx(), s.lists(true), fn) },
					"Commit":          func(fn func(*sql.Tx) error) error { return commit(s.ctx(), s.lists(true), fn) },
					"guarded, at all": func(fn func(*sql.Tx) error) error { return plainCommit(s.ctx(), s.lists(true), fn) },
				} {
					for _, query := range []bool{false, true} {
						var last error
						err := run(func(tx *sql.Tx) error {
							if c.first != "" {
								if _, err := tx.Exec(c.first); err != nil {
									return err
								}
							}
							if err := s.insert(tx, 1); err != nil {
								return err
							}
							if err := send(tx, c.statement, query); err == nil || errors.Is(err, fence.ErrUnfenced) {
								t.Errorf("%s: %v", way, err)
							}
							last = s.insert(tx, 3)
							return nil
						})
						if c.harmless || dbserver.Dialect(s.kind) != dbserver.MariaDB {
							if err != nil || last != nil {
								t.Errorf("%s: %v, after the statement %v", way, err, last)
							}
							s.wantStored(2)
							s.exec("DELETE FROM effect")
							continue
						}
						if !errors.Is(err, fence.ErrBroken) || !errors.Is(last, fence.ErrBroken) {
							t.Errorf("%s: %v, after the statement %v", way, err, last)
						}
						s.wantStored(0)
						s.exec("DELETE FROM effect")
					}
				}
			})
		})
	}
}

// send sends a statement that fails, as one that has no rows or one that may have some.
func send(tx *sql.Tx, statement string, query bool) error {
	if !query {
		_, err := tx.Exec(statement)
		return err
	}
	rows, err := tx.Query(statement)
	if err != nil {
		return err
	}
	defer rows.Close()
	for more := true; more; { // the error may come with any of them
		more = rows.Next() || rows.NextResultSet()
	}
	return errors.Join(rows.Err(), rows.Close())
}

// plainCommit is commit without a fence.
func plainCommit(ctx context.Context, db *sql.DB, fn func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// lists is a pool of one session that takes several statements at a time.
func (s *scene) lists(guarded bool) *sql.DB {
	config := s.at.Config(s.t)
	config.MultiStatements = true
	connector, err := mysql.NewConnector(config)
	if err != nil {
		s.t.Error(err)
	}
	if guarded {
		connector = fence.Guard(connector)
	}
	db := sql.OpenDB(connector)
	s.t.Cleanup(func() { _ = db.Close() })
	return db
}

// Without a guard, Commit sees that the server has left the transaction.
func TestCommitOfATransactionThatIsOver(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		s.tables()
		for _, statement := range []string{"", "COMMIT", "ROLLBACK", "CREATE TABLE more (id INTEGER)"} {
			err := commit(s.ctx(), s.db, func(tx *sql.Tx) error {
				if statement == "" {
					if err := breaks[0].do(t, s, tx); !is(err, 1213) {
						t.Error(err)
					}
					return nil
				}
				_, err := tx.Exec(statement)
				return err
			})
			if !errors.Is(err, fence.ErrUnfenced) || !strings.Contains(err.Error(), "ended") {
				t.Errorf("after %q: %v", statement, err)
			}
		}
	})
}

// A statement that ends the transaction out of sight of the guard breaks it,
// also when it begins another one.
func TestTransactionThatAProcedureEnds(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		for name, body := range map[string]string{
			"commits":         "COMMIT",
			"begins_again":    "BEGIN COMMIT; START TRANSACTION; END",
			"rolls_back":      "ROLLBACK",
			"changes_a_table": "CREATE TABLE IF NOT EXISTS more (id INTEGER)",
			"fails_after":     "BEGIN COMMIT; START TRANSACTION; INSERT INTO effect VALUES (7, 1), (7, 1); END",
			"keeps":           "INSERT INTO effect VALUES (7, 1)",
			"fails":           "INSERT INTO effect VALUES (7, 1), (7, 1)",
		} {
			s.exec("CREATE PROCEDURE " + name + "() " + body)
		}
		type send func(tx *sql.Tx, statement string) error
		exec := func(tx *sql.Tx, statement string) error { _, err := tx.Exec(statement); return err }
		prepared := func(tx *sql.Tx, statement string) error {
			stmt, err := tx.Prepare(statement)
			if err != nil {
				return err
			}
			defer stmt.Close()
			_, err = stmt.Exec()
			return err
		}
		query := func(tx *sql.Tx, statement string) error {
			rows, err := tx.Query(statement)
			if err != nil {
				return err
			}
			defer rows.Close()
			return rows.Err()
		}
		statements := map[string]bool{ // and whether the transaction goes on
			"CALL commits()": false, "CALL begins_again()": false, "CALL rolls_back()": false, "CALL changes_a_table()": false,
			"CALL fails_after()": false, "CALL keeps()": true, "CALL fails()": true,
		}
		if s.kind == dbserver.MariaDB {
			statements["EXECUTE IMMEDIATE 'COMMIT'"] = false
			statements["SET STATEMENT max_statement_time = 60 FOR EXECUTE IMMEDIATE 'COMMIT'"] = false
			statements["IF 1 THEN COMMIT; END IF"] = false
		}
		for statement, goesOn := range statements {
			for how, send := range map[string]send{"exec": exec, "prepared": prepared, "query": query} {
				for _, w := range []way{ways[0], ways[1], ways[3]} {
					if how == "prepared" && !strings.HasPrefix(statement, "CALL") {
						continue // the server does not prepare it
					}
					s.exec("DELETE FROM effect")
					err := w.run(s.ctx(), s, func(tx *sql.Tx) error {
						if err := s.insert(tx, 1); err != nil {
							return err
						}
						_ = send(tx, statement)
						_ = s.insert(tx, 2)
						return nil
					})
					if goesOn && err != nil || !goesOn && (!errors.Is(err, fence.ErrUnfenced) || !strings.Contains(err.Error(), "has ended the transaction")) {
						t.Errorf("%s, %s, %s: %v", w.name, how, statement, err)
					}
					var late int
					if err := s.db.QueryRow("SELECT COUNT(*) FROM effect WHERE id = 2").Scan(&late); err != nil || (late > 0) != goesOn {
						t.Errorf("%s, %s, %s: %d rows came after it: %v", w.name, how, statement, late, err)
					}
				}
			}
		}
	})
}

// Do looks whether the transaction is there before it commits, whatever the
// guard has seen: here the end came over the connection itself.
func TestDoOfATransactionThatIsOver(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		conn, err := s.db.Conn(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		err = conn.Raw(func(dc any) error {
			raw := dc.(interface {
				driver.Conn
				driver.ExecerContext
			})
			db := sql.OpenDB(one{raw})
			defer db.Close()
			db.SetMaxOpenConns(1)
			return fence.Do(s.ctx(), db, func(tx *sql.Tx) error {
				if err := s.insert(tx, 1); err != nil {
					return err
				}
				_, err := raw.ExecContext(soon(t), "COMMIT", nil)
				return err
			})
		})
		if !errors.Is(err, fence.ErrUnfenced) || !strings.Contains(err.Error(), "has ended the transaction") {
			t.Error(err)
		}
	})
}

// A transaction that ended out of sight is told as such, also when another has
// begun since, the function has failed, the context is over or the holder was
// replaced: what came before is stored.
func TestDoOfATransactionThatWasReplaced(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		mine := errors.New("the function's own")
		try := func(what string, after func(cancel func()) error) {
			s.exec("DELETE FROM effect")
			conn, err := s.db.Conn(soon(t))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := context.WithCancel(s.ctx())
			defer cancel()
			err = conn.Raw(func(dc any) error {
				raw := dc.(interface {
					driver.Conn
					driver.ExecerContext
				})
				db := sql.OpenDB(one{raw})
				defer db.Close()
				db.SetMaxOpenConns(1)
				return fence.Do(ctx, db, func(tx *sql.Tx) error {
					if err := s.insert(tx, 1); err != nil {
						return err
					}
					if _, err := raw.ExecContext(soon(t), "COMMIT AND CHAIN", nil); err != nil {
						return err
					}
					if err := s.insert(tx, 2); err != nil {
						return err
					}
					return after(cancel)
				})
			})
			if !errors.Is(err, fence.ErrUnfenced) || errors.Is(err, fence.ErrFenced) || !strings.Contains(err.Error(), "has ended the transaction") {
				t.Errorf("%s: %v", what, err)
			}
			s.wantStored(1)
		}
		try("nothing else", func(func()) error { return nil })
		try("the function fails", func(func()) error { return mine })
		try("the context ends", func(cancel func()) error { cancel(); return nil })
		try("replaced", func(func()) error { s.takeOver("next"); return nil })
	})
}

// one is the connector of a single connection.
type one struct{ conn driver.Conn }

func (o one) Connect(context.Context) (driver.Conn, error) { return o.conn, nil }
func (o one) Driver() driver.Driver                        { return &mysql.MySQLDriver{} }

// An error of one statement alone leaves the transaction as it is.
func TestHarmlessErrors(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		if s.kind == postgres {
			return // it takes nothing more after any error
		}
		for i, w := range []way{ways[0], ways[1], ways[3]} {
			err := w.run(s.ctx(), s, func(tx *sql.Tx) error {
				if err := s.insert(tx, 10*i); err != nil {
					return err
				}
				if err := s.insert(tx, 10*i); err == nil {
					t.Error("a key twice")
				}
				if _, err := tx.Exec("SELECT nonsense"); err == nil {
					t.Error("nonsense")
				}
				if err := tx.QueryRow("SELECT id FROM effect WHERE id = -1").Scan(new(int)); !errors.Is(err, sql.ErrNoRows) {
					t.Error(err)
				}
				if _, err := tx.Exec("INSERT INTO effect VALUES (?, ?)", make(chan int), 1); err == nil {
					t.Error("a channel")
				}
				return s.insert(tx, 10*i+1)
			})
			if err != nil {
				t.Error(err)
			}
			s.wantStored(2 * (i + 1))
		}
	})
}

// A statement whose own context ends takes its connection with it, on MySQL.
func TestContextOfAStatement(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		err := fence.Do(s.ctx(), s.db, func(tx *sql.Tx) error {
			if err := s.insert(tx, 1); err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(soon(t))
			go func() {
				s.waitForStatement("SELECT SLEEP(2)")
				cancel()
			}()
			if _, err := tx.ExecContext(ctx, "SELECT SLEEP(2)"); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			return nil
		})
		if !errors.Is(err, fence.ErrBroken) || !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		s.wantStored(0)
	})
}

// A transaction of another database is refused with an error that says so.
func TestOtherDatabase(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s *scene) {
		if s.kind == postgres {
			return // see TestPostgresOtherSchema
		}
		other := otherDatabase(t, s)
		err := fence.Do(s.ctx(), other, func(*sql.Tx) error { return nil })
		if err == nil || errors.Is(err, fence.ErrFenced) || errors.Is(err, fence.ErrUnfenced) || errors.Is(err, fence.ErrBroken) || !strings.Contains(err.Error(), "the transaction is") {
			t.Error(err)
		}
	})
}

// The connection of the work may be of another schema, with any settings, and its
// user needs to read the fence's table alone.
func TestOtherSchemaAndUser(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		db := otherSchema(t, s)
		if err := fence.Do(s.ctx(), db, func(tx *sql.Tx) error {
			_, err := tx.Exec("INSERT INTO own VALUES (1)")
			return err
		}); err != nil {
			t.Error(err)
		}
		s.takeOver("next")
		if err := fence.Do(s.ctx(), db, func(tx *sql.Tx) error {
			_, err := tx.Exec("INSERT INTO own VALUES (2)")
			return err
		}); !errors.Is(err, fence.ErrFenced) {
			t.Error(err)
		}
		var n int
		if err := db.QueryRow("SELECT COUNT(*) FROM own").Scan(&n); err != nil || n != 1 {
			t.Errorf("%d rows: %v", n, err)
		}
	})
}

var _ store.Fences = (*mysqlstore.Store)(nil)
