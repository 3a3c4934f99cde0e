package e2e

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/workertest"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// BenchmarkHandOver measures a clean hand-over between two processes: from the
// moment the leader's work has stopped, so before its lease is released, to the
// moment the next leader's work begins. Both processes take the time from one
// clock.
func BenchmarkHandOver(b *testing.B) {
	dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
		migrate(b, db)
		a := startPlayer(b, db.DSN)
		a.waitFor(b, "leading")
		other := startPlayer(b, db.DSN)
		other.waitFor(b, "following")
		var gaps []time.Duration
		for b.Loop() {
			a.toggle(b)
			began := other.waitFor(b, "leading")
			ended := a.waitFor(b, "stopped")
			gaps = append(gaps, began.Sub(ended))
			a.toggle(b)
			a.waitFor(b, "following")
			a, other = other, a
		}
		report(b, gaps)
	})
}

// report prints percentiles; the time of an operation as testing counts it
// includes the pipes to the processes.
func report(b *testing.B, d []time.Duration) {
	slices.Sort(d)
	at := func(p float64) float64 { return float64(d[int(p*float64(len(d)-1))].Microseconds()) / 1000 }
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(at(1), "max-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkIdle measures workers with 1,000 jobs each that are not due, with
// the default timing, for half a minute: what the leader and a follower cost
// the database and their machine.
func BenchmarkIdle(b *testing.B) {
	dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
		folder := b.TempDir()
		config := filepath.Join(folder, "worker.yaml")
		var text strings.Builder
		fmt.Fprintf(&text, "database: %q\ngroup: idle\njobs:\n", workertest.URL(b, db))
		for i := range 1000 {
			fmt.Fprintf(&text, "  - {name: job-%d, cron: \"0 %d %d 1 1 *\", exec: [\"true\"]}\n", i, i%60, i/60)
		}
		if err := os.WriteFile(config, []byte(text.String()), 0o600); err != nil {
			b.Fatal(err)
		}
		c := workertest.New(b, db.Kind, workertest.URL(b, db))
		admin := db.Open(b)
		const length = 30 * time.Second
		for b.Loop() {
			leader := c.StartAs(config)
			leader.WaitFor("leading", func(workertest.Event) bool { return true })
			alone := measure(b, admin, leader, length)
			follower := c.StartAs(config)
			follower.WaitFor("following", func(workertest.Event) bool { return true })
			both := measure(b, admin, follower, length)
			b.ReportMetric(alone.statements, "leader-statements/s")
			b.ReportMetric(both.statements-alone.statements, "follower-statements/s")
			b.ReportMetric(rss(b, leader), "leader-RSS-MB")
			b.ReportMetric(both.rss, "follower-RSS-MB")
			b.ReportMetric(alone.cpu*100, "leader-CPU-%")
			b.ReportMetric(both.cpu*100, "follower-CPU-%")
			for _, w := range []*workertest.Worker{leader, follower} {
				w.Terminate()
				w.Wait()
			}
		}
		b.ReportMetric(0, "ns/op")
	})
}

type cost struct{ statements, rss, cpu float64 }

// measure watches a worker and the whole server for a while.
func measure(b *testing.B, admin *sql.DB, w *workertest.Worker, length time.Duration) cost {
	b.Helper()
	<-time.After(5 * time.Second) // connections are being made
	statements, cpu := questions(b, admin), cpuTime(b, w)
	<-time.After(length)
	return cost{
		statements: float64(questions(b, admin)-statements-1) / length.Seconds(), // less the one that asks
		cpu:        (cpuTime(b, w) - cpu).Seconds() / length.Seconds(),
		rss:        rss(b, w),
	}
}

func questions(b *testing.B, admin *sql.DB) int64 {
	b.Helper()
	var name string
	var n int64
	if err := admin.QueryRow("SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n); err != nil {
		b.Fatal(err)
	}
	return n
}

// rss is a process's resident memory in MB.
func rss(b *testing.B, w *workertest.Worker) float64 {
	b.Helper()
	for line := range strings.Lines(proc(b, w, "status")) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "VmRSS:" {
			kb, _ := strconv.ParseFloat(f[1], 64)
			return kb / 1024
		}
	}
	b.Fatal("no VmRSS")
	return 0
}

// cpuTime is what a process has used of the processors, in ticks of 10 ms.
func cpuTime(b *testing.B, w *workertest.Worker) time.Duration {
	b.Helper()
	_, after, _ := strings.Cut(proc(b, w, "stat"), ") ")
	f := strings.Fields(after)
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

func proc(b *testing.B, w *workertest.Worker, file string) string {
	b.Helper()
	if runtime.GOOS != "linux" {
		b.Skip("needs /proc")
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", w.PID(), file))
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

func migrate(b *testing.B, db dbtest.Database) {
	b.Helper()
	store, err := mysqlstore.Open(db.DSN)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
}
