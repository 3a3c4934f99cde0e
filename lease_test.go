package cronlease_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/workertest"
)

// The end-to-end proof: three worker processes on a real server, and what can
// happen to them. Each test states what it saw from outside: from the requests
// that the jobs made, from the exit codes, and from the workers' logs.

func TestMain(m *testing.M) { os.Exit(workertest.Main(m)) }

// A leader that is killed is followed within TTL + 1 s, each time.
func TestKilledLeader(t *testing.T) {
	t.Parallel()
	workertest.Each(t, func(t *testing.T, c *workertest.Cluster) {
		for range 3 {
			leader := c.Leader()
			c.Target.WaitForTick(leader.Token())
			killed := time.Now()
			leader.Kill()
			next := c.WaitForLeaderAfter(leader.Token())
			if gap := next.At.Sub(killed); gap > workertest.Back {
				t.Errorf("no leader for %v", gap)
			}
			c.Target.WaitForTick(next.Token)
			c.Start()
		}
	})
}

// A leader that is stopped for longer than the TTL is replaced. When it goes
// on, it starts nothing under its old token, and its job's context has ended.
func TestPausedLeader(t *testing.T) {
	t.Parallel()
	workertest.Each(t, func(t *testing.T, c *workertest.Cluster) {
		leader := c.Leader()
		old := leader.Token()
		c.Target.WaitForTick(old)
		c.Target.WaitForHold(old) // whose context is asked for below
		paused := c.Pause(leader)
		next := c.WaitForLeaderAfter(old)
		if gap := next.At.Sub(paused); gap > workertest.Back {
			t.Errorf("no leader for %v", gap)
		}
		c.Target.WaitForTick(next.Token)
		woken := time.Now()
		leader.Resume()
		ended := leader.WaitFor("run cancelled", func(e workertest.Event) bool { return e.Token == old && e.Job == "hold" })
		if ended.Cause == "" || !strings.Contains(ended.Cause, "lease: lost") {
			t.Errorf("the job's context ended with the cause %q", ended.Cause)
		}
		for _, a := range c.Target.Arrivals() {
			tick, err := time.Parse(time.RFC3339Nano, a.Tick)
			if err != nil {
				t.Fatal(err)
			}
			// A run that was started right before the pause may arrive after it.
			if a.Token == old && a.At.After(woken) && tick.After(paused) {
				t.Errorf("tick %v was started %v after the paused leader woke up", a.Tick, a.At.Sub(woken))
			}
		}
	})
}

// SIGTERM cancels the job, waits for it, releases the lease and exits with 0,
// and the next replica goes on at once.
func TestTerminatedLeader(t *testing.T) {
	t.Parallel()
	workertest.Each(t, func(t *testing.T, c *workertest.Cluster) {
		var gaps []time.Duration
		for range 5 {
			leader := c.Leader()
			old := leader.Token()
			c.Target.WaitForHold(old)
			leader.Terminate()
			if code := leader.Wait(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			ended := leader.WaitFor("run cancelled", func(e workertest.Event) bool { return e.Token == old && e.Job == "hold" })
			if !strings.Contains(ended.Cause, "election: stopped") {
				t.Errorf("the job's context ended with the cause %q", ended.Cause)
			}
			next := c.WaitForLeaderAfter(old)
			if next.At.Before(ended.At) {
				t.Errorf("the next term began %v before the job had ended", ended.At.Sub(next.At))
			}
			gaps = append(gaps, next.At.Sub(ended.At))
			c.Start()
		}
		slices.Sort(gaps)
		// Not by waiting for the lease to expire. The median, since the machine may be busy with other tests.
		if median := gaps[len(gaps)/2]; median > workertest.TTL/2 {
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
			c := workertest.New(t, kind, workertest.URL(t, dbtest.FreshOn(t, kind, server.DSN(""))))
			c.StartThree()
			leader := c.Leader()
			old := leader.Token()
			c.Target.WaitForHold(old)
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
			ended := leader.WaitFor("run cancelled", func(e workertest.Event) bool { return e.Token == old && e.Job == "hold" })
			if !strings.Contains(ended.Cause, "lease: lost") {
				t.Errorf("the job's context ended with the cause %q", ended.Cause)
			}
			if err := server.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			returned := time.Now()
			next := c.WaitForLeaderAfter(old)
			if gap := next.At.Sub(returned); gap > workertest.Back {
				t.Errorf("no leader for %v after the database was back", gap)
			}
			c.Target.WaitForTick(next.Token)
			c.Finish()
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
			c := workertest.New(t, kind, workertest.URL(t, db))
			proxy := dbtest.NewProxy(t, db.Config(t).Addr)
			behind := db.Config(t)
			behind.Addr = proxy.Addr()
			cut := c.StartWith(workertest.URL(t, dbtest.Database{Kind: kind, DSN: behind.FormatDSN()}))
			leader := c.Leader()
			old := leader.Token()
			if leader != cut {
				t.Fatal("the only worker does not lead")
			}
			c.Start()
			c.Start()
			c.Target.WaitForHold(old)
			c.WaitForFollowers(2)
			at := time.Now()
			proxy.BlackHole()
			ended := leader.WaitFor("run cancelled", func(e workertest.Event) bool { return e.Token == old && e.Job == "hold" })
			if !strings.Contains(ended.Cause, "lease: lost") {
				t.Errorf("the job's context ended with the cause %q", ended.Cause)
			}
			next := c.WaitForLeaderAfter(old)
			if next.At.Before(ended.At) {
				t.Errorf("the next term began %v before the job had ended", ended.At.Sub(next.At))
			}
			if gap := next.At.Sub(at); gap > workertest.Back {
				t.Errorf("no leader for %v", gap)
			}
			c.Target.WaitForTick(next.Token)
			proxy.Pass()
			c.Finish()
		})
	}
}
