package main

import (
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
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
	if _, err := s.DB().ExecContext(t.Context(), "UPDATE cronlease_schema SET version = version + 100"); err != nil {
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
	path, s, h := ledIdle(t, "manual")
	ctx := t.Context()
	for i, text := range []string{
		"\x1b[2J\x1b]0;title\x07", "\u009b2J", "\u202egnirts", "a\rb\vc\fd\be", "a\x00b", "\u2028line", "<script>alert(1)</script>", "a\tb\tc",
		strings.Repeat("\U0001F600", 400), "\ufeff\u200b",
	} {
		key := jobs.Key{Job: "idle", Tick: time.Unix(int64(i), 0)}
		if err := s.Declare(ctx, h, []store.Declared{{Name: "idle", Schedule: text}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Claim(ctx, h, store.ClaimID{byte(i)}, []store.Claim{{Key: key, State: jobs.Skipped, Error: text}}); err != nil {
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

// A tick that RFC 3339 cannot say hides no other run.
func TestTicksOfAnyYear(t *testing.T) {
	t.Parallel()
	path, s, h := ledIdle(t, "manual")
	ctx := t.Context()
	for i, tick := range []time.Time{time.UnixMicro(math.MaxInt64), time.Unix(1, 0), time.UnixMicro(math.MinInt64)} {
		// A claim only takes ticks that are later than those before.
		if _, err := s.Claim(ctx, h, store.ClaimID{byte(i)}, []store.Claim{{Key: jobs.Key{Job: "idle", Tick: time.Unix(int64(i), 0)}, State: jobs.Skipped}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.DB().ExecContext(ctx, "UPDATE cronlease_run SET trigger_id = 1, tick = ?1 WHERE tick = ?2 AND trigger_id = 0", tick.UnixMicro(), i*1e6); err != nil {
			t.Fatal(err)
		}
	}
	r := command(t, "runs", "--json", "--since", "0000-01-01T00:00:00Z", "--config", path)
	var list []runRecord
	if err := errors.Join(r.err, json.Unmarshal([]byte(r.stdout), &list)); err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].Tick.Year() != 9999 || list[1].Tick.Unix() != 1 {
		t.Errorf("got %+v", list)
	}
	if r := command(t, "jobs", "--json", "--config", path); r.err != nil {
		t.Error(r.err)
	}
}

// Names that another program has written into the tables are shown escaped.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	path, s, h := ledIdle(t, "manual")
	ctx := t.Context()
	key := jobs.Key{Job: "idle", Tick: time.Unix(1, 0)}
	if _, err := s.Claim(ctx, h, store.ClaimID{1}, []store.Claim{{Key: key, State: jobs.Skipped}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"\x1b]0;title\x07", "\u009b2J", "\u202egnirts", "a\nb\tc", "\ufeff\u200b"} {
		for _, statement := range []string{
			"UPDATE cronlease_run SET job = ?1, owner = ?1 || '/x'", "UPDATE OR REPLACE cronlease_job SET name = ?1", "UPDATE cronlease_lease SET owner = ?1", "UPDATE cronlease_fence SET owner = ?1",
		} {
			if _, err := s.DB().ExecContext(ctx, statement, name); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range [][]string{{"runs"}, {"jobs"}, {"status"}, {"runs", "--job", "none"}, {"resign", "--timeout", "1ms"}} {
			r := command(t, append(args, "--config", path)...)
			text := r.stdout
			if r.err != nil {
				text += printableText(r.err.Error())
			}
			if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }); i >= 0 {
				t.Errorf("%q: worker %v: %q", name, args, text)
			}
			if want := strings.Trim(strconv.QuoteToASCII(name), `"`); !strings.Contains(text, want) {
				t.Errorf("%q: worker %v: no %s in %q", name, args, want, text)
			}
		}
	}
}

// ledIdle makes a group whose leader has declared the job "idle" with that schedule.
func ledIdle(t *testing.T, schedule string) (path string, s *sqlitestore.Store, h store.Holder) {
	t.Helper()
	path = configure(t, "  - {name: idle, manual: true, exec: [\"true\"]}\n")
	s = openStore(t, path)
	if err := errors.Join(s.Migrate(t.Context()), s.Prepare(t.Context(), "billing", time.Second)); err != nil {
		t.Fatal(err)
	}
	h = takeOver(t, s)
	if err := s.Declare(t.Context(), h, []store.Declared{{Name: "idle", Schedule: schedule}}); err != nil {
		t.Fatal(err)
	}
	return path, s, h
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
