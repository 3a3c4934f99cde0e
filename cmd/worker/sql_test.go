package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cronlease/cronlease/internal/workertest"
	"github.com/cronlease/cronlease/store/postgresstore"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// An sql job writes under its run's token.
func TestSQLJob(t *testing.T) {
	t.Parallel()
	path := configure(t, `  - name: note
    every: 1s
    sql:
      - {statement: "INSERT INTO note (tick, token) VALUES (?, ?)", args: [tick, token]}
      - "UPDATE note SET done = 1"
`)
	store, err := sqlitestore.Open(filepath.Join(filepath.Dir(path), "lease.db"))
	testSQLJob(t, path, store, err)
}

// The same on PostgreSQL, also with a statement that is no part of a transaction elsewhere.
func TestSQLJobOnPostgres(t *testing.T) {
	t.Parallel()
	url := workertest.StartPostgres(t)
	path := filepath.Join(t.TempDir(), "worker.yaml")
	text := fmt.Sprintf(`database: %q
group: billing
lease: {ttl: 4s}
jobs:
  - name: note
    every: 1s
    sql:
      - "TRUNCATE note"
      - {statement: "INSERT INTO note (tick, token) VALUES ($1, $2)", args: [tick, token]}
      - "UPDATE note SET done = 1 WHERE NOT '{}'::jsonb ? 'a'"
`, url)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := postgresstore.Open(url)
	testSQLJob(t, path, store, err)
}

func testSQLJob(t *testing.T, path string, store interface {
	withTables
	withSQL
	Close() error
}, err error,
) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := store.DB().ExecContext(t.Context(), "CREATE TABLE note (tick VARCHAR(40) PRIMARY KEY, token BIGINT NOT NULL, done INTEGER)"); err != nil {
		t.Fatal(err)
	}
	w := startWorker(t, "run", "--config", path)
	w.awaitMessage("run succeeded")
	if code := w.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	var notes, done int
	var least, most uint64
	if err := store.DB().QueryRow("SELECT COUNT(*), COUNT(CASE WHEN done = 1 THEN 1 END), MIN(token), MAX(token) FROM note").Scan(&notes, &done, &least, &most); err != nil {
		t.Fatal(err)
	}
	if token := statusOf(t, path).Token; notes == 0 || done != notes || least != token || most != token {
		t.Errorf("%d notes, %d of them done, under tokens from %d to %d, want %d", notes, done, least, most, token)
	}
}
