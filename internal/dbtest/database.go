// Package dbtest gives tests their databases, private servers, and a network to break.
//
// The databases come from the environment, which `make test` fills by means of test/withdb. A test that finds
// none fails: it is never skipped.
package dbtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	shuffle "math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/rounds"
)

// limit bounds each single step of setting up and tearing down; they take milliseconds.
const limit = 2 * time.Minute

const howTo = "run `make test`, or set CRONLEASE_TEST_DSN=user:password@tcp(host:port)/"

// Database is an empty schema of a test's own.
type Database struct {
	// Kind is one of dbserver.Kinds; what the server speaks is dbserver.Dialect of it.
	Kind string
	// DSN is for github.com/go-sql-driver/mysql and names the schema. The user may do anything on the server.
	DSN string
}

// Config returns the parsed DSN, to change a setting of the connection. The driver's own log is off: tests break
// connections on purpose.
func (d Database) Config(tb testing.TB) *mysql.Config {
	tb.Helper()
	config, err := mysql.ParseDSN(d.DSN)
	if err != nil {
		tb.Fatalf("read the DSN of the test's database: %v", err)
	}
	config.Logger = &mysql.NopLogger{}
	return config
}

// Open returns connections to the database; they are closed when the test ends.
func (d Database) Open(tb testing.TB) *sql.DB {
	tb.Helper()
	return open(tb, d.Config(tb))
}

// serversVariable is set to "all" where tests that depend on the version run on all servers also in few rounds, as in
// `.ci/run`.
const serversVariable = "CRONLEASE_SERVERS"

// Each runs f as a parallel subtest, with a fresh schema that is dropped at the end: on each kind of database at hand if
// CRONLEASE_SERVERS=all or with more rounds than `make test` does, and there on one server for each dialect (see
// [Dialects]).
func Each(t *testing.T, f func(t *testing.T, db Database)) {
	t.Helper()
	if os.Getenv(serversVariable) == "all" {
		each(t, Kinds(t), f)
		return
	}
	each(t, Dialects(t), f)
}

// EachDialect is Each for tests that take long and depend on no version: CRONLEASE_SERVERS has no effect on it.
func EachDialect(t *testing.T, f func(t *testing.T, db Database)) {
	t.Helper()
	each(t, Dialects(t), f)
}

func each(t *testing.T, kinds []string, f func(t *testing.T, db Database)) {
	t.Helper()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f(t, Fresh(t, kind))
		})
	}
}

// EachB is EachDialect for benchmarks; they run one after the other.
func EachB(b *testing.B, f func(b *testing.B, db Database)) {
	b.Helper()
	for _, kind := range Dialects(b) {
		b.Run(kind, func(b *testing.B) { f(b, Fresh(b, kind)) })
	}
}

// Kinds returns the kinds of database at hand, at least one.
func Kinds(tb testing.TB) []string {
	tb.Helper()
	return kinds(tb, dbserver.Kinds())
}

// Dialects is Kinds with one server for each dialect: for tests that take long and depend on no version. Which of the
// two versions of MariaDB that is differs from call to call; in benchmarks it is the older one. With more rounds than
// `make test` does, it is Kinds.
func Dialects(tb testing.TB) []string {
	tb.Helper()
	if _, ok := tb.(*testing.B); ok {
		return kinds(tb, []string{dbserver.MariaDB, dbserver.MySQL})
	}
	all := Kinds(tb)
	if rounds.Of(tb, 1) > 1 {
		return all
	}
	shuffle.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	has := map[string]bool{}
	return slices.DeleteFunc(all, func(kind string) bool {
		dialect := dbserver.Dialect(kind)
		defer func() { has[dialect] = true }()
		return has[dialect]
	})
}

func kinds(tb testing.TB, wanted []string) []string {
	tb.Helper()
	if dsn := os.Getenv(dbserver.GivenVariable); dsn != "" {
		return []string{givenKind(tb, dsn)}
	}
	var kinds []string
	for _, kind := range wanted {
		if os.Getenv(dbserver.DSNVariableOf(kind)) != "" {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		tb.Fatal("no database for this test: " + howTo)
	}
	return kinds
}

// Fresh creates an empty schema on the server of that kind. It is dropped when the test ends.
func Fresh(tb testing.TB, kind string) Database {
	tb.Helper()
	return FreshOn(tb, kind, dsn(tb, kind))
}

// FreshOn is Fresh on the server behind the DSN, such as one of [Private]. A server that does not answer when the test
// ends keeps the schema.
func FreshOn(tb testing.TB, kind, dsn string) Database {
	tb.Helper()
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		tb.Fatalf("read the DSN of the %s server: %v", kind, err)
	}
	config.DBName = ""
	name := "cronlease_test_" + strings.ToLower(rand.Text()[:16])
	execute(tb, config.Clone(), "CREATE DATABASE "+name)
	tb.Cleanup(func() {
		// Not with the connections of the test: they may be broken on purpose.
		execute(tb, config.Clone(), "DROP DATABASE IF EXISTS "+name)
	})
	named := config.Clone()
	named.DBName = name
	return Database{Kind: kind, DSN: named.FormatDSN()}
}

// dsn returns the DSN of the server of that kind.
func dsn(tb testing.TB, kind string) string {
	tb.Helper()
	if dsn := os.Getenv(dbserver.GivenVariable); dsn != "" {
		if given := givenKind(tb, dsn); given != dbserver.Dialect(kind) {
			tb.Fatalf("the server of %s is %s, the test needs %s", dbserver.GivenVariable, given, kind)
		}
		return dsn
	}
	dsn := os.Getenv(dbserver.DSNVariableOf(kind))
	if dsn == "" {
		tb.Fatalf("no %s for this test: %s", kind, howTo)
	}
	return dsn
}

func givenKind(tb testing.TB, dsn string) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	kind, _, err := dbserver.Ask(ctx, dsn)
	if err != nil {
		tb.Fatalf("use %s: %v", dbserver.GivenVariable, err)
	}
	return kind
}

func open(tb testing.TB, config *mysql.Config) *sql.DB {
	tb.Helper()
	connector, err := mysql.NewConnector(config)
	if err != nil {
		tb.Fatalf("read the DSN: %v", err)
	}
	db := sql.OpenDB(connector)
	tb.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, driver.ErrBadConn) { // which a test may have killed
			tb.Errorf("close the database: %v", err)
		}
	})
	return db
}

// execute runs one statement on a connection of its own.
func execute(tb testing.TB, config *mysql.Config, statement string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	connector, err := mysql.NewConnector(config)
	if err != nil {
		tb.Fatalf("read the DSN: %v", err)
	}
	db := sql.OpenDB(connector)
	_, err = db.ExecContext(ctx, statement)
	if err := errors.Join(err, db.Close()); err != nil {
		tb.Fatalf("%s on %s: %v", statement, config.Addr, err)
	}
}
