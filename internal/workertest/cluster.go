// Package workertest runs groups of worker processes for end-to-end tests, and says what they did as it shows from outside:
// in the requests that their jobs made, in their exit codes, and in their logs.
package workertest

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
	"github.com/cronlease/cronlease/internal/subprocess"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// SQLite is the kind of a database that is a file.
const SQLite = "sqlite"

// The workers' timing.
const (
	TTL   = 2 * time.Second
	Grace = 300 * time.Millisecond
	// Back is when a leader has to be back after a crash.
	Back = TTL + time.Second
)

// Patience bounds each wait for an event. It is for a machine that is busy with
// other tests; what is timed is timed by the events themselves.
const Patience = 60 * time.Second

// Cluster is a group of worker processes and the target of their jobs.
type Cluster struct {
	Target *Target

	t      testing.TB
	kind   string
	url    string
	folder string
	jobs   string          // of the configuration; {target} is the target's URL
	lost   map[string]bool // ticks whose claims were forgotten by a failover, and may run again

	mu      sync.Mutex
	workers []*Worker
	events  []Event
	more    chan struct{} // closed and replaced with each event
}

// New makes a cluster without workers, and prepares its database for them.
func New(t testing.TB, kind, url string) *Cluster {
	t.Helper()
	c := &Cluster{t: t, kind: kind, url: url, folder: t.TempDir(), Target: newTarget(t), jobs: tickAndHold, more: make(chan struct{})}
	c.Command("migrate")
	return c
}

// URL is the database as a configuration file names it.
func URL(t testing.TB, db dbtest.Database) string {
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
func (c *Cluster) config(url string) string {
	c.t.Helper()
	path := filepath.Join(c.folder, fmt.Sprintf("worker-%d.yaml", len(c.workers)))
	text := fmt.Sprintf(`
database: %q
group: billing
lease: {ttl: %v, grace: %v}
jobs:
%s`, url, TTL, Grace, strings.ReplaceAll(c.jobs, "{target}", c.Target.url))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// Command runs a command of the worker that ends by itself with the cluster's configuration, and returns what it printed.
func (c *Cluster) Command(command string, args ...string) string {
	c.t.Helper()
	return Run(c.t, append([]string{command, "--config", c.config(c.url)}, args...)...)
}

// StartThree starts three workers, one of which leads when it returns.
func (c *Cluster) StartThree() {
	c.t.Helper()
	for range 3 {
		c.Start()
	}
	c.Leader()
	c.WaitForFollowers(2)
}

// Start starts a worker.
func (c *Cluster) Start() *Worker { return c.StartWith(c.url) }

// StartWith starts a worker on the database of that URL.
func (c *Cluster) StartWith(url string) *Worker {
	c.t.Helper()
	return c.StartAs(c.config(url))
}

// StartAs starts a worker with that configuration file.
func (c *Cluster) StartAs(config string) *Worker {
	c.t.Helper()
	w := startWorker(c, config)
	c.mu.Lock()
	c.workers = append(c.workers, w)
	c.mu.Unlock()
	w.WaitFor("started", func(Event) bool { return true }) // from here on a signal is heard
	return w
}

// record takes in what a worker logged.
func (c *Cluster) record(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
	close(c.more)
	c.more = make(chan struct{})
}

// wait returns the first event that matches, now or later.
func (c *Cluster) wait(what string, match func(Event) bool) Event {
	c.t.Helper()
	deadline := time.After(Patience)
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
			c.t.Fatalf("not seen within %v: %s", Patience, what)
		}
	}
}

// Term is a term as a worker's log shows its beginning.
type Term struct {
	Token uint64
	At    time.Time
}

// Leader waits until the newest term's worker is one that has not ended, and
// returns it.
func (c *Cluster) Leader() *Worker {
	c.t.Helper()
	e := c.wait("a worker that leads", func(e Event) bool {
		return e.Msg == "leading" && !e.worker.hasEnded() && e.Token == c.newest()
	})
	return e.worker
}

