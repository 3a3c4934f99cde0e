package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// topOf returns a board over a group whose leader has hostile jobs, one of which runs, one has
// failed, one is paused, and the rest are due.
func topOf(t *testing.T) (*topBoard, *sqlitestore.Store) {
	t.Helper()
	path, s, h := led(t, 2*time.Minute)
	const hostile = "hostile"
	if err := s.Declare(t.Context(), h, []store.Declared{{Name: hostile, Schedule: "every 1h"}, {Name: "backup", Schedule: "every 1h"}}); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Second).UTC()
	running, failed := jobs.Key{Job: hostile, Tick: now}, jobs.Key{Job: "backup", Tick: now}
	_, err := s.Claim(t.Context(), h, store.ClaimID{1}, []store.Claim{{Key: running, State: jobs.Running}, {Key: failed, State: jobs.Running}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Move(t.Context(), h, []store.Move{{Key: failed, From: jobs.Running, Attempt: 1, Owner: h.Owner, Token: h.Token, To: jobs.Failed, Error: "no\x1b[2Jspace\nleft"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Pause(t.Context(), "billing", "slow"); err != nil {
		t.Fatal(err)
	}
	// A program that can write the tables can put any name into them.
	execute(t, s, "UPDATE cronlease_job SET name = ?1 WHERE name = 'hostile'", "\x1b[31mred\u202e")
	execute(t, s, "UPDATE cronlease_run SET job = ?1 WHERE job = 'hostile'", "\x1b[31mred\u202e")
	enlist(t, s, h.Owner, "v1", map[string]string{"tick": "every 1s"})
	db, err := sqlitestore.Open(filepath.Join(filepath.Dir(path), "lease.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return newTopBoard(db, "billing", &target{}), s
}

// The frame fits any screen, and nothing in it commands the terminal.
func TestTopFrames(t *testing.T) {
	t.Parallel()
	b, _ := topOf(t)
	b.look(t.Context())
	if b.failed != nil {
		t.Fatal(b.failed)
	}
	text := strings.Join(b.lines(0, 0), "\n")
	// A machine that is busy makes the durations longer.
	for _, want := range []string{
		"group billing", "leader a/b/1/c for ", "workers 1: 1 of v1", "1 running, 0 waiting, 1 failing, 1 paused", "1 OVERDUE \\(tick for ",
		`running \d+(\.\d)?s`, "paused", "failed ", ": no", `due [12]m`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	first := func(name string) int { return strings.Index(text, "\n"+name) }
	if red := strings.Index(text, `\x1b[31mred\u202e`); red < 0 || first("tick") < red || first("backup") < first("tick") {
		t.Errorf("order of\n%s", text)
	}
	for _, size := range [][2]int{{80, 24}, {40, 10}, {20, 8}, {1, 1}, {200, 9}} {
		lines := b.lines(size[0], size[1])
		for _, line := range lines {
			if n := len([]rune(line)); n > size[0] || strings.ContainsAny(line, "\x1b\u202e\n\r") {
				t.Errorf("%v: %d characters: %q", size, n, line)
			}
		}
		if size[1] > 8 && len(lines) > size[1] {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		if drawn := frame(lines); strings.Count(drawn, "\x1b") != len(lines)+2 {
			t.Errorf("%v: %q", size, drawn)
		}
	}
}

// While the database is away, the board says so and shows what it had; then it goes on.
func TestTopWithoutADatabase(t *testing.T) {
	t.Parallel()
	b, s := topOf(t)
	b.look(t.Context())
	path := strings.TrimSuffix(strings.TrimPrefix(s.String(), "sqlitestore("), ")")
	away := path + ".away"
	move := func(from, to string) {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := os.Rename(from+suffix, to+suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
	}
	move(path, away)
	b.look(t.Context())
	text := strings.Join(b.lines(0, 0), "\n")
	if b.failed == nil || !strings.Contains(text, "NO ANSWER from the database for ") || !strings.Contains(text, "leader a/b/1/c") || !strings.Contains(text, "backup") {
		t.Errorf("%v\n%s", b.failed, text)
	}
	_ = os.Remove(path) // which may have been made empty
	move(away, path)
	b.look(t.Context())
	if text := strings.Join(b.lines(0, 0), "\n"); b.failed != nil || strings.Contains(text, "NO ANSWER") {
		t.Errorf("%v\n%s", b.failed, text)
	}
}

// Through a pipe it prints what it was asked for, and ends.
func TestTopThroughAPipe(t *testing.T) {
	t.Parallel()
	path := configure(t, "  - {name: tick, every: 1s, exec: [\"true\"]}\n")
	if r := command(t, "top", "--config", path); r.err == nil || !strings.Contains(r.stdout, "NO ANSWER") {
		t.Errorf("without a database: %v %s", r.err, r.stdout)
	}
	w := startWorker(t, "run", "--config", path)
	w.awaitMessage("run succeeded")
	var r result
	for end := time.Now().Add(limit); !strings.Contains(r.stdout, "succeeded "); {
		if r = command(t, "top", "--config", path); r.err != nil || strings.Count(r.stdout, "group billing") != 1 || time.Now().After(end) {
			t.Fatalf("%v %s", r.err, r.stdout)
		}
	}
	r = command(t, "top", "--config", path, "--count", "3", "--interval", "500ms")
	if r.err != nil || strings.Count(r.stdout, "group billing") != 3 || strings.Contains(r.stdout, "\x1b") {
		t.Errorf("%v %s", r.err, r.stdout)
	}
	for _, wrong := range [][]string{{"--interval", "1ms"}, {"--count", "-1"}} {
		if r := command(t, append([]string{"top", "--config", path}, wrong...)...); exitCode(r.err) != 2 {
			t.Errorf("%q: %v", wrong, r.err)
		}
	}
	if code := w.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestAgo(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0s", 1500 * time.Millisecond: "1.5s", 42 * time.Second: "42s", 61 * time.Second: "1m01s",
		3*time.Hour + 5*time.Minute: "3h05m", 75 * time.Hour: "3d03h",
	} {
		if got := ago(d); got != want {
			t.Errorf("%s: %s, want %s", fmt.Sprint(d), got, want)
		}
	}
}
