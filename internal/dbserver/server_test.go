package dbserver_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/rounds"
)

// patience is how long a test waits for what should come soon.
const patience = 2 * time.Minute

// parentVariable makes the test program the process that TestServerDiesWithItsParent kills. It holds the kind of server.
const parentVariable = "CRONLEASE_DBSERVER_PARENT"

// portsVariable makes the test program another process that asks for ports.
const portsVariable = "CRONLEASE_DBSERVER_PORTS"

func TestMain(m *testing.M) {
	if os.Getenv(portsVariable) != "" {
		fmt.Print(somePorts())
		return
	}
	if kind := os.Getenv(parentVariable); kind != "" {
		parentProcess(kind)
		return
	}
	goleak.VerifyTestMain(m)
}

// each runs f on each kind whose program is on this machine. MariaDB must be; where another cannot be had, the scripts have
// said so.
func each(t *testing.T, f func(t *testing.T, path string)) {
	t.Helper()
	// Of three kinds, two speak almost the same.
	for _, kind := range rounds.Pick(t, dbserver.Kinds(), 2) {
		path, err := dbserver.Find(t.Context(), kind)
		if kind != dbserver.MariaDB && errors.Is(err, dbserver.ErrNoProgram) {
			t.Logf("no %s on this machine", kind)
			continue
		}
		if err != nil {
			t.Fatalf("%v: run `make test`, or scripts/install-databases", err)
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f(t, path)
		})
	}
}

// started returns a running server and connections to it.
func started(t *testing.T, path string) (*dbserver.Server, *sql.DB) {
	t.Helper()
	server, err := dbserver.New(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return server, connect(t, server)
}

// connect returns connections to the server.
func connect(t *testing.T, server *dbserver.Server) *sql.DB {
	t.Helper()
	config, err := mysql.ParseDSN(server.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	config.Logger = &mysql.NopLogger{} // connections break here on purpose
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

func execute(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func text(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	var value string
	if err := db.QueryRowContext(t.Context(), query).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

func TestDataSurviveKillAndStop(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, path string) {
		server, db := started(t, path)
		addr := server.Addr()
		execute(t, db, "CREATE DATABASE d", "CREATE TABLE d.t (n INT) ENGINE=InnoDB", "INSERT INTO d.t VALUES (1)")
		for i, end := range []func() error{
			server.Kill,
			func() error { return server.Stop(t.Context()) },
		} {
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if err := db.PingContext(t.Context()); err == nil {
				t.Error("the server answers after its end")
			}
			if err := server.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if server.Addr() != addr {
				t.Errorf("address %s after a restart, want %s", server.Addr(), addr)
			}
			if got, want := text(t, db, "SELECT COUNT(*) FROM d.t"), fmt.Sprint(i+1); got != want {
				t.Errorf("%s rows after a restart, want %s", got, want)
			}
			execute(t, db, "INSERT INTO d.t VALUES (2)")
		}
	})
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, path string) {
		server, db := started(t, path)
		if err := server.Pause(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := db.ExecContext(ctx, "DO 1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("statement on a paused server: %v, want DeadlineExceeded", err)
		}
		if err := server.Resume(); err != nil {
			t.Fatal(err)
		}
		execute(t, db, "DO 1")
		// A paused server can be stopped.
		if err := server.Pause(); err != nil {
			t.Fatal(err)
		}
		if err := server.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestStopKillsAtTheEndOfItsContext(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, path string) {
		server, _ := started(t, path)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := server.Stop(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("stop: %v, want Canceled", err)
		}
		if pid := server.Pid(); pid != 0 {
			t.Errorf("process %d still runs", pid)
		}
	})
}

func TestWhatTheProjectNeedsOfAServer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, path string) {
		server, db := started(t, path)
		if kind, _, err := dbserver.Ask(t.Context(), server.DSN("")); err != nil || kind != server.Kind() {
			t.Errorf("kind %q, %v, want %q", kind, err, server.Kind())
		}
		if got := text(t, db, "SELECT @@bind_address"); got != "127.0.0.1" {
			t.Errorf("the server listens on %s", got)
		}
		if got := text(t, db, "SELECT @@innodb_flush_log_at_trx_commit"); got != "1" {
			t.Errorf("innodb_flush_log_at_trx_commit is %s", got)
		}
		if server.Kind() == dbserver.MySQL {
			const query = "SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Uptime'"
			text(t, db, query)
		}
		checkTimeZones(t, db)
	})
}

// checkTimeZones checks that named time zones are there and change with the seasons.
func checkTimeZones(t *testing.T, db *sql.DB) {
	t.Helper()
	for _, test := range []struct{ at, zone, want string }{
		{"2026-03-29 00:59:59", "Europe/Berlin", "2026-03-29 01:59:59"},
		{"2026-03-29 01:00:00", "Europe/Berlin", "2026-03-29 03:00:00"},
		{"2026-10-25 00:59:59", "Europe/Berlin", "2026-10-25 02:59:59"},
		{"2026-10-25 01:00:00", "Europe/Berlin", "2026-10-25 02:00:00"},
		{"2036-07-01 12:00:00", "Europe/Berlin", "2036-07-01 14:00:00"},
		{"1970-06-01 12:00:00", "Europe/Berlin", "1970-06-01 13:00:00"},
		{"2026-07-01 12:00:00", "America/New_York", "2026-07-01 08:00:00"},
		{"2026-07-01 12:00:00", "Australia/Lord_Howe", "2026-07-01 22:30:00"},
		{"2026-01-01 12:00:00", "Asia/Kolkata", "2026-01-01 17:30:00"},
		{"2026-01-01 12:00:00", "UTC", "2026-01-01 12:00:00"},
	} {
		query := fmt.Sprintf("SELECT CAST(CONVERT_TZ('%s', '+00:00', '%s') AS CHAR)", test.at, test.zone)
		if got := text(t, db, query); got != test.want {
			t.Errorf("%s UTC in %s is %s, want %s", test.at, test.zone, got, test.want)
		}
	}
	execute(t, db, "SET time_zone = 'Europe/Berlin'")
}

