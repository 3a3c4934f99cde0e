package main

import (
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// A group that has paused itself, because its ledger had gone back, is no group that a person has paused: status and
// doctor say so whichever replica leads, and by their exit codes.
func TestGroupThatPausedItself(t *testing.T) {
	t.Parallel()
	path, s, _ := led(t, time.Second)
	if err := s.Pause(jobs.WithActor(t.Context(), jobs.Actor{Name: "alice@host", Via: jobs.ViaCLI}), "billing", ""); err != nil {
		t.Fatal(err)
	}
	if got, text := wantStatus(t, 0, "--config", path); !got.Paused || got.PausedItself || got.PausedBy != "alice@host" || !strings.Contains(text, "the whole group, by alice@host") {
		t.Errorf("%+v, %s", got, text)
	}
	wantFinding(t, path, "warning", "paused", "the whole group is paused")
	// Also where a person had paused it before.
	if err := s.Pause(jobs.WithActor(t.Context(), jobs.Actor{Name: "worker/a/1/b", Via: jobs.ViaScheduler}), "billing", ""); err != nil {
		t.Fatal(err)
	}
	if got, text := wantStatus(t, 4, "--config", path); !got.PausedItself || got.PausedBy != "worker/a/1/b" || got.PausedAt == nil || !strings.Contains(text, "worker resume --skip-missed") {
		t.Errorf("%+v, %s", got, text)
	}
	wantFinding(t, path, "problem", "paused", "its ledger had gone back")
	if err := s.Resume(t.Context(), "billing", ""); err != nil {
		t.Fatal(err)
	}
	if got, _ := wantStatus(t, 0, "--config", path); got.Paused || got.PausedItself || got.PausedBy != "" {
		t.Errorf("%+v", got)
	}
}

func wantFinding(t *testing.T, path, grade, check, text string) {
	t.Helper()
	out := command(t, "doctor", "--config", path).stdout
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == grade && f[1] == check && strings.Contains(line, text) {
			return
		}
	}
	t.Errorf("no %s of %s with %q in\n%s", grade, check, text, out)
}
