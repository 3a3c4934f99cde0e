package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/page"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/memstore"
)

// probe asks Healthz and Readyz.
func probe(s *scheduler.Scheduler) (healthz, readyz *httptest.ResponseRecorder) {
	healthz, readyz = httptest.NewRecorder(), httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	page.Healthz(s).ServeHTTP(healthz, r)
	page.Readyz(s).ServeHTTP(readyz, r)
	return healthz, readyz
}

// A scheduler that has not been run is not stuck, and not ready; one that leads is both; and
// one that was stopped is neither.
func TestProbesOverALife(t *testing.T) {
	t.Parallel()
	db := memstore.New()
	s, err := scheduler.New(db, "billing")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Add(jobs.Job{Name: "report", Schedule: jobs.Every(time.Hour), Do: func(context.Context, jobs.Run) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	healthz, readyz := probe(s)
	if healthz.Code != 200 || readyz.Code != 503 || !strings.Contains(readyz.Body.String(), "starting") {
		t.Errorf("before Run: %d, %d: %s", healthz.Code, readyz.Code, readyz.Body)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	b := &bench{T: t}
	b.wait("ready", func() bool {
		_, readyz = probe(s)
		return readyz.Code == 200
	})
	healthz, _ = probe(s)
	if healthz.Code != 200 || healthz.Body.String() != "ok\n" || readyz.Body.String() != "ready\n" {
		t.Errorf("while it leads: %d %s, %s", healthz.Code, healthz.Body, readyz.Body)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	healthz, readyz = probe(s)
	if healthz.Code != 200 || readyz.Code != 503 || readyz.Body.String() != "not ready\napart: this replica's campaign has not begun, or was stopped\n" {
		t.Errorf("after Run: %d, %d: %s", healthz.Code, readyz.Code, readyz.Body)
	}
}

// A replica that has not reached the database since its start is not ready, however short that
// is ago: nothing tells that it ever will be.
func TestNotReadyBeforeTheFirstLook(t *testing.T) {
	t.Parallel()
	line, to := &faulty.Line{}, memstore.New()
	line.Cut()
	type ledger struct{ store.Jobs } // whose methods come behind those of Leases
	s, err := scheduler.New(struct {
		faulty.Leases
		ledger
	}{faulty.Leases{To: to, Send: line.Send}, ledger{to}}, "billing")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		cancel()
		<-ended
	}()
	b := &bench{T: t}
	b.wait("the campaign runs", func() bool { return s.Health().Started && s.Health().Stuck == nil })
	healthz, readyz := probe(s)
	if healthz.Code != 200 || readyz.Code != 503 || !strings.Contains(readyz.Body.String(), "leader: nobody leads") {
		t.Errorf("%d, %d: %s", healthz.Code, readyz.Code, readyz.Body)
	}
	line.Always(nil)
	b.wait("ready", func() bool {
		_, readyz := probe(s)
		return readyz.Code == 200
	})
}

// While the database is away, a restart would not help: /healthz is fine and /readyz is not. No
// answer has the text of an error.
func TestProbesInAnOutage(t *testing.T) {
	t.Parallel()
	const secret = "10.9.8.7:3306: access denied for user canary"
	line, to := &faulty.Line{}, memstore.New()
	type ledger struct{ store.Jobs } // whose methods come behind those of Leases
	db := struct {
		faulty.Leases
		ledger
	}{faulty.Leases{To: to, Send: line.Send}, ledger{to}}
	s, err := scheduler.New(db, "billing", scheduler.WithTiming(lease.Timing{TTL: time.Second}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		cancel()
		<-ended
	}()
	b := &bench{T: t}
	b.wait("ready", func() bool {
		_, readyz := probe(s)
		return readyz.Code == 200
	})
	line.Always(func(string) faulty.Fault { return faulty.Fault{Err: errors.New(secret)} })
	b.wait("not ready", func() bool {
		healthz, readyz := probe(s)
		if healthz.Code != 200 {
			t.Fatalf("stuck in an outage: %s", healthz.Body)
		}
		return readyz.Code == 503 && strings.Contains(readyz.Body.String(), "database: ")
	})
	w := httptest.NewRecorder()
	page.Readyz(s).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz?format=json", nil))
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer["status"] != "not ready" || answer["database"] != false || answer["stuck"] != false {
		t.Errorf("%s: %v", w.Body, err)
	}
	_, readyz := probe(s)
	if text := w.Body.String() + readyz.Body.String(); strings.Contains(text, "canary") || strings.Contains(text, "10.9.8.7") {
		t.Errorf("tells of the database: %s", text)
	}
	line.Always(nil)
	b.wait("ready again", func() bool {
		_, readyz := probe(s)
		return readyz.Code == 200
	})
}

func TestProbesTakeGetAlone(t *testing.T) {
	t.Parallel()
	b := benchAtRest(t)
	b.is(b.send(http.MethodPost, "/healthz", nil), http.StatusMethodNotAllowed)
	w := httptest.NewRecorder()
	page.Healthz(b.scheduler).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("%d, %v", w.Code, w.Header())
	}
}
