package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/scheduler"
)

// Healthz answers whether the process is stuck, so that a restart would help: 200, or 503 if
// it is. A database that is away, or a group without a leader, is not such a reason. It is for
// liveness probes. A scheduler that has not been run yet is not stuck.
//
// The answer is a line of text or, for Accept: application/json or ?format=json, an object.
// Neither has the text of an error, which may tell of hosts and users, so that the
// endpoint can be open: the log and the page have that.
func Healthz(s *scheduler.Scheduler) http.Handler {
	return healthOf(s.Health, func(h scheduler.Health) bool { return !h.Started || h.Stuck == nil }, "ok", "stuck")
}

// Readyz answers whether the group does its work, as far as this replica can tell: 200 if it can use the database, and
// some replica leads and claims the ticks that are due, which a follower reads in the ledger within a minute; otherwise
// 503, also while the group is paused because its ledger has gone back, and for the moment between two leaders. It is
// for readiness probes and monitoring, and not for liveness probes: a restart does not bring a database back. Its
// answers are as those of [Healthz].
func Readyz(s *scheduler.Scheduler) http.Handler {
	return healthOf(s.Health, func(h scheduler.Health) bool { return h.Started && h.Err() == nil && seesLeader(h) }, "ready", "not ready")
}

// seesLeader reports whether this replica knows of one that leads. [election.Health] finds no
// fault with a replica that has not seen any for a TTL, as after its start; ready is
// another matter.
func seesLeader(h scheduler.Health) bool {
	return h.Leader == nil && (h.State.Owner != "" || h.HeartbeatAge > 0)
}

// health is an answer of Healthz and Readyz. Its form is relied on.
type health struct {
	// Status is the answer in one word or two.
	Status string `json:"status"`
	// Started: the scheduler runs, or has run.
	Started bool `json:"started"`
	// Stuck: a restart would help. Database: it can be used. Leader: some replica leads, and
	// claims the ticks that are due if it is this one.
	Stuck    bool `json:"stuck"`
	Database bool `json:"database"`
	Leader   bool `json:"leader"`

	Role                election.Role `json:"role"`
	HeartbeatAgeSeconds float64       `json:"heartbeat_age_seconds"`
	LateSeconds         float64       `json:"late_seconds"`
	SkewSeconds         float64       `json:"skew_seconds"`

	restored, unclaimed, apart bool
}

func healthOf(read func() scheduler.Health, good func(scheduler.Health) bool, is, isNot string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "expected GET", http.StatusMethodNotAllowed)
			return
		}
		h := read()
		a := health{
			Status: is, Started: h.Started, Stuck: h.Started && h.Stuck != nil, Database: h.Database == nil, Leader: seesLeader(h), Role: h.State.Role,
			HeartbeatAgeSeconds: h.HeartbeatAge.Seconds(), LateSeconds: h.Late.Seconds(), SkewSeconds: h.Skew.Ahead.Seconds(),
			restored: errors.Is(h.Leader, scheduler.ErrRestored), unclaimed: errors.Is(h.Leader, scheduler.ErrNotFiring),
			apart: h.Started && !h.Running && h.Stuck == nil && h.Leader != nil,
		}
		status := http.StatusOK
		if !good(h) {
			a.Status, status = isNot, http.StatusServiceUnavailable
		}
		head := w.Header()
		head.Set("Cache-Control", "no-store")
		head.Set("X-Content-Type-Options", "nosniff")
		if wantsJSON(r) {
			writeJSON(w, status, a)
			return
		}
		head.Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, a.text())
	})
}

// text is the answer for people.
func (a health) text() string {
	lines := []string{a.Status}
	add := func(is bool, line string) {
		if is {
			lines = append(lines, line)
		}
	}
	add(!a.Started, "starting: the scheduler does not run yet")
	add(a.Stuck, "stuck: this process makes no progress, restart it")
	add(a.Started && !a.Database, "database: this replica cannot use it, or must not")
	add(a.apart, "apart: this replica's campaign has not begun, or was stopped")
	leader := a.Started && !a.Leader && !a.restored && !a.apart
	add(a.Started && a.restored, "leader: the ledger has gone back, and the group is paused until worker resume")
	add(leader && a.Role == election.Leading, "leader: this replica leads, but does not claim the ticks that are due")
	add(leader && a.Role != election.Leading && a.unclaimed, "leader: the leader does not claim the ticks that are due")
	add(leader && a.Role != election.Leading && !a.unclaimed, "leader: nobody leads the group")
	return strings.Join(lines, "\n") + "\n"
}

// wantsJSON reports whether the client asked for JSON, or sent it.
func wantsJSON(r *http.Request) bool {
	return r.URL.Query().Get("format") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json") || kindOf(r) == "application/json"
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client has gone
}
