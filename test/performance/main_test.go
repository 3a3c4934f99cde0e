package performance

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(playerVariable); spec != "" {
		if err := play(spec); err != nil {
			fmt.Fprintln(os.Stderr, "player:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// open returns a store with its tables, which ends with the benchmark.
func open(b *testing.B, db dbtest.Database) *mysqlstore.Store {
	b.Helper()
	store, err := mysqlstore.Open(db.DSN)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	if err := store.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	return store
}

// until waits for what has to become true.
func until(b *testing.B, what string, is func() bool) {
	b.Helper()
	for end := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(end) {
			b.Fatal("not seen within a minute: " + what)
		}
		<-time.After(2 * time.Millisecond)
	}
}
