package e2e

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/internal/subprocess"
	"github.com/cronlease/cronlease/internal/workertest"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// writerVariable makes the test program a writer, on the database of its value.
const writerVariable = "CRONLEASE_TEST_WRITER"

// writerTTL is the smallest that there is.
const writerTTL = time.Second

// scenario is a way to write, and the point at which the writer is stopped. Its
// name is that of its group.
type scenario struct {
	way     string
	point   string
	careful bool // writes with its job's context, which ends: else the database alone refuses it
}

func (s scenario) name() string {
	name := s.way + "-" + s.point
	if s.careful {
		name += "-careful"
	}
	return name
}

// The points. On SQLite a writer is not stopped where it holds the file's lock.
const (
	before  = "before"  // its transaction
	inside  = "inside"  // it, and before its statement
	after   = "after"   // its statement, and before the check
	checked = "checked" // between the check and COMMIT
)

func scenarios(kind string) []scenario {
	all := []scenario{
		{"plain", inside, false},
		{"Do", before, false}, {"Do", inside, false}, {"Do", inside, true}, {"Do", after, false}, {"Do", checked, false},
		{"Commit", before, false}, {"Commit", inside, false}, {"Commit", after, false}, {"Commit", checked, false},
	}
	if kind == workertest.SQLite {
		all = slices.DeleteFunc(all, func(s scenario) bool { return s.point == after || s.point == checked })
	}
	return all
}

type writerStore interface {
	store.Leases
	store.Fences
	DB() *sql.DB
	Migrate(context.Context) error
	Close() error
}

// openWriterStore opens "kind DSN".
func openWriterStore(where string) (kind string, store writerStore, err error) {
	kind, dsn, _ := strings.Cut(where, " ")
	if kind == workertest.SQLite {
		store, err = sqlitestore.Open(dsn)
	} else {
		store, err = mysqlstore.Open(dsn)
	}
	return kind, store, err
}

// lateStore is a store that stops the writer right after the check.
type lateStore struct {
	writerStore
	stop func()
}

// CheckHold implements [store.Fences].
func (l lateStore) CheckHold(ctx context.Context, tx store.Querier, h lease.Hold) (bool, error) {
	held, err := l.writerStore.CheckHold(ctx, tx, h)
	l.stop()
	return held, err
}

// write leads one group for each scenario, does what it says up to its point, and
// says so. The first line of standard input lets those that stop after their
// check come to it, the second one lets all go on. It prints the outcomes and ends.
func write(where string) error {
	kind, store, err := openWriterStore(where)
	if err != nil {
		return err
	}
	defer store.Close()
	var mu sync.Mutex
	say := func(words ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(words...)
	}
	check, goOn := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	for _, s := range scenarios(kind) {
		all.Go(func() {
			ctx, done := context.WithCancel(context.Background())
			err := election.Run(ctx, store, s.name(), func(ctx context.Context, term election.Term) error {
				defer done()
				at := func(point string) {
					if point != s.point {
						return
					}
					say("at", s.name(), term.Token())
					<-goOn
				}
				if s.point == checked {
					say("at", s.name(), term.Token())
					<-check
				}
				say("wrote", s.name(), term.Token(), outcome(s.write(ctx, store, at)))
				return nil
			}, election.WithTiming(lease.Timing{TTL: writerTTL}))
			if err != nil {
				say("failed", s.name(), 0, err)
			}
		})
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Scan()
	close(check)
	lines.Scan()
	close(goOn)
	all.Wait()
	return lines.Err()
}

// write writes a row, and calls at with each point that it comes to.
func (s scenario) write(ctx context.Context, store writerStore, at func(string)) error {
	hold := lease.Holds(ctx)[0]
	token := hold.Token
	if !s.careful {
		hold.Trusted = nil
		if s.point == checked {
			hold.Store = lateStore{store, func() { at(checked) }}
		}
		ctx = lease.WithHold(context.Background(), hold)
	}
	fn := func(tx *sql.Tx) error {
		if _, err := tx.Exec("SELECT 1"); err != nil { // it has begun
			return err
		}
		at(inside)
		// A statement of a context that has ended is not even sent.
		if _, err := tx.Exec("INSERT INTO effect (name, token) VALUES (?, ?)", s.name(), int64(token)); err != nil {
			return err
		}
		at(after)
		return nil
	}
	at(before)
	if s.way == "Do" {
		return fence.Do(ctx, store.DB(), fn)
	}
	tx, err := store.DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := fn(tx); err != nil {
		return err
	}
	if s.way == "plain" {
		return tx.Commit()
	}
	return fence.Commit(ctx, tx)
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "stored"
	case errors.Is(err, fence.ErrFenced):
		return "refused " + err.Error()
	default:
		return "failed " + err.Error()
	}
}

// writer is such a process.
type writer struct {
	*exec.Cmd
	in    io.WriteCloser
	lines chan []string
}

func startWriter(t *testing.T, where string) *writer {
	t.Helper()
	w := &writer{Cmd: exec.Command(os.Args[0]), lines: make(chan []string, 1000)}
	w.Env = append(os.Environ(), writerVariable+"="+where)
	w.Stderr = os.Stderr
	out, err := w.StdoutPipe()
	if err == nil {
		w.in, err = w.StdinPipe()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	err = subprocess.Go(w.Cmd, func() {
		defer close(ended)
		defer close(w.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			w.lines <- strings.SplitN(lines.Text(), " ", 4)
		}
		_ = w.Wait()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.Process.Kill()
		<-ended
	})
	return w
}

// waitFor returns the next lines that begin with the word, by the groups, one
// for each of them.
func (w *writer) waitFor(t *testing.T, word string, groups int) map[string][]string {
	t.Helper()
	got := map[string][]string{}
	deadline := time.After(workertest.Patience)
	for len(got) < groups {
		select {
		case line, ok := <-w.lines:
			if !ok {
				t.Fatalf("the writer has ended after %d of %d: %s", len(got), groups, word)
			}
			if line[0] == word {
				got[line[1]] = line
			} else {
				t.Errorf("the writer says %q", line)
			}
		case <-deadline:
			t.Fatalf("%d of %d within %v: %s", len(got), groups, workertest.Patience, word)
		}
	}
	return got
}

// next lets the writer go on.
func (w *writer) next(t *testing.T) {
	t.Helper()
	if _, err := fmt.Fprintln(w.in); err != nil {
		t.Error(err)
	}
}

// stop stops the writer with SIGSTOP, on SQLite not in the middle of a write.
func (w *writer) stop(t *testing.T, kind string, store writerStore) time.Time {
	t.Helper()
	for {
		at := time.Now()
		w.signal(t, subprocess.Suspend)
		if kind != workertest.SQLite {
			return at
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := store.Prepare(ctx, "probe", writerTTL)
		cancel()
		if err == nil {
			return at
		}
		w.signal(t, subprocess.Resume)
	}
}

func (w *writer) signal(t *testing.T, send func(*os.Process) error) {
	t.Helper()
	if err := send(w.Process); err != nil {
		t.Fatal(err)
	}
}
