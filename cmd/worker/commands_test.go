package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// process runs a command line in a process of its own.
func process(t *testing.T, args ...string) (code int, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // the exit code says it
	return cmd.ProcessState.ExitCode(), out.String()
}

// sqlWords are words that only an SQL database has something behind.
var sqlWords = regexp.MustCompile(`(?i)\b(sql|mysql|mariadb|sqlite|tables?|rows?|statements?|migrate|grants?)\b`)

// plain runs a command that has to succeed, and to say something of Redis or of nothing.
func plain(t *testing.T, want int, has string, args ...string) string {
	t.Helper()
	code, text := process(t, args...)
	if code != want || !strings.Contains(text, has) {
		t.Errorf("worker %v: code %d, want %d, with %q:\n%s", args, code, want, has, text)
	}
	if strings.Contains(text, os.Getenv("CANARY")) || sqlWords.MatchString(text) || strings.Contains(text, "panic") || strings.Contains(text, "redis: 2") {
		t.Errorf("worker %v says:\n%s", args, text)
	}
	return text
}

// everyKindOfJob are the jobs that [everyCommand] steers.
const everyKindOfJob = `  - {name: tick, every: 1s, exec: ["true"]}
  - {name: long, manual: true, exec: [sleep, "60"]}
  - {name: fails, manual: true, exec: [sh, -c, "echo printed; false"]}
  - {name: daily, cron: "0 0 * * *", exec: ["true"]}
listen: 127.0.0.1:0
`

// everyCommand runs each command of the CLI on a store without tables, beside two workers.
// The log calls the store database, and checks are what the doctor looks at.
func everyCommand(t *testing.T, path, database string, checks ...string) {
	t.Helper()
	in := func(args ...string) []string { return append(args, "--config", path) }
	plain(t, 0, ": good, jobs: 4", in("validate")...)
	plain(t, 3, "nobody", in("status")...)
	if code, text := process(t, in("migrate")...); code != 0 || !strings.Contains(text, "nothing to migrate") || strings.Contains(text, "keys") {
		t.Errorf("migrate: %d %s", code, text)
	}
	a := startWorker(t, in("run", "--label", "a")...)
	a.awaitMessage("leading")
	if started := a.awaitMessage("started"); started["database"] != database {
		t.Errorf("logged %v", started)
	}
	b := startWorker(t, in("run", "--label", "b", "--log-level", "debug")...)
	b.awaitMessage("following")
	a.awaitMessage("run succeeded")

	plain(t, 0, "leader     a/", in("status")...)
	plain(t, 0, "workers    2: 2 of", in("status")...)
	plain(t, 0, "tick", in("jobs")...)
	plain(t, 0, `"name":"tick"`, in("jobs", "--json")...)
	plain(t, 0, "succeeded", in("runs")...)
	plain(t, 0, "T00:00:00Z", in("next", "--job", "daily")...)
	plain(t, 0, "tick: succeeded", in("trigger", "tick", "--wait")...)
	plain(t, 1, "fails: failed", in("trigger", "fails", "--wait")...)
	plain(t, 0, "long: triggered", in("trigger", "long", "--args", "{}")...)
	a.await("the run of long", func(line map[string]any) bool { return line["msg"] == "run started" && line["job"] == "long" })
	plain(t, 0, "{}", in("runs", "--job", "long", "--args")...)
	plain(t, 0, "asked to stop", in("cancel", "long")...)
	a.await("its end", func(line map[string]any) bool { return line["msg"] == "run cancelled" && line["job"] == "long" })
	plain(t, 0, "tick: paused", in("pause", "tick")...)
	plain(t, 0, "paused jobs  1: tick", in("status")...)
	plain(t, 0, "tick: resumed", in("resume", "tick")...)
	plain(t, 0, "paused", in("pause")...)
	plain(t, 0, "resumed", in("resume")...)
	plain(t, 0, "daily", in("backfill", "daily", "--from", "3d")...)
	a.await("a run of the backfill", func(line map[string]any) bool { return line["msg"] == "run succeeded" && line["job"] == "daily" })
	plain(t, 0, "trigger", in("audit")...)
	plain(t, 0, "leader a/", in("top", "--count", "1")...)
	plain(t, 1, "replicas have it", in("forget", "tick")...)
	plain(t, 0, "stepped down", in("resign")...)
	b.awaitMessage("leading")
	doctor := plain(t, 0, "ok", in("doctor")...)
	for _, check := range checks {
		if !strings.Contains(doctor, " "+check+" ") {
			t.Errorf("doctor does not look at %s:\n%s", check, doctor)
		}
	}
	if code := a.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if code := b.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	plain(t, 3, "released", in("status")...)
	for _, w := range []*worker{a, b} {
		w.mu.Lock()
		if text := w.text.String(); strings.Contains(text, os.Getenv("CANARY")) || sqlWords.MatchString(text) {
			t.Errorf("logged %s", text)
		}
		w.mu.Unlock()
	}
}
