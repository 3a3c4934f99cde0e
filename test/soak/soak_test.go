//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
)

// brief is a plan that has everything in it once. There is nothing to tell of what grows.
var brief = plan{
	total: 14 * time.Second, warmup: 12 * time.Second, sample: 500 * time.Millisecond, ttl: 6 * time.Second,
	changes: []time.Duration{time.Second, 9 * time.Second}, resigns: 3, between: 700 * time.Millisecond,
}

// newSoaking returns a run that has not begun, on a schema of its own. What it printed is read after its end.
func newSoaking(t *testing.T, db dbtest.Database, p plan) (*soaking, *bytes.Buffer) {
	t.Helper()
	d, err := newDatabase(t.Context(), db.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.drop(); err != nil {
			t.Error(err)
		}
		var n int
		if err := db.Open(t).QueryRow("SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ?", d.schema).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d schemas are left, %v", n, err)
		}
	})
	var out bytes.Buffer
	return &soaking{plan: p, seed: 1, database: d, out: &out}, &out
}

func TestSoak(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		s, out := newSoaking(t, db, brief)
		text, err := s.whole(t.Context())
		if err != nil {
			t.Fatalf("%v\n%s%s", err, out, text)
		}
		for _, want := range []string{
			`goroutines +[1-9]\d+ +[1-9]\d+ +[1-9]\d+ +[1-9]\d+ +too short to tell\n`,
			`descriptors +[1-9]\d+ `, `connections +[1-9]\d+ `, `ledger rows +[1-9]\d\d+ `, `lock rows +[1-9]`,
			`\n  [1-9]\d\d+ runs, [1-9]\d* of which returned an error; ([4-9]|[1-3]\d) terms, 1 restarts; [1-9]\d* locks `,
			`each second: [1-9]\d\d run, 0 missing, 0 doubled\n`, `: [1-9]\d\d looked at, 0 wrong\n`,
			`\n  left at the end: 0 connections, goroutines in 0 workers\n`,
			`× run timed out\n`,
		} {
			if !regexp.MustCompile(want).MatchString(text) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
		if strings.Contains(text, "ended early") || !strings.Contains(out.String(), " after ") {
			t.Errorf("printed\n%s%s", out, text)
		}
	})
}

// A soak that is ended early prints what was measured until then, and leaves nothing behind.
func TestEndedEarly(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		p := newPlan(time.Hour)
		p.sample = 200 * time.Millisecond
		s, out := newSoaking(t, db, p)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s.out = writerFunc(func(line []byte) (int, error) {
			cancel() // there is a sample
			return out.Write(line)
		})
		s.plan.tell = time.Second
		text, err := s.whole(ctx)
		if err != nil || !strings.Contains(text, "; ended early\n") || !regexp.MustCompile(`goroutines +- +- +- +[1-9]\d+ +too short`).MatchString(text) {
			t.Errorf("%v\n%s%s", err, out, text)
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A worker that dies is trouble, and the others are stopped.
func TestWorkerDies(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		s, _ := newSoaking(t, db, newPlan(time.Hour))
		s.plan.sample = 200 * time.Millisecond
		if err := s.start(); err != nil {
			t.Fatal(err)
		}
		all := s.workers
		if err := s.sample(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(all[1].pid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		err := s.run(t.Context())
		if err == nil || errors.Is(err, errGrows) || !strings.Contains(err.Error(), "worker-2") || !strings.Contains(err.Error(), "signal: killed") {
			t.Errorf("got %v, want one that names worker-2 and how it ended", err)
		}
		if err := s.stop(); err != nil {
			t.Error(err)
		}
		for _, p := range all {
			if !p.over {
				t.Errorf("%s still runs", p.label)
			}
		}
	})
}
