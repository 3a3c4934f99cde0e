package cronlease_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

const sqlite = "sqlite"

// patience bounds each wait for an event. It is for a machine that is busy with
// other tests; what is timed is timed by the events themselves.
const patience = 60 * time.Second

// cluster is a group of worker processes and the target of their jobs.
type cluster struct {
	t      testing.TB
	kind   string
	url    string
	folder string
	target *target
	jobs   string          // of the configuration; {target} is the target's URL
	lost   map[string]bool // ticks whose claims were forgotten by a failover, and may run again

	mu      sync.Mutex
	workers []*worker
	events  []event
	more    chan struct{} // closed and replaced with each event
}

// newCluster prepares the database for workers.
func newCluster(t testing.TB, kind, url string) *cluster {
	t.Helper()
	c := &cluster{t: t, kind: kind, url: url, folder: t.TempDir(), target: newTarget(t), jobs: tickAndHold, more: make(chan struct{})}
	runWorker(t, "migrate", "--config", c.config(url))
	return c
}

// databaseURL is the database as a configuration file names it.
func databaseURL(t testing.TB, db dbtest.Database) string {
	t.Helper()
	config := db.Config(t)
	user := config.User
	if config.Passwd != "" {
		user += ":" + config.Passwd
	}
	return fmt.Sprintf("mysql://%s@%s/%s", user, config.Addr, config.DBName)
}

// tickAndHold are a job that returns at once, each second, and one that goes on
// until it is cancelled.
const tickAndHold = `
  - name: tick
    every: 1s
    misfire: all
    overlap: allow
    http: {url: "{target}/tick", method: POST}
  - name: hold
    every: 1s
    http: {url: "{target}/hold", method: POST}
`

// config writes a configuration file.
func (c *cluster) config(url string) string {
	c.t.Helper()
	path := filepath.Join(c.folder, fmt.Sprintf("worker-%d.yaml", len(c.workers)))
	text := fmt.Sprintf(`
database: %q
group: billing
lease: {ttl: %v, grace: %v}
jobs:
%s`, url, ttl, grace, strings.ReplaceAll(c.jobs, "{target}", c.target.url))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// startThree starts three workers, one of which leads when it returns.
func (c *cluster) startThree() {
	c.t.Helper()
	for range 3 {
		c.start()
	}
	c.leader()
	c.waitForFollowers(2)
}

func (c *cluster) start() *worker { return c.startWith(c.url) }

func (c *cluster) startWith(url string) *worker {
	c.t.Helper()
	w := startWorker(c, c.config(url))
	c.mu.Lock()
	c.workers = append(c.workers, w)
	c.mu.Unlock()
	w.waitFor("started", func(event) bool { return true }) // from here on a signal is heard
	return w
}

// record takes in what a worker logged.
func (c *cluster) record(e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
	close(c.more)
	c.more = make(chan struct{})
}

// wait returns the first event that matches, now or later.
func (c *cluster) wait(what string, match func(event) bool) event {
	c.t.Helper()
	deadline := time.After(patience)
	for seen := 0; ; {
		c.mu.Lock()
		events, more := c.events[seen:], c.more
		seen = len(c.events)
		c.mu.Unlock()
		for _, e := range events {
			if match(e) {
				return e
			}
		}
		select {
		case <-more:
		case <-deadline:
			c.t.Fatalf("not seen within %v: %s", patience, what)
		}
	}
}

// term is a term as a worker's log shows its beginning.
type term struct {
	token uint64
	at    time.Time
}

// leader waits until the newest term's worker is one that has not ended, and
// returns it.
func (c *cluster) leader() *worker {
	c.t.Helper()
	e := c.wait("a worker that leads", func(e event) bool {
		return e.Msg == "leading" && !e.worker.hasEnded() && e.Token == c.newest()
	})
	return e.worker
}

// newest is the highest token that was led under.
func (c *cluster) newest() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var newest uint64
	for _, e := range c.events {
		if e.Msg == "leading" {
			newest = max(newest, e.Token)
		}
	}
	return newest
}

