package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

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
		db := open(t, database)
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
		db := open(t, database)
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
		takeOver(t, store, "second")
		ctx = lease.WithHold(ctx, lease.Hold{Store: store, Name: "billing", Owner: "first", Token: token})
		err = (&Dunning{db: db}).Do(ctx, jobs.Run{Group: "billing", Token: token})
		if !errors.Is(err, fence.ErrFenced) {
			t.Errorf("the replaced one: %v", err)
		}
		if n := reminders(t, db); n != 0 {
			t.Errorf("%d reminders", n)
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

// open returns a database with two open invoices.
func open(t *testing.T, database dbtest.Database) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(mysql.New(mysql.Config{Conn: database.Open(t)}), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.AutoMigrate(&Invoice{}, &Reminder{}); err != nil {
		t.Fatal(err)
	}
	if err := db.Create([]Invoice{{Amount: 100}, {Amount: 200}, {Amount: 300, Reminded: true}}).Error; err != nil {
		t.Fatal(err)
	}
	return db
}

func reminders(t *testing.T, db *gorm.DB) int {
	t.Helper()
	var n int64
	if err := db.Model(&Reminder{}).Count(&n).Error; err != nil {
		t.Fatal(err)
	}
	return int(n)
}
