package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

const neverJob = "  - {name: never, cron: \"0 0 30 2 *\", exec: [x]}\n"

func TestValidate(t *testing.T) {
	t.Parallel()
	path := configure(t, idle+"  - {name: root, every: 1m, exec: [x], user: root, limits: {cpu: 1m}, env: {A: {file: /none}}}\n")
	r := command(t, "validate", "--config", path)
	if r.err != nil || r.stdout != path+": good, jobs: 2\n" || r.stderr != "" {
		t.Errorf("got %+v", r)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), "lease.db")); !os.IsNotExist(err) {
		t.Errorf("it has made the database: %v", err)
	}

	path = configure(t, neverJob+"  - {name: off, cron: \"-\", exec: [x]}\n"+idle)
	r = command(t, "validate", "--config", path)
	if want := "worker: warning: " + path + ":5:25: jobs[0].cron: job never is never due: "; r.err != nil || !strings.HasPrefix(r.stderr, want) || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("got %+v, want %s", r, want)
	}

	path = configure(t, `  - {name: over, every: 1m, until: 2020-01-01T00:00:00Z, exec: [x]}
  - {name: none, cron: "0 0 24 12 *", except: [12-24], exec: [x]}
`)
	r = command(t, "validate", "--config", path)
	for _, want := range []string{
		path + ":5:36: jobs[0].until: job over is never due: no tick is left before that",
		path + ":6:47: jobs[1].except: job none is never due: that leaves out every tick",
	} {
		if r.err != nil || !strings.Contains(r.stderr, "worker: warning: "+want) {
			t.Errorf("got %+v, want %s", r, want)
		}
	}

	// Quartz would run it on Mondays.
	path = configure(t, `  - {name: weekly, cron: "0 0 9 ? * 2", exec: [x]}
  - {name: said, cron: "0 0 9 ? * 2", dialect: spring, exec: [x]}
  - {name: same, cron: "0 0 9 ? * MON", exec: [x]}
  - {name: ours, cron: "0 0 9 * * 2", exec: [x]}
`)
	r = command(t, "validate", "--config", path)
	if want := "worker: warning: " + path + ":5:26: jobs[0].cron: job weekly: this is read as Spring's, and is due next on Tuesday, "; r.err != nil ||
		!strings.HasPrefix(r.stderr, want) || !strings.Contains(r.stderr, "would run it on Monday, ") || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("got %+v, want %s", r, want)
	}

	path = configure(t, "  - {name: a, every: 1m, exec: [x], timout: 1m}\n  - {name: b, every: 1x, exec: [x]}\n")
	r = command(t, "validate", "--config", path)
	if exitCode(r.err) != 1 || !strings.Contains(r.err.Error(), ":5:37: jobs[0].timout: unknown key: did you mean timeout?") || !strings.Contains(r.err.Error(), ":6:22: jobs[1].every: ") {
		t.Errorf("got %+v", r)
	}
	if r = command(t, "validate", "extra"); exitCode(r.err) != 2 {
		t.Errorf("got %+v", r)
	}
	if r = command(t, "validate"); exitCode(r.err) != 2 || !strings.Contains(r.err.Error(), "no worker.yaml in this folder") {
		t.Errorf("got %+v", r)
	}
}