func TestCallsInTheWrongState(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, path string) {
		server, err := dbserver.New(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		for name, call := range map[string]func() error{
			"Stop": func() error { return server.Stop(t.Context()) },
			"Kill": server.Kill, "Pause": server.Pause, "Resume": server.Resume,
		} {
			if err := call(); !errors.Is(err, dbserver.ErrNotRunning) {
				t.Errorf("%s before Start: %v, want ErrNotRunning", name, err)
			}
		}
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(t.Context()); !errors.Is(err, dbserver.ErrRunning) {
			t.Errorf("Start twice: %v, want ErrRunning", err)
		}
		folder := server.Folder()
		for range 2 {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the folder after Close: %v, want ErrNotExist", err)
		}
		if err := server.Start(t.Context()); !errors.Is(err, dbserver.ErrClosed) {
			t.Errorf("Start after Close: %v, want ErrClosed", err)
		}
	})
}

func TestStartTellsWhyItFailed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, path string) {
		server, err := dbserver.New(t.Context(), path, "--no-such-option")
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		err = server.Start(t.Context())
		if err == nil || !strings.Contains(err.Error(), "no-such-option") {
			t.Errorf("start: %v, want what the server says", err)
		}
		if pid := server.Pid(); pid != 0 {
			t.Errorf("process %d runs", pid)
		}
	})
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, path string) {
		server, err := dbserver.New(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := server.Start(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("start: %v, want Canceled", err)
		}
		if err := server.Start(t.Context()); err != nil {
			t.Errorf("start after a start that was given up: %v", err)
		}
	})
}

func TestFindUsesTheProgramOfTheEnvironment(t *testing.T) {
	fake := filepath.Join(t.TempDir(), "server")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\necho 'mysqld  Ver 9.9.9'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(dbserver.VariableOf(dbserver.MySQL), fake)
	t.Setenv(dbserver.VariableOf(dbserver.MariaDB), fake)
	if got, err := dbserver.Find(t.Context(), dbserver.MySQL); got != fake || err != nil {
		t.Errorf("found %q, %v, want %q", got, err, fake)
	}
	t.Setenv(dbserver.VariableOf(dbserver.NewMariaDB), fake)
	for _, kind := range []string{dbserver.MariaDB, dbserver.NewMariaDB} {
		if got, err := dbserver.Find(t.Context(), kind); err == nil {
			t.Errorf("found %q as %s, want an error: it says it is MySQL", got, kind)
		}
	}
	t.Setenv(dbserver.VariableOf(dbserver.MySQL), fake+"-missing")
	if got, err := dbserver.Find(t.Context(), dbserver.MySQL); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("found %q, %v, want ErrNotExist", got, err)
	}
}

func TestFindWithoutPath(t *testing.T) {
	empty := t.TempDir()
	t.Setenv("PATH", empty)
	t.Setenv("CRONLEASE_MYSQL_DIR", empty)
	t.Setenv("CRONLEASE_MARIADB_NEW_DIR", empty)
	t.Setenv(dbserver.VariableOf(dbserver.MySQL), "")
	t.Setenv(dbserver.VariableOf(dbserver.NewMariaDB), "")
	// It also looks in usual places, which a test cannot empty.
	if _, err := dbserver.Find(t.Context(), dbserver.MySQL); err != nil && !errors.Is(err, dbserver.ErrNoProgram) {
		t.Errorf("error %v, want ErrNoProgram", err)
	}
	if got, err := dbserver.Find(t.Context(), dbserver.NewMariaDB); !errors.Is(err, dbserver.ErrNoProgram) {
		t.Errorf("found %q, %v, want ErrNoProgram", got, err)
	}
}

// parentProcess starts a server, tells where it is, and waits to be killed.
func parentProcess(kind string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path, err := dbserver.Find(ctx, kind)
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := dbserver.New(ctx, path)
	if err == nil {
		err = server.Start(ctx)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(server.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends, if it does not kill this
	_ = server.Close()
}

// Ports that were handed out before anybody listens there are not handed out again, not even to another process.
func TestRandomPort(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	look := func(ports string) {
		for port := range strings.FieldsSeq(ports) {
			if number, err := strconv.Atoi(port); err != nil || number < 20000 || number >= 32000 || seen[port] {
				t.Errorf("port %s: seen %v", port, seen[port])
			}
			seen[port] = true
		}
	}
	look(somePorts())
	if runtime.GOOS == "linux" {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), portsVariable+"=1")
		ports, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		look(string(ports))
	}
}

// somePorts returns so many that two processes that do not know of each other would have some in common.
func somePorts() string {
	var b strings.Builder
	for range 500 {
		fmt.Fprintln(&b, dbserver.RandomPort())
	}
	return b.String()
}
