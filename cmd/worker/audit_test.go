package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// Each command that changes something is in the audit, under the user of this machine.
func TestAudit(t *testing.T) {
	t.Parallel()
	path := configure(t, `
  - {name: quick, manual: true, exec: [sh, -c, 'echo printed; echo more >&2']}
  - {name: tick, every: 1s, exec: ["true"]}
`)
	w := startWorker(t, "run", "--config", path)
	w.await("a tick", about("tick", "run succeeded"))
	triggered := decode[runRecord](t, command(t, "trigger", "quick", "--wait", "--json", "--config", path))
	for _, args := range [][]string{{"pause", "quick"}, {"pause", "quick"}, {"resume"}, {"cancel", "quick"}, {"resign"}} {
		command(t, append(args, "--config", path)...)
	}
	entries := decode[[]audited](t, command(t, "audit", "--json", "--config", path))
	want := []string{"resign done ", "resume unchanged ", "pause unchanged quick", "pause done quick", "trigger done quick"}
	if len(entries) != len(want) {
		t.Fatalf("%d entries, want %d: %+v", len(entries), len(want), entries)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range entries {
		if got := e.Action + " " + e.Result + " " + e.Job; got != want[i] || e.Via != "cli" || !strings.HasSuffix(e.Actor, "@"+host) || len(e.Actor) <= len(host)+1 {
			t.Errorf("entry %d: %+v, want %s", i, e, want[i])
		}
	}
	if e := entries[4]; e.Tick == nil || !e.Tick.Equal(triggered.Tick.Time) || e.Trigger != triggered.Trigger {
		t.Errorf("a trigger: %+v, want its run %+v", e, triggered)
	}
	if r := command(t, "audit", "--limit", "2", "--config", path); r.err != nil || strings.Count(r.stdout, "\n") != 3 || !strings.Contains(r.stdout, "resign") {
		t.Errorf("got %+v", r)
	}
	if r := command(t, "audit", "--job", "other", "--config", path); r.err != nil || r.stdout != "nothing was asked of the group\n" {
		t.Errorf("got %+v", r)
	}
	if r := command(t, "audit", "--since", "0s", "--config", path); r.err != nil || r.stdout != "nothing was asked of the group\n" {
		t.Errorf("got %+v", r)
	}
	r := command(t, "runs", "--job", "quick", "--output", "--config", path)
	if r.err != nil || !strings.Contains(r.stdout, "  printed\n") || !strings.Contains(r.stdout, "  more\n") {
		t.Errorf("got %+v", r)
	}
	if r := decode[[]runRecord](t, command(t, "runs", "--job", "quick", "--output", "--json", "--config", path)); len(r) != 1 || !strings.Contains(r[0].Output, "printed\n") {
		t.Errorf("got %+v", r)
	}
}

// Whatever is in the table, it is printed so that no terminal takes it for a command.
func TestAuditOfHostileNames(t *testing.T) {
	t.Parallel()
	path := configure(t, "  - {name: quick, manual: true, exec: [\"true\"]}\n")
	db, err := sqlitestore.Open(strings.TrimSuffix(path, "worker.yaml") + "lease.db")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx := jobs.WithActor(t.Context(), jobs.Actor{Name: "\x1b]0;x\x07\u202eeve\nroot", Via: "\x1b[2J"})
	group := jobs.NewGroup(db, "billing")
	if err := group.Pause(ctx, "\x1b[31mjob\n"); err == nil {
		t.Fatal("a job of that name was paused")
	}
	if _, err := db.Trigger(ctx, "billing", "x", jobs.Request{Note: "\x1b[31mnote\n", Tick: time.Unix(0, 0)}); err == nil {
		t.Fatal("a job was triggered that there is not")
	}
	r := command(t, "audit", "--config", path)
	if r.err != nil || strings.ContainsAny(r.stdout, "\x1b\x07\u202e") || strings.Count(r.stdout, "\n") != 3 || !strings.Contains(r.stdout, "eve") {
		t.Errorf("got %+v", r)
	}
	if entries := decode[[]audited](t, command(t, "audit", "--json", "--config", path)); len(entries) != 2 || entries[1].Job != "\x1b[31mjob\n" || entries[1].Result != "refused" {
		t.Errorf("got %+v", entries)
	}
}
