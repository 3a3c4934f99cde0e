package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// ofLevel is a store with the tables as they are after that step.
func ofLevel(t *testing.T, level int) *sqlitestore.Store {
	t.Helper()
	s := open(t, migrated(t))
	rows, err := s.DB().QueryContext(soon(t), "SELECT 'DROP ' || type || ' ' || name FROM sqlite_schema WHERE name LIKE 'cronlease%' AND type IN ('trigger', 'table') ORDER BY type = 'table'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var drops []string
	for rows.Next() {
		var drop string
		if err := rows.Scan(&drop); err != nil {
			t.Fatal(err)
		}
		drops = append(drops, drop)
	}
	files, globErr := filepath.Glob("migrations/*.sql")
	if err := errors.Join(rows.Err(), globErr); err != nil || len(files) != sqlitestore.Newest {
		t.Fatalf("%q: %v", files, err)
	}
	for _, drop := range drops {
		run(t, s.DB(), drop)
	}
	for _, file := range files[:level] {
		step, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		run(t, s.DB(), string(step))
	}
	run(t, s.DB(), "CREATE TABLE cronlease_schema (one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL, file TEXT NOT NULL, level INTEGER NOT NULL DEFAULT 0) STRICT")
	run(t, s.DB(), "INSERT INTO cronlease_schema VALUES (1, ?1, 'f', ?2)", min(level, 3), level)
	return s
}

// Beside a transaction that reads on, and in a ledger of many runs, all steps are made at once, while older workers claim on.
func TestMigrationBesideReaderAndClaims(t *testing.T) {
	t.Parallel()
	for level := 3; level < sqlitestore.Newest; level++ {
		t.Run(fmt.Sprintf("from level %d", level), func(t *testing.T) {
			t.Parallel()
			s := ofLevel(t, level)
			db := s.DB()
			const claim = `INSERT INTO cronlease_run (grp, job, tick, trigger_id, claim_id, state, owner, token, attempt, claimed_at, missed, error, cancel_asked) `
			many := rounds.Of(t, 5_000)
			run(t, db, fmt.Sprintf(claim+"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT 'many', 'j', i, 0, x'', 3, 'old', 1, 1, 0, 0, '', 0 FROM n", many))

			reader, err := db.BeginTx(soon(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = reader.Rollback() }()
			var n int
			if err := reader.QueryRowContext(soon(t), "SELECT count(*) FROM cronlease_run").Scan(&n); err != nil || n != many {
				t.Fatalf("%d runs: %v", n, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var done sync.WaitGroup
			var longest time.Duration
			claims := 0
			done.Go(func() {
				for ctx.Err() == nil || claims == 0 {
					claims++
					began := time.Now()
					if _, err := db.ExecContext(soon(t), fmt.Sprintf(claim+"VALUES ('g', 'j', %d, 0, x'', 1, 'old', 1, 1, 0, 0, '', 0)", claims)); err != nil {
						t.Errorf("claim %d: %v", claims, err)
						return
					}
					longest = max(longest, time.Since(began))
					select { // workers leave the file free in between; without that, a migration may wait long
					case <-time.After(5 * time.Millisecond):
					case <-ctx.Done():
					}
				}
			})
			_, err = s.MigrateSteps(soon(t), 0, func(string) {}, func(err error) { t.Errorf("held up: %v", err) })
			cancel()
			done.Wait()
			if err := errors.Join(err, s.Check(soon(t))); err != nil {
				t.Error(err)
			}
			if t.Logf("%d runs, %d claims, the longest took %v", many, claims, longest); longest > 1900*time.Millisecond {
				t.Errorf("a claim took %v", longest)
			}
		})
	}
}

// A migration that another process keeps from writing says so, and gives up after a time.
func TestMigrationBesideWriter(t *testing.T) {
	t.Parallel()
	s := ofLevel(t, sqlitestore.Newest-1)
	writer, err := s.DB().Conn(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if _, err := writer.ExecContext(soon(t), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	_, err = s.MigrateSteps(soon(t), time.Millisecond, func(string) {}, func(err error) { t.Errorf("tried again: %v", err) })
	if !errors.Is(err, lease.ErrNotReady) || !strings.Contains(err.Error(), "given up after 2s") || !strings.Contains(err.Error(), "another process writes it") {
		t.Errorf("out of patience: %v", err)
	}
	_, err = s.MigrateSteps(soon(t), 0, func(string) {}, func(held error) {
		if !errors.Is(held, lease.ErrNotReady) || !strings.Contains(held.Error(), "another process writes it") {
			t.Errorf("held up: %v", held)
		}
		if _, err := writer.ExecContext(soon(t), "ROLLBACK"); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(err, s.Check(soon(t))); err != nil {
		t.Error(err)
	}
}
