package cronlease_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/dbtest"
)

// The end-to-end proof: three worker processes on a real server, and what can
// happen to them. Each test states what it saw from outside: from the requests
// that the jobs made, from the exit codes, and from the workers' logs.

// The workers' timing in all tests.
const (
	ttl   = 2 * time.Second
	grace = 300 * time.Millisecond
	// back is when a leader has to be back after a crash.
	back = ttl + time.Second
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(playerVariable); dsn != "" {
		if err := play(dsn); err != nil {
			fmt.Fprintln(os.Stderr, "player:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if where := os.Getenv(writerVariable); where != "" {
		if err := write(where); err != nil {
			fmt.Fprintln(os.Stderr, "writer:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	folder, err := os.MkdirTemp("", "cronlease-test-")
	if err == nil {
		workerProgram, err = buildWorker(folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the worker:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(folder)
		os.Exit(code)
	}))
}

// A leader that is killed is followed within TTL + 1 s, each time.
func TestKilledLeader(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, c *cluster) {
		for range 3 {
			leader := c.leader()
			c.target.waitForTick(leader.token())
			killed := time.Now()
			leader.kill()
			next := c.waitForLeaderAfter(leader.token())
			if gap := next.at.Sub(killed); gap > back {
				t.Errorf("no leader for %v", gap)
			}
			c.target.waitForTick(next.token)
			c.start()
		}
	})
}

// A leader that is stopped for longer than the TTL is replaced. When it goes
// on, it starts nothing under its old token, and its job's context has ended.
func TestPausedLeader(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, c *cluster) {
		leader := c.leader()
		old := leader.token()
		c.target.waitForTick(old)
		paused := c.pause(leader)
		next := c.waitForLeaderAfter(old)
		if gap := next.at.Sub(paused); gap > back {
			t.Errorf("no leader for %v", gap)
		}
		c.target.waitForTick(next.token)
		woken := time.Now()
		leader.signal(sigCont)
		ended := leader.waitFor("run cancelled", func(e event) bool { return e.Token == old && e.Job == "hold" })
		if ended.Cause == "" || !contains(ended.Cause, "lease: lost") {
			t.Errorf("the job's context ended with the cause %q", ended.Cause)
		}
		for _, a := range c.target.arrivals() {
			if a.token == old && a.at.After(woken) {
				t.Errorf("tick %v was started %v after the paused leader woke up", a.tick, a.at.Sub(woken))
			}
		}
	})
}

// SIGTERM cancels the job, waits for it, releases the lease and exits with 0,
// and the next replica goes on at once.
func TestTerminatedLeader(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, c *cluster) {
		var gaps []time.Duration
		for range 5 {
			leader := c.leader()
			old := leader.token()
			c.target.waitForHold(old)
			leader.signal(syscall.SIGTERM)
			if code := leader.wait(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			ended := leader.waitFor("run cancelled", func(e event) bool { return e.Token == old && e.Job == "hold" })
			if !contains(ended.Cause, "election: stopped") {
				t.Errorf("the job's context ended with the cause %q", ended.Cause)
			}
			next := c.waitForLeaderAfter(old)
			if next.at.Before(ended.at) {
				t.Errorf("the next term began %v before the job had ended", ended.at.Sub(next.at))
			}
			gaps = append(gaps, next.at.Sub(ended.at))
			c.start()
		}
		slices.Sort(gaps)
		// Not by waiting for the lease to expire. The median, since the machine may be busy with other tests.
		if median := gaps[len(gaps)/2]; median > ttl/2 {
			t.Errorf("after a clean stop a leader was back after %v, median of %v", median, gaps)
		}
	})
}

// After the database was killed, a leader is back within TTL + 1 s of its
// return, and no tick ran twice.
func TestKilledDatabase(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := dbtest.Private(t, kind)
			c := newCluster(t, kind, databaseURL(t, dbtest.FreshOn(t, kind, server.DSN(""))))
			c.startThree()
			leader := c.leader()
			old := leader.token()
			c.target.waitForHold(old)
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
			ended := leader.waitFor("run cancelled", func(e event) bool { return e.Token == old && e.Job == "hold" })
			if !contains(ended.Cause, "lease: lost") {
				t.Errorf("the job's context ended with the cause %q", ended.Cause)
			}
			if err := server.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			returned := time.Now()
			next := c.waitForLeaderAfter(old)
			if gap := next.at.Sub(returned); gap > back {
				t.Errorf("no leader for %v after the database was back", gap)
			}
			c.target.waitForTick(next.token)
			c.finish()
		})
	}
}

// A leader whose network is silently cut in both directions ends its jobs before
// another replica leads.
func TestCutNetwork(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			db := dbtest.Fresh(t, kind)
			c := newCluster(t, kind, databaseURL(t, db))
			proxy := dbtest.NewProxy(t, db.Config(t).Addr)
			behind := db.Config(t)
			behind.Addr = proxy.Addr()
			cut := c.startWith(databaseURL(t, dbtest.Database{Kind: kind, DSN: behind.FormatDSN()}))
			leader := c.leader()
			old := leader.token()
			if leader != cut {
				t.Fatal("the only worker does not lead")
			}
			c.start()
			c.start()
			c.target.waitForHold(old)
			c.waitForFollowers(2)
			at := time.Now()
			proxy.BlackHole()
			ended := leader.waitFor("run cancelled", func(e event) bool { return e.Token == old && e.Job == "hold" })
			if !contains(ended.Cause, "lease: lost") {
				t.Errorf("the job's context ended with the cause %q", ended.Cause)
			}
			next := c.waitForLeaderAfter(old)
			if next.at.Before(ended.at) {
				t.Errorf("the next term began %v before the job had ended", ended.at.Sub(next.at))
			}
			if gap := next.at.Sub(at); gap > back {
				t.Errorf("no leader for %v", gap)
			}
			c.target.waitForTick(next.token)
			proxy.Pass()
			c.finish()
		})
	}
}

// onEachStore runs f beside three workers on each kind of database, and checks
// afterwards what holds in every case.
func onEachStore(t *testing.T, f func(t *testing.T, c *cluster)) {
	t.Helper()
	onEachStoreWith(t, tickAndHold, f)
}

func onEachStoreWith(t *testing.T, jobs string, f func(t *testing.T, c *cluster)) {
	t.Helper()
	run := func(kind string, url func(t *testing.T) string) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, kind, url(t))
			c.jobs = jobs
			c.startThree()
			f(t, c)
			c.finish()
		})
	}
	for _, kind := range dbtest.Dialects(t) {
		run(kind, func(t *testing.T) string { return databaseURL(t, dbtest.Fresh(t, kind)) })
	}
	run(sqlite, func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "lease.db") })
}
