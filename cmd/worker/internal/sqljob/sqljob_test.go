package sqljob_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/cmd/worker/internal/sqljob"
	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/mysqlstore"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

type store interface {
	lease.Store
	Migrate(context.Context) error
	DB() *sql.DB
	Close() error
}

// each runs f on each kind of database, for a run that holds the lease.
func each(t *testing.T, f func(t *testing.T, ctx context.Context, s store, run jobs.Run)) {
	t.Helper()
	start := func(t *testing.T, s store, err error) {
		if err != nil {
			t.Fatal(err)
		}
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
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s, err := mysqlstore.Open(db.DSN)
		start(t, s, err)
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		s, err := sqlitestore.Open(filepath.Join(t.TempDir(), "lease.db"))
		start(t, s, err)
	})
}

func takeOver(ctx context.Context, t *testing.T, s store, owner string) uint64 {
	t.Helper()
	readings, err := s.Read(ctx, "billing")
	if err != nil {
		t.Fatal(err)
	}
	token, err := s.Acquire(ctx, lease.Acquire{Read: readings[0], Owner: owner, Heartbeat: 1, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func rows(t *testing.T, s store) int {
	t.Helper()
	var n int
	if err := s.DB().QueryRow("SELECT COUNT(*) FROM log").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

var note = sqljob.Statement{Text: "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", Args: []string{"tick", "token", "attempt", "job", "group", "missed"}}

func TestStatements(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, ctx context.Context, s store, run jobs.Run) {
		if err := sqljob.New(s.DB(), []sqljob.Statement{note, {Text: "UPDATE log SET attempt = attempt + 10"}})(ctx, run); err != nil {
			t.Fatal(err)
		}
		var got jobs.Run
		var tick string
		if err := s.DB().QueryRow("SELECT tick, token, attempt, job, grp, missed FROM log").Scan(&tick, &got.Token, &got.Attempt, &got.Job, &got.Group, &got.Missed); err != nil {
			t.Fatal(err)
		}
		if want := (jobs.Run{Token: run.Token, Attempt: 12, Job: "note", Group: "billing", Missed: 3}); got != want || tick != "2027-01-01 00:00:00.500000" {
			t.Errorf("got %+v at %s", got, tick)
		}
	})
}

// All statements take effect, or none.
func TestFailedStatement(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, ctx context.Context, s store, run jobs.Run) {
		err := sqljob.New(s.DB(), []sqljob.Statement{note, {Text: "INSERT INTO nowhere VALUES (1)"}})(ctx, run)
		if err == nil || !strings.HasPrefix(err.Error(), "statement 2: ") || !strings.Contains(err.Error(), "nowhere") {
			t.Error(err)
		}
		if n := rows(t, s); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

// A run whose worker has been replaced stores nothing.
func TestReplaced(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, ctx context.Context, s store, run jobs.Run) {
		takeOver(ctx, t, s, "next")
		if err := sqljob.New(s.DB(), []sqljob.Statement{note})(ctx, run); !errors.Is(err, fence.ErrFenced) {
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
	each(t, func(t *testing.T, ctx context.Context, s store, run jobs.Run) {
		slow := sqljob.Statement{Text: "INSERT INTO log (token) SELECT SLEEP(2)"}
		if _, ok := s.(*sqlitestore.Store); ok {
			slow.Text = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) INSERT INTO log (token) SELECT max(i) FROM n"
		}
		ctx, cancel := context.WithTimeoutCause(ctx, 100*time.Millisecond, jobs.ErrTimeout)
		defer cancel()
		if err := sqljob.New(s.DB(), []sqljob.Statement{note, slow})(ctx, run); !errors.Is(err, jobs.ErrTimeout) {
			t.Error(err)
		}
		if n := rows(t, s); n != 0 {
			t.Errorf("%d rows", n)
		}
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
	} {
		if err := sqljob.Check(text); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
