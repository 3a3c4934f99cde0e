package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// A database that a newer program has migrated is left alone, and a worker that
// was running goes on: it knows what it needs.
func TestTablesOfANewerVersion(t *testing.T) {
	t.Parallel()
	path := configure(t, "  - {name: tick, every: 1s, exec: [\"true\"]}\n")
	w := startWorker(t, "run", "--config", path)
	w.awaitMessage("run succeeded")
	s := openStore(t, path)
	if _, err := s.DB().ExecContext(t.Context(), "UPDATE cronlease_schema SET version = version + 1"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"run"}, {"migrate"}, {"run", "--migrate"}} {
		r := command(t, append(args, "--config", path)...)
		if exitCode(r.err) != 1 || !strings.Contains(r.err.Error(), "update the program") || !strings.Contains(r.err.Error(), "lease.db") {
			t.Errorf("worker %v: %+v", args, r)
		}
	}
	began := time.Now()
	w.await("a run that started later", func(line map[string]any) bool {
		at, err := time.Parse(time.RFC3339Nano, asText(line["tick"]))
		return err == nil && line["msg"] == "run succeeded" && at.After(began)
	})
	if code := w.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// What jobs and other programs have written into the ledger reaches a terminal
// as one line of text, however it was meant.
func TestHostileTextInTheLedger(t *testing.T) {
	t.Parallel()
	path := configure(t, "  - {name: idle, manual: true, exec: [\"true\"]}\n")
	s := openStore(t, path)
	ctx := t.Context()
	if err := s.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Prepare(ctx, "billing", time.Second); err != nil {
		t.Fatal(err)
	}
	rs, err := s.Read(ctx, "billing")
	if err != nil {
		t.Fatal(err)
	}
	h := jobs.Holder{Group: "billing", Owner: "a/b/1/c"}
	if h.Token, err = s.Acquire(ctx, lease.Acquire{Read: rs[0], Owner: h.Owner, Heartbeat: 1, TTL: time.Second}); err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{
		"\x1b[2J\x1b]0;title\x07", "\u009b2J", "\u202egnirts", "a\rb\vc\fd\be", "a\x00b", "\u2028line", "<script>alert(1)</script>", "a\tb\tc",
		strings.Repeat("\U0001F600", 400), "\ufeff\u200b",
	} {
		key := jobs.Key{Job: "idle", Tick: time.Unix(int64(i), 0)}
		if err := s.Declare(ctx, h, []jobs.Declared{{Name: "idle", Schedule: text}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Claim(ctx, h, jobs.ClaimID{byte(i)}, []jobs.Claim{{Key: key, State: jobs.Skipped, Error: text}}); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"runs", "--limit", "1"}, {"jobs"}} {
			r := command(t, append(args, "--config", path)...)
			if r.err != nil {
				t.Fatal(r.err)
			}
			lines := strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
			if len(lines) != 2 || len(lines[1]) > 1000 {
				t.Errorf("%q: worker %s: %q", text, args[0], r.stdout)
			}
			if i := strings.IndexFunc(lines[len(lines)-1], func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%q: worker %s: %q", text, args[0], r.stdout)
			}
		}
	}
}

func openStore(t *testing.T, path string) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(filepath.Join(filepath.Dir(path), "lease.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func asText(v any) string {
	s, _ := v.(string)
	return s
}
