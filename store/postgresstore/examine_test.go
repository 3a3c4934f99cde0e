package postgresstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/pgserver"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/postgresstore"
)

// wants fails unless a finding of that check is of that grade, and has these parts.
func wants(t *testing.T, found []store.Finding, check string, grade store.Grade, text, cure string) {
	t.Helper()
	for _, f := range found {
		if f.Check == check && f.Grade == grade && strings.Contains(f.Text, text) && strings.Contains(f.Cure, cure) {
			return
		}
	}
	t.Errorf("no finding %s %v with %q and %q in:", check, grade, text, cure)
	for _, f := range found {
		t.Errorf("%s %v: %s (%s)", f.Check, f.Grade, f.Text, f.Cure)
	}
}

// A server as it comes is good in all that does not depend on the machine.
func TestExamine(t *testing.T) {
	t.Parallel()
	server := private(t)
	s := open(t, server.URL("postgres"))
	wants(t, s.Examine(soon(t), 0), "server", store.Problem, "there are no tables", "run Migrate")
	wants(t, s.Examine(soon(t), 0), "growth", store.Unknown, "see server", "")
	if err := s.Migrate(soon(t)); err != nil {
		t.Fatal(err)
	}
	for _, f := range s.Examine(soon(t), 0) {
		if f.Grade != store.Good && f.Check != "commits" || f.Text == "" || strings.Contains(f.Text, "\n") {
			t.Errorf("%s %v: %s (%s)", f.Check, f.Grade, f.Text, f.Cure)
		}
	}
	var rows int
	if err := s.DB().QueryRowContext(soon(t), "SELECT count(*) FROM cronlease_replica").Scan(&rows); err != nil || rows > 0 {
		t.Errorf("%d rows are left behind, %v", rows, err)
	}

	admin := connect(t, server.URL("postgres"))
	run(t, admin, "ALTER ROLE cronlease SET statement_timeout = '2s'")
	run(t, admin, "ALTER ROLE cronlease SET default_transaction_read_only = on")
	wants(t, open(t, server.URL("postgres")).Examine(soon(t), 0), "server", store.Problem, "read-only", "default_transaction_read_only = off")
	wants(t, open(t, server.URL("postgres")).Examine(soon(t), 0), "settings", store.Warning, "statement_timeout is 2s, and a heartbeat may take 3s", "ALTER ROLE")

	missing := open(t, strings.Replace(server.URL("nowhere"), "cronlease@", "cronlease:secret@", 1)).Examine(soon(t), 0)
	wants(t, missing, "server", store.Problem, "", "create the database")
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	silent := s.Examine(soon(t), 0)
	wants(t, silent, "server", store.Problem, "the server does not answer", "look whether it runs")
	wants(t, silent, "commits", store.Unknown, "not looked at: see server", "")
}

// What a server shows that is not well has its grade and its cure.
func TestJudgements(t *testing.T) {
	t.Parallel()
	all := []store.Finding{
		postgresstore.JudgeOpen(7, "app", "idle in transaction", time.Hour, 0), postgresstore.JudgeOpen(7, "app", "active", time.Hour, 2),
		postgresstore.JudgeConnections(88, 97, -1), postgresstore.JudgeConnections(3, 97, 4),
		postgresstore.JudgeDurability(postgresstore.Durability(false, true, "on", "", 0)), postgresstore.JudgeDurability(postgresstore.Durability(true, false, "on", "", 0)),
		postgresstore.JudgeReplication(postgresstore.Durability(true, true, "on", "", 2), 0, 0),
		postgresstore.JudgeReplication(postgresstore.Durability(true, true, "local", "a", 1), 0, 0),
		postgresstore.JudgeReplication(postgresstore.Durability(true, true, "on", "a", 0), 0, 0),
		postgresstore.JudgeReplication(postgresstore.Durability(true, true, "on", "a", 1), 1, 5<<30),
		postgresstore.JudgeGrowth(6_000_000, 0, "", true, 0), postgresstore.JudgeGrowth(0, 50_000, "cronlease_lease", true, 0),
		postgresstore.JudgeGrowth(0, 0, "", false, 0), postgresstore.JudgeGrowth(0, 0, "", true, 1_500_000_000), postgresstore.JudgeGrowth(0, 0, "", true, 2_100_000_000),
	}
	for _, want := range []struct {
		grade      store.Grade
		text, cure string
	}{
		{store.Warning, `process 7 of user "app" has a transaction open for 1h0m0s (idle in transaction)`, "pg_terminate_backend(7)"},
		{store.Warning, "2 prepared transactions", "ROLLBACK PREPARED"},
		{store.Warning, "88 of 97 used", "max_connections"},
		{store.Warning, "this user may have 4 connections", "CONNECTION LIMIT"},
		{store.Problem, "fsync is off", "set it on"},
		{store.Warning, "full_page_writes is off", "set it on"},
		{store.Warning, "2 standbys, all asynchronous", "synchronous_standby_names"},
		{store.Warning, "synchronous_commit is local", "synchronous_commit = on"},
		{store.Problem, "no standby is connected: commits hang", "start a standby"},
		{store.Warning, "keeps 5120 MiB of its log", "drop the slot"},
		{store.Warning, "6000000 runs", "history.keep"},
		{store.Warning, "cronlease_lease has 50000 dead rows", "open for long"},
		{store.Warning, "autovacuum is off", "set it on"},
		{store.Warning, "1500000000 transactions ago", "run VACUUM"},
		{store.Problem, "2100000000 transactions ago", "run VACUUM"},
	} {
		wants(t, all, "", want.grade, want.text, want.cure)
	}
}

// private starts a server of the test's own.
func private(t *testing.T) *pgserver.Server {
	t.Helper()
	program, err := pgserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	server := pgserver.New(program)
	if err := server.Start(context.WithoutCancel(soon(t))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}
