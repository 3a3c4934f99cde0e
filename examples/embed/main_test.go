package main

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/cronlease/cronlease/internal/dbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Two replicas of the service share a database: each tick runs once, and when
// the replica that runs them stops, the other one goes on under a higher token.
func TestTwoReplicas(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, database dbtest.Database) {
		db := database.Open(t)
		if err := createTable(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		first := start(t, database.Open(t))
		before := waitForRun(t, db, 0)
		second := start(t, database.Open(t))
		first.stop(t)
		after := waitForRun(t, db, before)
		if after <= before {
			t.Errorf("token %d after %d", after, before)
		}
		second.stop(t)
	})
}

// replica is a running service.
type replica struct {
	cancel context.CancelFunc
	done   chan error
}

func start(t *testing.T, db *sql.DB) replica {
	ctx, cancel := context.WithCancel(t.Context())
	r := replica{cancel, make(chan error, 1)}
	logger := zaptest.NewLogger(t)
	go func() {
		err := run(ctx, db, logger)
		if err != nil {
			t.Error(err)
		}
		r.done <- err
	}()
	t.Cleanup(cancel)
	return r
}

func (r replica) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	<-r.done
}

// waitForRun returns the token of a run under a token above the given one.
func waitForRun(t *testing.T, db *sql.DB, above uint64) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		var token sql.NullInt64
		if err := db.QueryRowContext(ctx, "SELECT MAX(token) FROM invoice_run WHERE token > ?", above).Scan(&token); err != nil {
			t.Fatal(err)
		}
		if token.Valid {
			return uint64(token.Int64)
		}
		<-look.C
	}
}
