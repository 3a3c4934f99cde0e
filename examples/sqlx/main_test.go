package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// The service reminds of each invoice once.
func TestService(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, database dbtest.Database) {
		db := openFull(t, database)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, db, zaptest.NewLogger(t)) }()
		look := time.NewTicker(50 * time.Millisecond)
		defer look.Stop()
		for reminders(t, db) < 2 {
			select {
			case err := <-ended:
				t.Fatalf("the service has ended: %v", err)
			case <-look.C:
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A replica that was replaced before its job came to an end stores nothing of it.
func TestReplaced(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, database dbtest.Database) {
		db := openFull(t, database)
		store, err := mysqlstore.Open(database.DSN)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		ctx := t.Context()
		if err := errors.Join(store.Migrate(ctx), store.Prepare(ctx, "billing", time.Minute)); err != nil {
			t.Fatal(err)
		}
		token := takeOver(t, store, "first")
		second := takeOver(t, store, "second")
		ctx = lease.WithHold(ctx, lease.Hold{Store: store, Name: "billing", Owner: "first", Token: token})
		err = (&Dunning{db: db}).Do(ctx, jobs.Run{Group: "billing", Token: token})
		if !errors.Is(err, fence.ErrFenced) {
			t.Errorf("the replaced one: %v", err)
		}
		if n := reminders(t, db); n != 0 {
			t.Errorf("%d reminders", n)
		}

		// The same for a transaction that the job begins itself.
		db.MustExec("INSERT INTO reminder VALUES (9, 1)")
		if err := (&Dunning{db: db}).Forget(ctx, jobs.Run{Group: "billing", Token: token}); !errors.Is(err, fence.ErrFenced) || reminders(t, db) != 1 {
			t.Errorf("the replaced one forgets: %v", err)
		}
		ctx = lease.WithHold(t.Context(), lease.Hold{Store: store, Name: "billing", Owner: "second", Token: second})
		if err := (&Dunning{db: db}).Forget(ctx, jobs.Run{Group: "billing", Token: second}); err != nil || reminders(t, db) != 0 {
			t.Errorf("its successor forgets: %v", err)
		}
	})
}

func takeOver(t *testing.T, leases store.Leases, owner string) uint64 {
	t.Helper()
	readings, err := leases.Read(t.Context(), "billing")
	if err != nil {
		t.Fatal(err)
	}
	token, err := leases.Acquire(t.Context(), store.Acquire{Read: readings[0], Owner: owner, Heartbeat: 1, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// openFull returns a database with two open invoices.
func openFull(t *testing.T, database dbtest.Database) *sqlx.DB {
	t.Helper()
	db, err := open(database.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, statement := range []string{
		"CREATE TABLE invoice (id BIGINT PRIMARY KEY, amount BIGINT NOT NULL, reminded BOOLEAN NOT NULL)",
		"CREATE TABLE reminder (invoice BIGINT PRIMARY KEY, token BIGINT UNSIGNED NOT NULL)",
		"INSERT INTO invoice VALUES (1, 100, FALSE), (2, 200, FALSE), (3, 300, TRUE)",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func reminders(t *testing.T, db *sqlx.DB) int {
	t.Helper()
	var n int
	if err := db.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM reminder"); err != nil {
		t.Fatal(err)
	}
	return n
}
