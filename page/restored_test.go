package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/scheduler"
)

// A leader that has paused the group after a restore has no ticks that are due: it says what it waits for.
func TestRestoredIsNamed(t *testing.T) {
	t.Parallel()
	h := scheduler.Health{Started: true}
	h.Running = true
	h.State.Role, h.State.Owner = election.Leading, "a"
	h.Leader = fmt.Errorf("%w: lacks a tick", scheduler.ErrRestored)
	w := httptest.NewRecorder()
	healthOf(func() scheduler.Health { return h }, func(scheduler.Health) bool { return false }, "ready", "not ready").
		ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if got := w.Body.String(); !strings.Contains(got, "worker resume") || strings.Contains(got, "does not claim") {
		t.Errorf("%s", got)
	}
}

// A follower that has read in the ledger that the leader claims nothing does not say that nobody leads.
func TestUnclaimedIsNamed(t *testing.T) {
	t.Parallel()
	h := scheduler.Health{Started: true}
	h.Running = true
	h.State.Owner = "a"
	h.Leader = fmt.Errorf("%w: one of job", scheduler.ErrNotFiring)
	w := httptest.NewRecorder()
	healthOf(func() scheduler.Health { return h }, func(scheduler.Health) bool { return false }, "ready", "not ready").
		ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if got := w.Body.String(); !strings.Contains(got, "does not claim") || strings.Contains(got, "nobody") {
		t.Errorf("%s", got)
	}
}
