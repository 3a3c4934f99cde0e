package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(processVariable) != "" {
		os.Exit(status(obey(os.Stdin, os.Stdout)))
	}
	goleak.VerifyTestMain(m)
}

// facts are the document's statements beyond the mere failures, by way and
// scenario, and by kind of server where they differ.
var facts = map[string]string{
	"insert-delete crash":    "still taken after",
	"insert-delete deadlock": "the release got error 1213; still taken after",
	"insert-delete pause":    "nothing would end that",
	"insert-ignore crash":    "still taken after",
	"insert-ignore pause":    "its write was accepted",
	"insert-ignore overrun":  "its write accepted",
	"insert-ignore stolen":   "a third one got it",
	"insert-ignore names": "report and Report are one lock; 65 characters are cut, and the lock is still taken after its release; " +
		"another schema has locks of its own",
	"upsert crash":             "free after",
	"upsert pause":             "its write was accepted",
	"upsert overrun":           "its write accepted",
	"upsert stolen":            "the second one kept it",
	"upsert autumn":            "a lease of 15s lasted between 1h0m1s and 1h0m16s",
	"upsert spring":            "a lease of 15s had ended after 11s",
	"upsert found-rows":        "counts as 1",
	"for-update crash":         "free after",
	"for-update pause":         "only error 1205; wait_timeout would end it after",
	"for-update pinned":        "16 connections in use",
	"for-update cut":           "it found out when it released",
	"counter crash":            "still taken after",
	"counter pause":            "its write was accepted",
	"counter overrun":          "its write accepted",
	"counter stolen":           "a third one got it",
	"get-lock crash":           "free after",
	"get-lock pause":           "wait_timeout would end it after",
	"get-lock pinned":          "16 connections in use",
	"get-lock cut":             "it found out when it released",
	"get-lock pool":            "free after",
	"get-lock names mysql":     "report and Report are one lock; 65 characters are refused; another schema has the same locks",
	"get-lock names mariadb":   "report and Report are two locks; 65 characters are fine; another schema has the same locks",
	"get-lock-pooled pool":     "released without an error; still taken after",
	"insert-delete found-rows": "no other client got it",
	"insert-ignore found-rows": "no other client got it",
	"insert-delete pinned":     "0 connections in use",
	"insert-ignore pinned":     "0 connections in use",
	"upsert pinned":            "0 connections in use",
	"counter pinned":           "0 connections in use",
	"insert-delete cut":        "it kept the lock",
}

// Everything that docs/mysql-locks.md says is seen on each server.
func TestEveryFailure(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		results := try(t.Context(), db.Config(t), plan())
		for i, r := range results {
			if r.err != nil { // on a busy machine a lease of a second may be lost
				t.Logf("%s %s is tried again: %v", r.way, r.scenario.name, r.err)
				try(t.Context(), db.Config(t), results[i:i+1])
			}
		}
		for _, r := range results {
			t.Run(r.way+" "+r.scenario.name, func(t *testing.T) {
				if r.err != nil {
					t.Fatal(r.err)
				}
				if r.broken != r.expected {
					t.Errorf("failed: %t, want %t", r.broken, r.expected)
				}
				fact, ok := facts[r.way+" "+r.scenario.name]
				if !ok {
					fact, ok = facts[r.way+" "+r.scenario.name+" "+dbserver.Dialect(db.Kind)]
				}
				if !strings.Contains(r.happened, fact) || !ok && !isBeside(r.way) {
					t.Errorf("happened: %q, want %q", r.happened, fact)
				}
			})
		}
		var out strings.Builder
		if err := table(&out, results); err != nil {
			t.Error(err)
		}
		if err := verdict(&out, results); err != nil && !t.Failed() {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(out.String())
		}
	})
}

func isBeside(way string) bool {
	k, err := kindOf(way)
	return err == nil && k.beside
}

// An unknown name of a way would be ignored silently.
func TestPlanKnowsItsWays(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios {
		for _, way := range slices.Concat(s.breaks, s.survives) {
			if _, err := kindOf(way); err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
		}
	}
}

// An unexpected result is an error, in both directions, and so is a scenario that
// could not be tried.
func TestVerdict(t *testing.T) {
	t.Parallel()
	s := &scenario{name: "crash"}
	for _, test := range []struct {
		r    result
		want string // "": none
	}{
		{result{scenario: s, way: "a", expected: true, outcome: outcome{broken: true}}, ""},
		{result{scenario: s, way: "a"}, ""},
		{result{scenario: s, way: "a", expected: true}, "a, crash: was expected to fail"},
		{result{scenario: s, way: "a", outcome: outcome{broken: true}}, "a, crash: was expected not to fail"},
		{result{scenario: s, way: "a", err: context.Canceled}, "a, crash: context canceled"},
	} {
		err := verdict(&strings.Builder{}, []result{test.r})
		if got := fmt.Sprint(err); err == nil && test.want != "" || err != nil && got != test.want {
			t.Errorf("%+v: %v, want %q", test.r, err, test.want)
		}
	}
}

func TestTrialLeavesNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		trial, err := newTrial(t.Context(), db.Config(t), upsert)
		if err != nil {
			t.Fatal(err)
		}
		p, err := trial.start(long)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.do(t.Context(), "hold"); err != nil {
			t.Fatal(err)
		}
		if err := trial.end(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p.cmd.ProcessState == nil {
			t.Error("the process is still there")
		}
		var n int
		if err := db.Open(t).QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = ?",
			trial.config.DBName).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != 0 {
			t.Error("the schema is still there")
		}
	})
}

// An error says what to do, and not the password.
func TestRunRefuses(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"root:secret@nowhere":           "-dsn",
		"root:secret@tcp(127.0.0.1:1)/": "create a schema",
	} {
		err := run(t.Context(), dsn, &strings.Builder{})
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// The document has each failure that is tried, none that is not, and only SQL
// that runs here.
func TestDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/mysql-locks.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	var way string
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "## `"); ok {
			way, _, _ = strings.Cut(name, "`")
		} else if strings.HasPrefix(line, "## ") {
			way = ""
		}
		if m := regexp.MustCompile(`^- \*\*([a-z-]+)\*\*`).FindStringSubmatch(line); m != nil {
			found[way+" "+m[1]] = true
		}
	}
	for _, r := range plan() {
		name := r.way + " " + r.scenario.name
		if strings.HasPrefix(name, getLockPooled.name) { // a part of the other one
			name = getLock.name + " " + r.scenario.name
		}
		if r.expected && !found[name] {
			t.Errorf("the document says nothing of %s", name)
		}
		if r.expected {
			delete(found, name)
		}
	}
	for name := range found {
		t.Errorf("nothing shows %s", name)
	}

	var source strings.Builder
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < len(kinds)-2 { // pooled GET_LOCK is the same SQL, and ours is none
		t.Errorf("%d blocks of SQL", len(blocks))
	}
	for _, block := range blocks {
		for statement := range strings.SplitSeq(block[1], ";\n") {
			if !strings.Contains(source.String(), strings.TrimSpace(statement)) {
				t.Errorf("not in any file:\n%s", statement)
			}
		}
	}
}
