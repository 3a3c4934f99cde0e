package scheduler_test

import (
	"testing"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// onServer is a store in a database of a real server.
func onServer(t testing.TB, db dbtest.Database) *mysqlstore.Store {
	t.Helper()
	store, err := mysqlstore.Open(db.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store
}
