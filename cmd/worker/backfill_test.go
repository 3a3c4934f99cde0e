package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestBackfill(t *testing.T) {
	t.Parallel()
	path := configure(t, `
  - {name: job, every: 1h, exec: [sh, -c, 'test "$CRONLEASE_ARGS" = 7']}
  - {name: next, after: job, exec: ["true"]}
  - {name: tick, every: 1s, exec: ["true"]}
`)
	w := startWorker(t, "run", "--config", path)
	w.await("a tick", about("tick", "run succeeded"))
	backfill := func(args ...string) result {
		return command(t, append([]string{"backfill", "job", "--config", path}, args...)...)
	}
	last := time.Now().UTC().Truncate(time.Hour)
	from := last.Add(-4 * time.Hour).Format(time.RFC3339)
	to := last.Format(time.RFC3339)

	r := backfill("--from", from, "--to", to, "--dry-run")
	if lines := strings.Split(strings.TrimSpace(r.stdout), "\n"); r.err != nil || len(lines) != 5 || lines[0] != from || lines[4] != "job: 4 ticks" {
		t.Errorf("got %+v", r)
	}
	if runs := decode[[]runRecord](t, command(t, "runs", "--json", "--job", "next", "--config", path)); len(runs) > 0 {
		t.Errorf("after --dry-run: %+v", runs)
	}
	done := decode[backfilled](t, backfill("--from", from, "--to", to, "--args", "7", "--json"))
	if done.Count != 4 || done.ID == 0 || shown(done.First) != from {
		t.Errorf("got %+v", done)
	}
	if r := backfill("--from", from, "--to", to, "--args", "7", "--id", fmt.Sprint(done.ID)); r.err != nil || !strings.Contains(r.stdout, "job: 4 ticks are run, from "+from) {
		t.Errorf("got %+v", r)
	}
	if r := backfill("--from", "4h", "--id", fmt.Sprint(done.ID)); r.err == nil || !strings.Contains(r.err.Error(), "--from must be the instant") {
		t.Errorf("got %+v", r)
	}
	late := time.Now().Add(limit)
	for len(decode[[]runRecord](t, command(t, "runs", "--json", "--job", "next", "--status", "succeeded", "--config", path))) < 4 && time.Now().Before(late) {
		<-time.After(200 * time.Millisecond)
	}
	for _, job := range []string{"job", "next"} {
		var got []string
		for _, r := range decode[[]runRecord](t, command(t, "runs", "--json", "--job", job, "--config", path)) {
			if r.Kind != "schedule" {
				got = append(got, r.Kind+" "+r.State)
			}
		}
		want := strings.TrimSpace(strings.Repeat(map[string]string{"job": "backfill", "next": "after"}[job]+" succeeded,", 4))
		if strings.Join(got, ",")+"," != want {
			t.Errorf("%s: got %q, want %q", job, got, want)
		}
	}

	slow := decode[backfilled](t, backfill("--from", "30d", "--every", "1h", "--args", "7", "--json"))
	if slow.Count < 600 {
		t.Errorf("got %+v", slow)
	}
	if r := command(t, "cancel", "job", "--backfill", "--config", path); r.err != nil || r.stdout != "job: backfills that end: 1\n" {
		t.Errorf("got %+v", r)
	}
	for want, args := range map[string][]string{
		"--from \"\": expected an instant":     {},
		"more than 10000 ticks":                {"--from", "1000d"},
		"--every \"0s\": expected a duration":  {"--from", "1d", "--every", "0s"},
		"the end must be later than the begin": {"--from", "1d", "--to", "2d"},
		"not the ID of a backfill":             {"--from", from, "--id", "7"},
		"--args: jobs: arguments: not JSON":    {"--from", "1d", "--args", "{"},
	} {
		if r := backfill(args...); r.err == nil || !strings.Contains(r.err.Error(), want) {
			t.Errorf("%q: got %v, want %s", args, r.err, want)
		}
	}
	if r := command(t, "backfill", "next", "--from", "1d", "--config", path); r.err == nil || !strings.Contains(r.err.Error(), "it is due after job") {
		t.Errorf("got %v", r.err)
	}
}
