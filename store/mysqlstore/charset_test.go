package mysqlstore_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// injected counts the values whose quote ends the literal that they are written
// into.
func injected(t *testing.T, db interface {
	QueryRow(string, ...any) *sql.Row
}) int {
	t.Helper()
	found := 0
	for first := range 256 {
		var n int
		// A value that is no text in the character set may be refused.
		if err := db.QueryRow("SELECT COUNT(*) FROM secret WHERE text = ?", string([]byte{byte(first)})+"' OR 1=1 -- ").Scan(&n); err == nil && n > 0 {
			found++
		}
	}
	return found
}

// Each character set of the server is refused by name, or no value gets out of
// its literal in it, not even when the client writes values into statements.
func TestNoCharsetLetsValuesIn(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		admin := db.Open(t)
		exec(t, admin, "CREATE TABLE secret (text VARCHAR(100)) CHARACTER SET utf8mb4")
		exec(t, admin, "INSERT INTO secret VALUES ('one'), ('two')")
		rows, err := admin.Query("SELECT character_set_name FROM information_schema.character_sets")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var names []string
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		if err := rows.Err(); err != nil || len(names) < 30 {
			t.Fatal(names, err)
		}
		refused := 0
		for _, name := range names {
			s, err := mysqlstore.Open(with(t, db, func(c *mysql.Config) {
				c.InterpolateParams = true
				if err := c.Apply(mysql.Charset(name, "")); err != nil {
					t.Fatal(err)
				}
			}))
			if err != nil {
				refused++
				if !errors.Is(err, lease.ErrSetup) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "utf8mb4") {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if err := s.DB().PingContext(soon(t)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if n := injected(t, s.DB()); n != 0 {
				t.Errorf("%s: %d values get out of their literal", name, n)
			}
			closeStore(t, s)
		}
		if refused < 10 || refused > 15 {
			t.Errorf("%d of %d character sets are refused", refused, len(names))
		}

		// With the driver alone they do, in gbk.
		gbk := openSQL(t, with(t, db, func(c *mysql.Config) {
			c.InterpolateParams = true
			if err := c.Apply(mysql.Charset("gbk", "")); err != nil {
				t.Fatal(err)
			}
		}))
		if injected(t, gbk) == 0 {
			t.Error("the test finds nothing")
		}

		// And a statement that changes the character set of a connection opens no
		// way in, because values are sent beside statements by default.
		c := conn(t, open(t, db.DSN).DB())
		exec(t, c, "SET NAMES gbk")
		if n := injected(t, one{c, t}); n != 0 {
			t.Errorf("after SET NAMES gbk: %d values get out of their literal", n)
		}
	})
}

// one is a connection with the methods of a pool.
type one struct {
	*sql.Conn
	t *testing.T
}

func (o one) QueryRow(query string, values ...any) *sql.Row {
	return o.QueryRowContext(soon(o.t), query, values...)
}

// Servers that set the character set of each connection by themselves.
func TestTextIsUTF8(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		for name, options := range map[string][]string{
			"handshake":    {"--character-set-server=latin1", "--skip-character-set-client-handshake"},
			"init_connect": {"--init-connect=SET NAMES latin1"},
		} {
			if kind == dbserver.MySQL && name == "handshake" {
				continue // MySQL 9 has no such option
			}
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				server := dbtest.Private(t, kind, options...)
				db := dbtest.FreshOn(t, server.Kind(), server.DSN(""))
				admin := db.Open(t)
				exec(t, admin, "CREATE TABLE texts (a VARCHAR(10) CHARACTER SET utf8mb4, b VARCHAR(10) CHARACTER SET latin1)")
				dsn := userDSN(t, db, uniqueName("user"), "ALL ON @.*") // init_connect is not for administrators
				stored := func(dsn, a, b string) {
					t.Helper()
					s := open(t, dsn)
					exec(t, s.DB(), "DELETE FROM texts")
					exec(t, s.DB(), "INSERT INTO texts VALUES ('é', 'é')")
					exec(t, s.DB(), "INSERT INTO texts VALUES (?, ?)", "é", "é")
					if n := count(t, admin, "SELECT COUNT(*) FROM texts WHERE HEX(a) = ? AND HEX(b) = ?", a, b); n != 2 {
						var gotA, gotB string
						_ = admin.QueryRow("SELECT HEX(a), HEX(b) FROM texts").Scan(&gotA, &gotB)
						t.Errorf("%d of 2 are right: %s and %s", n, gotA, gotB)
					}
				}
				stored(dsn, "C3A9", "E9")
				stored(with(t, dbtest.Database{Kind: db.Kind, DSN: dsn}, func(c *mysql.Config) { c.Collation = "utf8mb4_bin" }), "C3A9", "E9")
				if server.Kind() == dbserver.MySQL {
					stored(with(t, dbtest.Database{Kind: db.Kind, DSN: dsn}, func(c *mysql.Config) { c.Collation = "utf8_general_ci" }), "C3A9", "E9")
				}
				// A DSN that chooses another one is taken at its word.
				stored(dsn+"?charset=latin1", "C383C2A9", "C3A9")
			})
		}
	}
}
