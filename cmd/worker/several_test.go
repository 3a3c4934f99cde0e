package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
)

// severalFiles are configuration files of groups with one job each, which runs each second, on one database.
func severalFiles(t *testing.T, database string, n int) (paths, flags []string) {
	t.Helper()
	folder := t.TempDir()
	for i := range n {
		path := filepath.Join(folder, fmt.Sprintf("group-%d.yaml", i))
		text := fmt.Sprintf("database: %q\ngroup: group-%d\nlease: {ttl: 4s}\njobs:\n  - {name: job-%d, every: 1s, exec: [\"true\"]}\n", database, i, i)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths, flags = append(paths, path), append(flags, "--config", path)
	}
	return paths, flags
}

// A worker of several groups leads them all, reloads one of them alone, and hands all of them
// over when it stops.
func TestSeveralGroups(t *testing.T) {
	t.Parallel()
	paths, flags := severalFiles(t, "sqlite:"+filepath.Join(t.TempDir(), "lease.db"), 3)
	w := startWorker(t, append([]string{"run"}, flags...)...)
	for i := range paths {
		w.await("a run", about(fmt.Sprint("job-", i), "run succeeded"))
	}
	text, err := os.ReadFile(paths[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(paths[1], []byte(strings.ReplaceAll(string(text), "name: job-1", "name: more-1")), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := command(t, "reload", "--config", paths[1]); r.err != nil || !strings.Contains(r.stdout, "added more-1; removed job-1") {
		t.Errorf("got %+v", r)
	}
	if read := w.awaitMessage("the configuration was read again"); read["group"] != "group-1" || read["owner"] == nil {
		t.Errorf("the line of the change is %v", read)
	}
	w.await("a run of what was added", about("more-1", "run succeeded"))
	if code := w.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, path := range paths {
		if s := statusOf(t, path); s.State != "released" {
			t.Errorf("%s: %+v", path, s)
		}
	}
}

// The metrics that one file has served are those of all groups of the process.
func TestMetricsOfSeveralGroups(t *testing.T) {
	t.Parallel()
	paths, flags := severalFiles(t, "sqlite:"+filepath.Join(t.TempDir(), "lease.db"), 2)
	text, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(paths[0], append(text, "listen: 127.0.0.1:0\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	w := startWorker(t, append([]string{"run"}, flags...)...)
	address := addressOf(w)
	for i := range paths {
		w.await("a run", about(fmt.Sprint("job-", i), "run succeeded"))
	}
	awaitText(t, address+"/metrics", `cronlease_runs_total{group="group-0",job_name="job-0",state="succeeded"}`, `cronlease_runs_total{group="group-1",job_name="job-1",state="succeeded"}`,
		`cronlease_healthy{check="leader",group="group-1"} 1`)
}

// What does not fit together is refused, and nothing is started.
func TestSeveralGroupsThatDoNotFit(t *testing.T) {
	t.Parallel()
	paths, flags := severalFiles(t, "sqlite:"+filepath.Join(t.TempDir(), "lease.db"), 2)
	if r := command(t, "run", "--config", paths[0], "--config", paths[0]); r.err == nil || !strings.Contains(r.err.Error(), "is given twice") {
		t.Errorf("got %+v", r)
	}
	if r := command(t, append([]string{"run", "--listen", "127.0.0.1:0"}, flags...)...); exitCode(r.err) != 2 || !strings.Contains(r.err.Error(), "--listen is for one --config") {
		t.Errorf("got %+v", r)
	}
	if err := os.WriteFile(paths[1], []byte("group: g\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := command(t, append([]string{"run"}, flags...)...); r.err == nil || !strings.Contains(r.err.Error(), "group-1.yaml") {
		t.Errorf("got %+v", r)
	}
}

// Workers of 20 groups have no more connections each than docs/database.md says, whether they lead or follow.
func TestSessionsOfSeveralGroups(t *testing.T) {
	t.Parallel()
	const groups, most = 20, 12
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		c := db.Config(t)
		where := url.URL{Scheme: "mysql", User: url.UserPassword(c.User, c.Passwd), Host: c.Addr, Path: "/" + c.DBName}
		paths, flags := severalFiles(t, where.String(), groups)
		if r := command(t, "migrate", "--config", paths[0]); r.err != nil {
			t.Fatalf("got %+v", r)
		}
		admin := db.Open(t)
		admin.SetMaxOpenConns(1)
		sessions := func() int {
			n, err := dbserver.Sessions(context.Background(), admin, "db = ? AND id <> CONNECTION_ID()", c.DBName)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		watch := func(what string, workers int, until func()) {
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				defer cancel()
				until()
			}()
			seen := 0
			for ctx.Err() == nil {
				seen = max(seen, sessions())
				select {
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
				}
			}
			t.Logf("%s: at most %d sessions", what, seen)
			if seen > most*workers {
				t.Errorf("%s: %d sessions of %d workers", what, seen, workers)
			}
		}
		leader := startWorker(t, append([]string{"run"}, flags...)...)
		ran := func(w *worker) func() {
			return func() {
				for i := range groups {
					w.await("a run", about(fmt.Sprint("job-", i), "run succeeded"))
				}
			}
		}
		watch("the leader", 1, ran(leader))
		follower := startWorker(t, append([]string{"run"}, flags...)...)
		watch("a follower", 2, func() {
			for i := range groups {
				follower.await("what it waits for", func(line map[string]any) bool {
					return line["group"] == fmt.Sprint("group-", i) && strings.HasPrefix(fmt.Sprint(line["msg"]), "the lease is held")
				})
			}
		})
		if r := command(t, "doctor", "--config", paths[0]); !strings.Contains(r.stdout, "2 workers may need 88") {
			t.Errorf("got %+v", r)
		}
		watch("a hand-over", 2, func() {
			if code := leader.stop(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			ran(follower)()
		})
	})
}
