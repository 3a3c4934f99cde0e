package sqljob_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/cmd/worker/internal/sqljob"
	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/workertest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
	"github.com/cronlease/cronlease/store/postgresstore"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

type sqlStore interface {
	store.Leases
	store.Fences
	Migrate(context.Context) error
	DB() *sql.DB
	Close() error
}

// each runs f on each kind of database, for a run that holds the lease.
func each(t *testing.T, f func(t *testing.T, ctx context.Context, s sqlStore, run jobs.Run)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) { withRun(t, open(t, db), f) })
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		s, err := sqlitestore.Open(filepath.Join(t.TempDir(), "lease.db"))
		if err != nil {
			t.Fatal(err)
		}
		withRun(t, s, f)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		withRun(t, openPostgres(t), f)
	})
}

func openPostgres(t *testing.T) sqlStore {
	t.Helper()
	s, err := postgresstore.Open(workertest.StartPostgres(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t *testing.T, db dbtest.Database) sqlStore {
	t.Helper()
	s, err := mysqlstore.Open(db.DSN)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// withRun runs f for a run that holds the lease.
func withRun(t *testing.T, s sqlStore, f func(t *testing.T, ctx context.Context, s sqlStore, run jobs.Run)) {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	t.Cleanup(cancel)
	if err := errors.Join(s.Migrate(ctx), s.Prepare(ctx, "billing", time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DB().ExecContext(ctx, "CREATE TABLE log (tick VARCHAR(30), token BIGINT, attempt INTEGER, job VARCHAR(30), grp VARCHAR(30), missed INTEGER)"); err != nil {
		t.Fatal(err)
	}
	run := jobs.Run{
		Group: "billing", Job: "note", Owner: "me", Token: takeOver(ctx, t, s, "me"), Attempt: 2, Missed: 3,
		Tick: time.Date(2027, 1, 1, 1, 0, 0, 500_000_000, time.FixedZone("CET", 3600)),
	}
	f(t, lease.WithHold(ctx, lease.Hold{Store: s, Name: run.Group, Owner: run.Owner, Token: run.Token}), s, run)
}

func takeOver(ctx context.Context, t *testing.T, s sqlStore, owner string) uint64 {
	t.Helper()
	readings, err := s.Read(ctx, "billing")
	if err != nil {
		t.Fatal(err)
	}
	token, err := s.Acquire(ctx, store.Acquire{Read: readings[0], Owner: owner, Heartbeat: 1, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func rows(t *testing.T, s sqlStore) int {
	t.Helper()
	var n int
	if err := s.DB().QueryRow("SELECT COUNT(*) FROM log").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// start runs statements, of which each ? is one of a placeholder as the database has it.
func start(ctx context.Context, s sqlStore, run jobs.Run, statements ...sqljob.Statement) error {
	return startWith(ctx, s, nil, run, statements...)
}

func startWith(ctx context.Context, s sqlStore, kill *sql.DB, run jobs.Run, statements ...sqljob.Statement) error {
	if s.FenceDialect() == store.PostgreSQL {
		for i := range statements {
			for n := 1; strings.Contains(statements[i].Text, "?"); n++ {
				statements[i].Text = strings.Replace(statements[i].Text, "?", fmt.Sprintf("$%d", n), 1)
			}
		}
	}
	return sqljob.New(s.DB(), statements, sqljob.Options{Dialect: s.FenceDialect(), Grace: patience, Kill: kill})(ctx, run)
}

var note = sqljob.Statement{Text: "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", Args: []string{"tick", "token", "attempt", "job", "group", "missed"}}

func TestStatements(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, ctx context.Context, s sqlStore, run jobs.Run) {
		if err := start(ctx, s, run, note, sqljob.Statement{Text: "UPDATE log SET attempt = attempt + 10"}); err != nil {
			t.Fatal(err)
		}
		var got jobs.Run
		var tick string
		if err := s.DB().QueryRow("SELECT tick, token, attempt, job, grp, missed FROM log").Scan(&tick, &got.Token, &got.Attempt, &got.Job, &got.Group, &got.Missed); err != nil {
			t.Fatal(err)
		}
		if want := (jobs.Run{Token: run.Token, Attempt: 12, Job: "note", Group: "billing", Missed: 3}); !reflect.DeepEqual(got, want) || strings.TrimSuffix(tick, "+00") != "2027-01-01 00:00:00.500000" {
			t.Errorf("got %+v at %s", got, tick)
		}
	})
}

// A statement gets the arguments of its run, and NULL where there are none.
func TestArgsOfStatements(t *testing.T) {
	t.Parallel()
	set := sqljob.Statement{Text: "UPDATE log SET job = ?", Args: []string{"args"}}
	each(t, func(t *testing.T, ctx context.Context, s sqlStore, run jobs.Run) {
		for _, args := range []string{`{"day":7}`, ""} {
			if run.Args = nil; args != "" {
				run.Args = json.RawMessage(args)
			}
			if err := start(ctx, s, run, note, set); err != nil {
				t.Fatal(err)
			}
			var got sql.NullString
			if err := s.DB().QueryRow("SELECT MAX(job) FROM log").Scan(&got); err != nil || got.String != args || got.Valid != (args != "") {
				t.Errorf("got %+v, %v, want %q", got, err, args)
			}
		}
	})
}

// All statements take effect, or none.
func TestFailedStatement(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, ctx context.Context, s sqlStore, run jobs.Run) {
		err := start(ctx, s, run, note, sqljob.Statement{Text: "INSERT INTO nowhere VALUES (1)"})
		if err == nil || !strings.HasPrefix(err.Error(), "statement 2: ") || !strings.Contains(err.Error(), "nowhere") {
			t.Error(err)
		}
		if n := rows(t, s); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

// A server that takes no writes is named, although the driver hides its error.
func TestReadOnlySession(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		withRun(t, open(t, db), func(t *testing.T, ctx context.Context, _ sqlStore, run jobs.Run) {
			config := db.Config(t)
			config.RejectReadOnly = true
			config.Params = map[string]string{"tx_read_only": "1"}
			if db.Kind == dbserver.MySQL {
				config.Params = map[string]string{"transaction_read_only": "1"}
			}
			connector, err := mysql.NewConnector(config)
			if err != nil {
				t.Fatal(err)
			}
			pool := sql.OpenDB(connector)
			defer pool.Close()
			err = sqljob.New(pool, []sqljob.Statement{note}, sqljob.Options{Dialect: store.MySQL, Grace: patience})(ctx, run)
			if err == nil || !strings.Contains(err.Error(), "transaction_read_only") {
				t.Error(err)
			}
		})
	})
}

// A run whose worker has been replaced stores nothing.
func TestReplaced(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, ctx context.Context, s sqlStore, run jobs.Run) {
		takeOver(ctx, t, s, "next")
		if err := start(ctx, s, run, note); !errors.Is(err, fence.ErrFenced) {
			t.Error(err)
		}
		if n := rows(t, s); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

// The end of a run's context ends its statement, and is the error.
func TestTimeout(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, ctx context.Context, s sqlStore, run jobs.Run) {
		slow := sqljob.Statement{Text: "INSERT INTO log (token) SELECT SLEEP(2)"}
		switch s.FenceDialect() {
		case store.PostgreSQL:
			slow.Text = "INSERT INTO log (token) SELECT 1 FROM pg_sleep(2)"
		case store.SQLite:
			slow.Text = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) INSERT INTO log (token) SELECT max(i) FROM n"
		}
		ctx, cancel := context.WithTimeoutCause(ctx, 100*time.Millisecond, jobs.ErrTimeout)
		defer cancel()
		if err := start(ctx, s, run, note, slow); !errors.Is(err, jobs.ErrTimeout) {
			t.Error(err)
		}
		if n := rows(t, s); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

// What a run has started on the server is over when the run is.
func TestTimeoutOnTheServer(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		admin := db.Open(t)
		running := func() (n int) {
			if err := admin.QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'INSERT INTO log%'").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		withRun(t, open(t, db), func(t *testing.T, ctx context.Context, s sqlStore, run jobs.Run) {
			slow := sqljob.Statement{Text: "INSERT INTO log (token, attempt) SELECT SLEEP(600), ?", Args: []string{"attempt"}}
			for _, pool := range []*sql.DB{nil, admin} {
				ctx, cancel := context.WithCancelCause(ctx)
				done := make(chan error, 1)
				go func() {
					done <- startWith(ctx, s, pool, run, note, slow)
				}()
				look := time.NewTicker(time.Millisecond)
				for running() == 0 {
					<-look.C
				}
				cancel(jobs.ErrCancelled)
				if err := <-done; !errors.Is(err, jobs.ErrCancelled) {
					t.Error(err)
				}
				for late := time.After(patience); running() != 0; <-look.C {
					select {
					case <-late:
						t.Fatal("the statement goes on")
					default:
					}
				}
				look.Stop()
			}
			if n := rows(t, s); n != 0 {
				t.Errorf("%d rows", n)
			}
		})
	})
}

// The server itself ends what the run of a dead worker has left behind, where it
// can: MariaDB each statement, MySQL those that only read.
func TestLimitOnTheServer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, ctx context.Context, s sqlStore, run jobs.Run) {
		if s.FenceDialect() != store.MySQL {
			return // the statement ends with its process, or when its connection is lost
		}
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		variable, unit := "@@SESSION.max_statement_time", 1.0
		if strings.Contains(t.Name(), dbserver.MySQL) {
			variable, unit = "@@SESSION.max_execution_time", 1000
		}
		statement := sqljob.Statement{Text: "INSERT INTO log (token) SELECT " + variable}
		if err := sqljob.New(s.DB(), []sqljob.Statement{statement}, sqljob.Options{Grace: 4 * time.Second})(ctx, run); err != nil {
			t.Fatal(err)
		}
		var limit float64
		if err := s.DB().QueryRow("SELECT token FROM log").Scan(&limit); err != nil {
			t.Fatal(err)
		}
		if limit /= unit; limit < 30 || limit > 64 {
			t.Errorf("a limit of %v s", limit)
		}
		// The connection is used again, as it was.
		if err := s.DB().QueryRow("SELECT " + variable).Scan(&limit); err != nil || limit != 0 {
			t.Errorf("later a limit of %v: %v", limit, err)
		}
	})
}

// What a job sets in its session, no other one finds, also when it is done out of
// sight: by a function.
func TestJobsDoNotShareASession(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		withRun(t, open(t, db), func(t *testing.T, ctx context.Context, s sqlStore, run jobs.Run) {
			s.DB().SetMaxOpenConns(1)
			s.DB().SetMaxIdleConns(1)
			read := func(what string) (value sql.NullString) {
				t.Helper()
				if err := s.DB().QueryRow("SELECT " + what).Scan(&value); err != nil {
					t.Fatal(err)
				}
				return value
			}
			do := func(texts ...string) {
				t.Helper()
				var statements []sqljob.Statement
				for _, text := range texts {
					statements = append(statements, sqljob.Statement{Text: text})
				}
				if err := start(ctx, s, run, statements...); err != nil {
					t.Error(err)
				}
			}
			zone, mode, schema := read("@@SESSION.time_zone"), read("@@SESSION.sql_mode"), read("DATABASE()")
			if _, err := s.DB().ExecContext(ctx, "CREATE FUNCTION hidden() RETURNS INT DETERMINISTIC BEGIN SET SESSION time_zone = '+05:00'; SET @a = 2; RETURN GET_LOCK('hidden', 0); END"); err != nil {
				t.Fatal(err)
			}
			do("SET time_zone = '+09:00', SESSION sql_mode = ''", "USE information_schema")
			do("SELECT 1 INTO @a")
			do("SELECT hidden()")
			do("SELECT LAST_INSERT_ID(4711)")
			do("CREATE TEMPORARY TABLE log (token BIGINT)", "INSERT INTO log (token) VALUES (1)")
			for what, want := range map[string]sql.NullString{
				"@@SESSION.time_zone": zone, "@@SESSION.sql_mode": mode, "DATABASE()": schema, "@a": {},
				"IS_USED_LOCK('hidden') = CONNECTION_ID()": {}, "LAST_INSERT_ID()": {String: "0", Valid: true}, "(SELECT COUNT(*) FROM log)": {String: "0", Valid: true},
			} {
				if got := read(what); got != want {
					t.Errorf("%s: %v, want %v", what, got, want)
				}
			}
		})
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"DELETE FROM a":    "",
		"DELETE FROM a ; ": "",
		"":                 "empty",
		";":                "empty",
		"DELETE FROM a; b": "several",
		"ROLLBACK":         "one transaction already",
		"TRUNCATE a":       "MySQL commits",
		"CALL a()":         "",

		"SELECT 1 /*!50701 + 1 */":             "executable comment",
		"/*!999999 SELECT */ COMMIT":           "executable comment",
		"/*M! SELECT */ COMMIT":                "executable comment",
		"SELECT '/*! in a string */'":          "executable comment",
		"SET @a='#', autocommit=0":             "one transaction already",
		"SET @a=1, PASSWORD='x'":               "MySQL commits",
		"SELECT ' -- ', '#', '/*' FROM a":      "",
		"SELECT 1 --'\n; COMMIT; SELECT 2 --'": "several",
		"BINLOG 'x'":                           "BINLOG: what it runs",

		"EXECUTE IMMEDIATE 'COMMIT'":                             "EXECUTE: what it runs",
		"PREPARE a FROM 'COMMIT'":                                "PREPARE: what it runs",
		"IF 1 THEN COMMIT":                                       "IF: what it runs",
		"SET STATEMENT max_statement_time = 1 FOR EXECUTE a":     "FOR EXECUTE: what it runs",
		"SET STATEMENT max_statement_time = 1 FOR COMMIT":        "one transaction already",
		"SET STATEMENT max_statement_time = 1 FOR DELETE FROM a": "",
	} {
		if err := sqljob.Check(store.MySQL, text); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Ways out of the transaction that do not show at the beginning of a statement.
func TestCheckRefusesTricks(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"/*!999999 SELECT */ COMMIT",
		"/*!99999 SELECT */ COMMIT AND CHAIN",
		"/*M! SELECT */ COMMIT AND CHAIN",
		"/*!50701 SELECT */ COMMIT AND CHAIN",
		"/*! SELECT */ COMMIT",
		"/*!999999 SELECT */ CREATE TABLE a (b INT)",
		"/*!99999 SELECT */ LOCK INSTANCE FOR BACKUP",
		"/*!99999 /* */ SELECT */ COMMIT AND CHAIN",
		"/*M! SELECT */ XA START 'x'",
		"/*!50701 SELECT */ EXECUTE IMMEDIATE 'COMMIT AND CHAIN'",
		"/*!999999 SELECT */ SET SESSION sql_mode=''",
		"/*!50000 KILL CONNECTION_ID() */",
		"CREATE /*!99999 TEMPORARY */ TABLE a (b INT)",
		"CREATE OR REPLACE /*!999999 TEMPORARY */ TABLE a (b INT)",
		"ROLLBACK /*M! TO */",
		"ROLLBACK /*!99999 TO x */",
		"ROLLBACK /* */ WORK -- TO \n",
		"SET @a='#', autocommit=0",
		"SET @a='/*', autocommit=0",
		"SET @a=5--1, autocommit=0",
		"SET @a='\\', autocommit=0, @b=''",
		"SET @a=1, PASSWORD = 'x'",
		"SET STATEMENT max_statement_time=100--1 FOR COMMIT",
		"SET STATEMENT character_set_results='#' FOR COMMIT",
		"`a b`: BEGIN NOT ATOMIC SET @x='\\''; COMMIT AND CHAIN; SET @y='' ; END",
		"`a b`: LOOP SET @x='\\''; COMMIT AND CHAIN; LEAVE `a b`; SET @y='' ; END LOOP",
		"SELECT 1 /*! ' */; COMMIT; BEGIN; SELECT '1'",
		"SELECT 1 AS [']; COMMIT; BEGIN; SELECT 1 AS [']",
		"SELECT 1 --'\n; COMMIT; BEGIN; SELECT 2 --'",
		"(COMMIT)",
		"--\nCOMMIT",
		"/* /* */ COMMIT",
		"BINLOG 'x'",
		"SHUTDOWN",
		"PURGE BINARY LOGS BEFORE '2000-01-01'",
	} {
		if sqljob.Check(store.MySQL, text) == nil {
			t.Errorf("%q is let in", text)
		}
	}
}

// The transaction and its statements are spans below that of the run. What fails is marked, and no text of a statement and
// no argument gets into them.
func TestTrace(t *testing.T) {
	t.Parallel()
	s, err := sqlitestore.Open(filepath.Join(t.TempDir(), "lease.db"))
	if err != nil {
		t.Fatal(err)
	}
	withRun(t, s, func(t *testing.T, ctx context.Context, s sqlStore, run jobs.Run) {
		exporter := tracetest.NewInMemoryExporter()
		provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
		ctx, root := provider.Tracer("test").Start(ctx, "run note")
		run.Args = json.RawMessage(`{"key": "geheim"}`)
		bad := sqljob.Statement{Text: "INSERT INTO log (tick) SELECT json_extract(?, 'geheim')", Args: []string{"args"}}
		if err := start(ctx, s, run, note, bad); err == nil {
			t.Error("no error")
		}
		root.End()
		var got []string
		names := map[trace.SpanID]string{}
		for _, span := range exporter.GetSpans() {
			names[span.SpanContext.SpanID()] = span.Name
		}
		for _, span := range exporter.GetSpans() {
			got = append(got, fmt.Sprintf("%s in %q: %v", span.Name, names[span.Parent.SpanID()], span.Status.Code))
			if text := fmt.Sprint(span.Attributes, span.Status, span.Events); strings.Contains(text, "geheim") || strings.Contains(text, "INSERT") {
				t.Errorf("%s says %s", span.Name, text)
			}
		}
		want := []string{`statement 1 in "transaction": Unset`, `statement 2 in "transaction": Error`, `transaction in "run note": Error`, `run note in "": Unset`}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