// newest is the highest token that was led under.
func (c *Cluster) newest() uint64 {
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

// WaitForLeaderAfter waits for a term with a higher token.
func (c *Cluster) WaitForLeaderAfter(token uint64) Term {
	c.t.Helper()
	e := c.wait(fmt.Sprintf("a term after %d", token), func(e Event) bool { return e.Msg == "leading" && e.Token > token })
	return Term{e.Token, e.At}
}

// WaitForFollowers waits until so many workers have seen the leader.
func (c *Cluster) WaitForFollowers(n int) {
	c.t.Helper()
	following := map[*Worker]bool{}
	c.wait(fmt.Sprintf("%d followers", n), func(e Event) bool {
		if e.Msg == "following" {
			following[e.worker] = true
		}
		return len(following) >= n
	})
}

// Pause stops a worker with SIGSTOP, and returns when. On SQLite it does so until
// the worker is not in the middle of a write: there a process that is stopped
// holds the file's only write lock, and no worker can take over (docs/database.md).
func (c *Cluster) Pause(w *Worker) time.Time {
	c.t.Helper()
	for {
		at := time.Now()
		w.signal(subprocess.Suspend)
		if c.kind != SQLite || c.writable() {
			return at
		}
		w.Resume()
	}
}

// writable reports whether the SQLite file can be written now.
func (c *Cluster) writable() bool {
	c.t.Helper()
	store, err := sqlitestore.Open(c.url)
	if err != nil {
		c.t.Fatal(err)
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), 200*time.Millisecond)
	defer cancel()
	return store.Prepare(ctx, "probe", TTL) == nil
}

// TerminateAll stops every worker.
func (c *Cluster) TerminateAll() {
	c.t.Helper()
	c.mu.Lock()
	workers := slices.Clone(c.workers)
	c.mu.Unlock()
	for _, w := range workers {
		w.Terminate()
	}
	for _, w := range workers {
		if code := w.Wait(); code != 0 && !w.killed.Load() {
			c.t.Errorf("worker %d ended with exit code %d", w.PID(), code)
		}
	}
}

// ForgetTicksBut notes that the database has forgotten what has run until now,
// but for these ticks.
func (c *Cluster) ForgetTicksBut(known map[string]bool) {
	c.t.Helper()
	kept := 0
	c.lost = map[string]bool{}
	for _, a := range c.Target.Arrivals() {
		switch {
		case a.Path == "/tick" && known[a.Tick]:
			kept++
		case a.Path == "/tick":
			c.lost[a.Tick] = true
		}
	}
	if kept == 0 {
		c.t.Error("the database has forgotten every tick")
	}
	c.t.Logf("%d ticks kept, %d lost", kept, len(c.lost))
}

// Finish stops every worker and checks what holds whatever happened: tokens
// grow and have one owner, no tick ran twice, and no run began before an
// earlier term's runs had ended.
func (c *Cluster) Finish() {
	c.t.Helper()
	c.TerminateAll()
	c.mu.Lock()
	defer c.mu.Unlock()
	var terms []Event
	for _, e := range c.events {
		if e.Msg == "leading" {
			terms = append(terms, e)
		}
	}
	slices.SortFunc(terms, func(a, b Event) int { return a.At.Compare(b.At) })
	owners := map[uint64]string{}
	for i, e := range terms {
		if i > 0 && e.Token <= terms[i-1].Token {
			c.t.Errorf("token %d was followed by %d", terms[i-1].Token, e.Token)
		}
		owners[e.Token] = e.Owner
	}
	ticks := map[string]uint64{}
	arrivals := c.Target.Arrivals()
	slices.SortFunc(arrivals, func(a, b Arrival) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Tick, b.Tick)) })
	for _, a := range arrivals {
		if owners[a.Token] != a.Owner {
			c.t.Errorf("%s of %s came from %q under token %d, which is %q's", a.Path, a.Tick, a.Owner, a.Token, owners[a.Token])
		}
		if a.Path != "/tick" {
			continue
		}
		if token, twice := ticks[a.Tick]; twice && !c.lost[a.Tick] {
			c.t.Errorf("tick %s ran under token %d and under %d", a.Tick, token, a.Token)
		}
		ticks[a.Tick] = a.Token
	}
	c.t.Logf("%d terms, %d ticks, none twice", len(terms), len(ticks))
}
