package performance

import (
	"fmt"
	"math"
	"os"
	"slices"
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

// reportTimes reports percentiles, under names that begin with the prefix.
func reportTimes(b *testing.B, prefix string, times []time.Duration) {
	b.Helper()
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	at := func(p float64) float64 {
		return float64(times[int(math.Ceil(p*float64(len(times))))-1].Microseconds()) / 1000
	}
	b.ReportMetric(at(0.5), prefix+"p50-ms")
	b.ReportMetric(at(0.99), prefix+"p99-ms")
	b.ReportMetric(float64(len(times)), "n")
	b.ReportMetric(0, "ns/op")
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
