package dbtest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachGivesAFreshSchema(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, database dbtest.Database) {
		db := database.Open(t)
		var schema string
		var tables int
		const query = "SELECT DATABASE(), (SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE())"
		if err := db.QueryRowContext(t.Context(), query).Scan(&schema, &tables); err != nil {
			t.Fatal(err)
		}
		if schema != database.Config(t).DBName || tables != 0 {
			t.Errorf("schema %q with %d tables, want %q without any", schema, tables, database.Config(t).DBName)
		}
	})
}

func TestSchemaIsDroppedAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Kinds(t) {
		var used dbtest.Database
		t.Run(kind, func(t *testing.T) { used = dbtest.Fresh(t, kind) })
		db := dbtest.Fresh(t, kind).Open(t)
		var found int
		if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = ?",
			used.Config(t).DBName).Scan(&found); err != nil {
			t.Fatal(err)
		}
		if found != 0 {
			t.Errorf("%s: the schema %s is still there", kind, used.Config(t).DBName)
		}
	}
}

func TestDatabaseIsOfItsKind(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, database dbtest.Database) {
		kind, version, err := dbserver.Ask(t.Context(), database.DSN)
		if err != nil {
			t.Fatal(err)
		}
		if kind != dbserver.Dialect(database.Kind) {
			t.Errorf("%s is of kind %s, want %s", version, kind, database.Kind)
		}
	})
}

func TestPrivateServerEndsWithItsTest(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Kinds(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var server *dbserver.Server
			t.Run("use", func(t *testing.T) {
				server = dbtest.Private(t, kind, "--max-connections=17")
				db := dbtest.FreshOn(t, server.Kind(), server.DSN("")).Open(t)
				var limit int
				if err := db.QueryRowContext(t.Context(), "SELECT @@max_connections").Scan(&limit); err != nil || limit != 17 {
					t.Errorf("max_connections is %d, %v, want 17", limit, err)
				}
			})
			if pid := server.Pid(); pid != 0 {
				t.Errorf("process %d still runs", pid)
			}
		})
	}
}

// Without a database a test fails, and says what to do. It is not skipped.
func TestWithoutDatabase(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.v", "-test.run=^TestDatabaseIsOfItsKind$")
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "CRONLEASE_TEST_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--- FAIL") || !strings.Contains(string(out), "run `make test`") {
		t.Errorf("%v\n%s", err, out)
	}
}
