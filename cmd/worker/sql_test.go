package main

import (
	"path/filepath"
	"testing"

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
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := store.DB().ExecContext(t.Context(), "CREATE TABLE note (tick TEXT PRIMARY KEY, token INTEGER NOT NULL, done INTEGER)"); err != nil {
		t.Fatal(err)
	}
	w := startWorker(t, "run", "--config", path)
	w.awaitMessage("run succeeded")
	if code := w.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	token := statusOf(t, path).Token
	var notes, right int
	if err := store.DB().QueryRow("SELECT COUNT(*), COUNT(CASE WHEN token = ? AND done = 1 THEN 1 END) FROM note", int64(token)).Scan(&notes, &right); err != nil {
		t.Fatal(err)
	}
	if notes == 0 || right != notes {
		t.Errorf("%d notes, %d of them under token %d", notes, right, token)
	}
}
