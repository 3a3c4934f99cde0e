package e2e

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/subprocess"
	"github.com/cronlease/cronlease/internal/workertest"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// A process that is stopped in the middle of its work, for three times the TTL,
// and then writes with its old token is refused: wherever it was stopped, also if
// nothing but the database tells it. With a plain transaction in the place of the
// fenced one, the write is stored.
func TestPausedWriter(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testPausedWriter(t, kind+" "+dbtest.Fresh(t, kind).DSN)
		})
	}
	t.Run(workertest.SQLite, func(t *testing.T) {
		t.Parallel()
		testPausedWriter(t, workertest.SQLite+" "+filepath.Join(t.TempDir(), "lease.db"))
	})
}

// A takeover is held up by a writer that was stopped after its check for
// writerBound, which is fence.WithBound's default. The takeovers of other groups can
// wait behind it, for takeoverWait at most: the follower has two connections for all
// of them (Acquire of mysqlstore).
const (
	writerBound  = 2 * time.Second
	takeoverWait = 3 * time.Second
)

func testPausedWriter(t *testing.T, where string) {
	kind, store, err := openWriterStore(where)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := store.DB().ExecContext(t.Context(), "CREATE TABLE effect (name VARCHAR(100) PRIMARY KEY, token BIGINT NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	all := scenarios(kind)
	late := 0
	for _, s := range all {
		if s.point == checked {
			late++
		}
	}
	w := startWriter(t, where)
	old := w.waitFor(t, "at", len(all))
	f := follow(t, store, all)
	defer f.stop()
	if late > 0 {
		w.next(t)
		w.waitFor(t, "at", late)
	}
	stopped := w.stop(t, kind, store)
	next := f.waitForAll(t, old)
	for _, s := range all {
		limit := writerTTL + time.Second + writerBound + takeoverWait
		if gap := next[s.name()].At.Sub(stopped); gap > limit {
			t.Errorf("%s: no leader for %v after it was stopped", s.name(), gap)
		}
	}
	<-time.After(time.Until(stopped.Add(3 * writerTTL)))
	w.next(t)
	if late == 0 {
		w.next(t)
	}
	w.signal(t, subprocess.Resume)

	wrote := w.waitFor(t, "wrote", len(all))
	for _, s := range all {
		name := s.name()
		token, outcome := wrote[name][2], wrote[name][3]
		var rows int
		if err := store.DB().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM effect WHERE name = ?", name).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s under token %s, while %d is led under: %s, %d stored", name, token, next[name].Token, outcome, rows)
		switch {
		case token != old[name][2]:
			t.Errorf("%s has written under %s, not %s", name, token, old[name][2])
		case s.way == "plain":
			if outcome != "stored" || rows != 1 {
				t.Errorf("%s: %s, %d stored: so the others show nothing", name, outcome, rows)
			}
		case !strings.HasPrefix(outcome, "refused ") || rows != 0:
			t.Errorf("%s: %s, %d stored", name, outcome, rows)
		}
	}
}

// followers campaign in this process for the groups of all scenarios.
type followers struct {
	stop  func()
	terms chan followed
}

type followed struct {
	group string
	workertest.Term
}

// follow returns once each of them has seen the leader.
func follow(t *testing.T, leases store.Leases, all []scenario) *followers {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running, looking sync.WaitGroup
	f := &followers{
		terms: make(chan followed, 100*len(all)),
		stop: func() {
			cancel()
			running.Wait()
		},
	}
	for _, s := range all {
		looking.Add(1)
		seen := sync.OnceFunc(looking.Done)
		running.Go(func() {
			err := election.Run(ctx, leases, s.name(), func(ctx context.Context, lead election.Term) error {
				f.terms <- followed{s.name(), workertest.Term{Token: lead.Token(), At: time.Now()}}
				<-ctx.Done()
				return nil
			}, election.WithTiming(lease.Timing{TTL: writerTTL}), election.WithObserver(func(s election.State) {
				if s.Owner != "" {
					seen()
				}
			}))
			if err != nil {
				t.Errorf("follower of %s: %v", s.name(), err)
			}
		})
	}
	looking.Wait()
	return f
}

// waitForAll returns the first term of each group after the old one.
func (f *followers) waitForAll(t *testing.T, old map[string][]string) map[string]workertest.Term {
	t.Helper()
	next := map[string]workertest.Term{}
	deadline := time.After(workertest.Patience)
	for len(next) < len(old) {
		select {
		case n := <-f.terms:
			token, err := strconv.ParseUint(old[n.group][2], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := next[n.group]; !ok && n.Token > token {
				next[n.group] = n.Term
			}
		case <-deadline:
			t.Fatalf("%d of %d groups are led within %v", len(next), len(old), workertest.Patience)
		}
	}
	return next
}
