package sqlitestore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

func TestPaths(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"plain.db", "with space.db", "what?.db", "mode=ro?mode=memory&vfs=none.db", "a#b.db", "100%.db", "%3F%41.db",
		"plus+and&.db", "ünïcødé 東京.db", `back\slash"quote'.db`, ";PRAGMA x.db", "sqlite:twice.db",
	} {
		for _, prefix := range []string{"", "sqlite:", "sqlite://"} {
			t.Run(prefix+name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				s := open(t, prefix+filepath.Join(dir, name))
				if err := s.Migrate(soon(t)); err != nil {
					t.Fatal(err)
				}
				if err := s.Check(soon(t)); err != nil {
					t.Fatal(err)
				}
				files, err := os.ReadDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				for _, file := range files {
					if !strings.HasPrefix(file.Name(), name) {
						t.Errorf("made the file %q, want %q", file.Name(), name)
					}
				}
				if want := filepath.Join(dir, name); !strings.Contains(s.String(), want) {
					t.Errorf("String is %q, want one with %q", s, want)
				}
			})
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "sqlite:", "sqlite://", ":memory:", "sqlite::memory:", "file:leases.db", "a\x00b"} {
		if s, err := sqlitestore.Open(path); err == nil {
			t.Errorf("Open(%q) gave %v, want an error", path, s)
		}
	}
}

func TestErrorsNameTheFileAndTheCure(t *testing.T) {
	t.Parallel()
	write := func(t *testing.T, path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name  string
		path  string // in a new directory
		setup func(t *testing.T, path string)
		call  func(ctx context.Context, s *sqlitestore.Store) error
		cure  string
	}{
		{"no file", "leases.db", nil, check, "run Migrate"},
		{"no file for Read", "leases.db", nil, read, "run Migrate"},
		{"no directory", "missing/leases.db", nil, migrate, "mkdir -p"},
		{"no directory for Read", "missing/leases.db", nil, read, "mkdir -p"},
		{"a directory", ".", nil, migrate, "it is a directory"},
		{"not a database", "leases.db", func(t *testing.T, path string) { t.Helper(); write(t, path, strings.Repeat("no database ", 100)) },
			migrate, "not an SQLite database"},
		{"not a database for Read", "leases.db", func(t *testing.T, path string) { t.Helper(); write(t, path, strings.Repeat("no database ", 100)) },
			read, "not an SQLite database"},
		{"no tables", "leases.db", func(t *testing.T, path string) { t.Helper(); write(t, path, "") }, check, "run Migrate"},
		{"no tables for Read", "leases.db", func(t *testing.T, path string) { t.Helper(); write(t, path, "") }, read, "run Migrate"},
		{"newer tables", "leases.db", newer, check, "update the program"},
		{"newer tables for Migrate", "leases.db", newer, migrate, "update the program"},
		{"no write-ahead log", "leases.db", func(t *testing.T, path string) {
			t.Helper()
			s := open(t, path)
			if err := s.Migrate(soon(t)); err != nil {
				t.Fatal(err)
			}
			run(t, s.DB(), "PRAGMA journal_mode = DELETE")
		}, check, "journal_mode = WAL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), test.path)
			if test.setup != nil {
				test.setup(t, path)
			}
			err := test.call(soon(t), open(t, path))
			if !errors.Is(err, lease.ErrSetup) {
				t.Fatalf("error %v, want ErrSetup", err)
			}
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), test.cure) {
				t.Errorf("error %q, want one that names %q and says %q", err, path, test.cure)
			}
		})
	}
}

func check(ctx context.Context, s *sqlitestore.Store) error   { return s.Check(ctx) }
func migrate(ctx context.Context, s *sqlitestore.Store) error { return s.Migrate(ctx) }

func read(ctx context.Context, s *sqlitestore.Store) error {
	_, err := s.Read(ctx, "group")
	return err
}

func newer(t *testing.T, path string) {
	t.Helper()
	s := open(t, path)
	if err := s.Migrate(soon(t)); err != nil {
		t.Fatal(err)
	}
	run(t, s.DB(), "UPDATE cronlease_schema SET version = version + 100")
}