// A schedule that is never due is in the log at the start.
func TestNeverDueAtStart(t *testing.T) {
	t.Parallel()
	path := configure(t, neverJob)
	w := startWorker(t, "run", "--config", path)
	line := w.await("a warning", func(line map[string]any) bool {
		text, _ := line["msg"].(string)
		return strings.HasPrefix(text, "a schedule is never due")
	})
	if line["level"] != "warn" || line["job"] != "never" {
		t.Errorf("got %v", line)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	path := configure(t, idle+"  - {name: a-job, every: 1m, exec: [x]}\n")
	database := "sqlite:" + filepath.Join(filepath.Dir(path), "lease.db")
	for _, test := range []struct {
		want string
		args []string
	}{
		{"a-job\nidle\n:4\n", []string{"trigger", "--config", path, ""}},
		{"a-job\nidle\n:4\n", []string{"pause", "--config", path, ""}},
		{"a-job\nidle\n:4\n", []string{"resume", "--config", path, ""}},
		{"a-job\nidle\n:4\n", []string{"cancel", "--config", path, ""}},
		{"a-job\nidle\n:4\n", []string{"runs", "--config", path, "--job", ""}},
		{":4\n", []string{"trigger", "--config", path, "idle", ""}},
		{":4\n", []string{"trigger", "--config", path + ".none", ""}},
		{":4\n", []string{"trigger", "--database", database, "--group", "billing", ""}}, // which has no tables
	} {
		if r := command(t, append([]string{"__complete"}, test.args...)...); r.err != nil || r.stdout != test.want {
			t.Errorf("%q: got %+v, want %q", test.args, r, test.want)
		}
	}
	if r := command(t, "--help"); !strings.Contains(r.stdout, "completion") {
		t.Errorf("completion is not listed: %s", r.stdout)
	}
}

func TestLocal(t *testing.T) {
	t.Parallel()
	at := time.Date(2027, 7, 1, 1, 0, 0, 0, time.UTC)
	berlin := jobs.Cron("0 3 * * *").In("Europe/Berlin")
	snapshot := jobs.Snapshot{Jobs: map[string]jobs.Known{"berlin": {Schedule: berlin.String()}, "changed": {Schedule: "every 1m0s"}, "other": {Schedule: "?"}}}
	in := zonesOf(snapshot, map[string]jobs.Schedule{"new": berlin, "changed": berlin})
	for job, want := range map[string]string{"berlin": "2027-07-01T03:00:00+02:00", "new": "2027-07-01T03:00:00+02:00", "changed": "2027-07-01T01:00:00Z", "other": "2027-07-01T01:00:00Z"} {
		if got := in.in(job, at).Format(time.RFC3339); got != want {
			t.Errorf("%s: got %s, want %s", job, got, want)
		}
	}

	path := configure(t, "  - {name: tokyo, cron: \"0 3 1 1 *\", zone: Asia/Tokyo, exec: [\"true\"]}\n")
	if r := command(t, "migrate", "--config", path); r.err != nil {
		t.Fatal(r.err)
	}
	if r := command(t, "jobs", "--config", path, "--local"); r.err != nil || !strings.Contains(r.stdout, "-01-01T03:00:00+09:00") {
		t.Errorf("got %+v", r)
	}
	if r := command(t, "jobs", "--config", path); r.err != nil || !strings.Contains(r.stdout, "-12-31T18:00:00Z") {
		t.Errorf("got %+v", r)
	}
	for _, name := range []string{"jobs", "runs"} {
		if r := command(t, name, "--config", path, "--local", "--json"); exitCode(r.err) != 2 || !strings.Contains(r.err.Error(), "--local and --json exclude each other") {
			t.Errorf("%s: got %+v", name, r)
		}
	}
	if r := command(t, "runs", "--config", path, "--local"); r.err != nil || r.stdout != "no runs\n" {
		t.Errorf("got %+v", r)
	}
}

// Each file of a request that is not as it has to be is named by its setting, with its place.
func TestFilesOfRequests(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := configure(t, fmt.Sprintf(`  - name: a
    every: 1m
    http:
      url: {file: /none/url}
      headers:
        x-a: {file: /none/header}
      body: {file: /none/body}
      ca: /none/ca
      cert: /none/cert
      key: /none/key
  - {name: b, every: 1m, http: {url: "https://x/", ca: %[1]s, cert: %[1]s, key: %[1]s}}
`, file))
	r := command(t, "run", "--config", path)
	for _, want := range []string{
		":8:12: jobs[0].http.url: open /none/url: no such file",
		":10:9: jobs[0].http.headers: x-a: open /none/header: no such file",
		":11:13: jobs[0].http.body: open /none/body: no such file",
		":12:11: jobs[0].http.ca: open /none/ca: no such file",
		":13:13: jobs[0].http.cert: open /none/cert: no such file",
		":15:56: jobs[1].http.ca: " + file + ": expected certificates in PEM",
		": jobs[1].http.cert: " + file + " and " + file + ": expected a certificate and its key in PEM",
	} {
		if r.err == nil || !strings.Contains(r.err.Error(), want) {
			t.Errorf("got %v\nwant %s", r.err, want)
		}
	}
}