func (c *cluster) waitForLeaderAfter(token uint64) term {
	c.t.Helper()
	e := c.wait(fmt.Sprintf("a term after %d", token), func(e event) bool { return e.Msg == "leading" && e.Token > token })
	return term{e.Token, e.at}
}

// waitForFollowers waits until so many workers have seen the leader.
func (c *cluster) waitForFollowers(n int) {
	c.t.Helper()
	following := map[*worker]bool{}
	c.wait(fmt.Sprintf("%d followers", n), func(e event) bool {
		if e.Msg == "following" {
			following[e.worker] = true
		}
		return len(following) >= n
	})
}

// pause stops a worker with SIGSTOP, and returns when. On SQLite it does so until
// the worker is not in the middle of a write: there a process that is stopped
// holds the file's only write lock, and no worker can take over (docs/database.md).
func (c *cluster) pause(w *worker) time.Time {
	c.t.Helper()
	for {
		at := time.Now()
		w.signal(sigStop)
		if c.kind != sqlite || c.writable() {
			return at
		}
		w.signal(sigCont)
	}
}

// writable reports whether the SQLite file can be written now.
func (c *cluster) writable() bool {
	c.t.Helper()
	store, err := sqlitestore.Open(c.url)
	if err != nil {
		c.t.Fatal(err)
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), 200*time.Millisecond)
	defer cancel()
	return store.Prepare(ctx, "probe", ttl) == nil
}

// terminateAll stops every worker.
func (c *cluster) terminateAll() {
	c.t.Helper()
	c.mu.Lock()
	workers := slices.Clone(c.workers)
	c.mu.Unlock()
	for _, w := range workers {
		w.terminate()
	}
	for _, w := range workers {
		if code := w.wait(); code != 0 && !w.killed.Load() {
			c.t.Errorf("worker %d ended with exit code %d", w.cmd.Process.Pid, code)
		}
	}
}

// forgetTicksBut notes that the database has forgotten what has run until now,
// but for these ticks.
func (c *cluster) forgetTicksBut(known map[string]bool) {
	c.t.Helper()
	kept := 0
	c.lost = map[string]bool{}
	for _, a := range c.target.arrivals() {
		switch {
		case a.path == "/tick" && known[a.tick]:
			kept++
		case a.path == "/tick":
			c.lost[a.tick] = true
		}
	}
	if kept == 0 {
		c.t.Error("the database has forgotten every tick")
	}
	c.t.Logf("%d ticks kept, %d lost", kept, len(c.lost))
}

// finish stops every worker and checks what holds whatever happened: tokens
// grow and have one owner, no tick ran twice, and no run began before an
// earlier term's runs had ended.
func (c *cluster) finish() {
	c.t.Helper()
	c.terminateAll()
	c.mu.Lock()
	defer c.mu.Unlock()
	var terms []event
	for _, e := range c.events {
		if e.Msg == "leading" {
			terms = append(terms, e)
		}
	}
	slices.SortFunc(terms, func(a, b event) int { return a.at.Compare(b.at) })
	owners := map[uint64]string{}
	for i, e := range terms {
		if i > 0 && e.Token <= terms[i-1].Token {
			c.t.Errorf("token %d was followed by %d", terms[i-1].Token, e.Token)
		}
		owners[e.Token] = e.Owner
	}
	ticks := map[string]uint64{}
	arrivals := c.target.arrivals()
	slices.SortFunc(arrivals, func(a, b arrival) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.tick, b.tick)) })
	for _, a := range arrivals {
		if owners[a.token] != a.owner {
			c.t.Errorf("%s of %s came from %q under token %d, which is %q's", a.path, a.tick, a.owner, a.token, owners[a.token])
		}
		if a.path != "/tick" {
			continue
		}
		if token, twice := ticks[a.tick]; twice && !c.lost[a.tick] {
			c.t.Errorf("tick %s ran under token %d and under %d", a.tick, token, a.token)
		}
		ticks[a.tick] = a.token
	}
	c.t.Logf("%d terms, %d ticks, none twice", len(terms), len(ticks))
}

func contains(s, part string) bool { return strings.Contains(s, part) }