func TestTenMigrateAtOnce(t *testing.T) {
	t.Parallel()
	for range 5 {
		path := filepath.Join(t.TempDir(), "leases.db")
		begin := make(chan struct{})
		var all sync.WaitGroup
		for range 10 {
			s := open(t, path)
			all.Go(func() {
				<-begin
				if err := s.Migrate(soon(t)); err != nil {
					t.Errorf("Migrate: %v", err)
				}
			})
		}
		close(begin)
		all.Wait()
		if err := open(t, path).Check(soon(t)); err != nil {
			t.Errorf("Check: %v", err)
		}
	}
}

func TestMigrateOnceMoreWritesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	ctx, locked := soon(t), lock(t, s)
	if err := s.Migrate(ctx); err != nil { // beside a writer
		t.Errorf("Migrate: %v", err)
	}
	locked()
}

// lock takes SQLite's lock for writing, and returns what gives it back.
func lock(t *testing.T, s *sqlitestore.Store) func() {
	t.Helper()
	c, err := s.DB().Conn(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ExecContext(soon(t), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if _, err := c.ExecContext(soon(t), "ROLLBACK"); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWriterIsWaitedForByWritersOnly(t *testing.T) {
	t.Parallel()
	path := migrated(t)
	s := open(t, path)
	if err := s.Prepare(soon(t), "group", time.Second); err != nil {
		t.Fatal(err)
	}
	unlock := lock(t, open(t, path))
	if _, err := s.Read(soon(t), "group"); err != nil {
		t.Errorf("Read beside a writer: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := s.AskResign(ctx, "group", 1)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a write beside a writer, until its context ended: error %v, want the context's", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- s.Prepare(soon(t), "other", time.Second) }()
	select {
	case err := <-waited:
		t.Errorf("a write beside a writer did not wait: error %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	unlock()
	if err := <-waited; err != nil {
		t.Errorf("a write after the writer: %v", err)
	}
}

// A connection whose file was replaced, or deleted, is not used again.
func TestReplacedFile(t *testing.T) {
	t.Parallel()
	path := migrated(t)
	s := open(t, path)
	if err := s.Prepare(soon(t), "group", time.Second); err != nil {
		t.Fatal(err)
	}
	rs, err := s.Read(soon(t), "group")
	if err != nil {
		t.Fatal(err)
	}
	token, err := s.Acquire(soon(t), store.Acquire{Read: rs[0], Owner: "owner", Heartbeat: 1, TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(migrated(t), path); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path + "-wal", path + "-shm"} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	n, err := s.Renew(soon(t), store.Renew{Owner: "owner", Heartbeat: 2, Leases: []store.Renewal{{Group: "group", Token: token, Heartbeat: 1}}})
	if err != nil || n != 0 {
		t.Errorf("Renew in another file: %d renewed, error %v, want 0 and none", n, err)
	}
	now, err := s.Read(soon(t), "group")
	if err != nil {
		t.Fatal(err)
	}
	if now[0].Server == rs[0].Server || now[0].Session == rs[0].Session || now[0].Lease != nil {
		t.Errorf("the other file shows %+v", now[0])
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := read(soon(t), s); !errors.Is(err, lease.ErrSetup) {
		t.Errorf("Read of a deleted file: error %v, want ErrSetup", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a deleted file came back: %v", err)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	path := migrated(t)
	s, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Prepare(soon(t), "group", time.Second); err != nil {
		t.Fatal(err)
	}
	signal := s.HandoverSignal("group")
	if err := signal.Wait(soon(t)); err != nil {
		t.Fatalf("Wait for a released lease: %v", err)
	}
	// The same release does not signal twice, or a replica that must not take the
	// lease yet would spin.
	waited := make(chan error, 1)
	go func() { waited <- signal.Wait(soon(t)) }()
	select {
	case err := <-waited:
		t.Errorf("a second signal for one release: error %v", err)
	case <-time.After(250 * time.Millisecond):
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err == nil {
		t.Error("Wait went on after the store was closed")
	}
	for what, err := range map[string]error{
		"Read": read(soon(t), s), "Migrate": s.Migrate(soon(t)), "Check": s.Check(soon(t)), "Wait": s.HandoverSignal("group").Wait(soon(t)),
	} {
		if err == nil {
			t.Errorf("%s on a closed store has no error", what)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close, again: %v", err)
	}
}
