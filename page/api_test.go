package page_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/jobs"
)

// read decodes an answer of JSON.
func read[T any](b *bench, path string) T {
	b.Helper()
	var value T
	a := b.is(b.get(path), http.StatusOK)
	if got := a.Header.Get("Content-Type"); got != "application/json" {
		b.Errorf("%s: Content-Type %q", path, got)
	}
	if err := json.Unmarshal([]byte(a.body), &value); err != nil {
		b.Fatalf("%s: %v: %s", path, err, a.body)
	}
	return value
}

func TestJSON(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key, err := b.scheduler.Jobs().Trigger(t.Context(), "report")
	if err != nil {
		t.Fatal(err)
	}
	b.wait("the run", func() bool {
		runs, err := b.scheduler.Jobs().Runs(t.Context(), jobs.Filter{State: jobs.Succeeded})
		return err == nil && len(runs) == 1
	})
	status := read[map[string]any](b, "/api/status")
	if status["group"] != "billing" || status["state"] != "held" || status["owner"] != b.scheduler.Owner() || status["jobs"] != 1.0 || status["errors"] != nil {
		t.Errorf("status: %v", status)
	}
	list := read[[]map[string]any](b, "/api/jobs")
	if len(list) != 1 || list[0]["name"] != "report" || list[0]["schedule"] != "every 1h0m0s" || list[0]["paused"] != false || list[0]["cursor"] != nil {
		t.Errorf("jobs: %v", list)
	}
	if rest := read[[]map[string]any](b, "/api/jobs?after=report"); len(rest) != 0 {
		t.Errorf("jobs behind the last: %v", rest)
	}
	runs := read[[]map[string]any](b, "/api/runs?job=report&state=succeeded&limit=5")
	if len(runs) != 1 || runs[0]["kind"] != "trigger" || runs[0]["trigger"] != float64(key.Trigger) || runs[0]["attempt"] != 1.0 || runs[0]["started"] == nil {
		t.Errorf("runs: %v", runs)
	}
	if none := read[[]map[string]any](b, "/api/runs?state=failed"); len(none) != 0 {
		t.Errorf("failed runs: %v", none)
	}
	for _, path := range []string{"/api/runs?state=odd", "/api/runs?limit=0", "/api/runs?limit=100000", "/api/runs?since=yesterday", "/api/jobs?limit=x"} {
		b.is(b.get(path), http.StatusBadRequest)
	}
	for path, status := range map[string]int{"/api/": 404, "/api/run/1": 404, "/api/job": 404} {
		a := b.is(b.get(path), status)
		if !strings.Contains(a.body, `"paths":["/api/status","/api/jobs","/api/runs","/api/run"]`) || a.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	if a := b.is(b.send(http.MethodDelete, "/api/run", nil), http.StatusMethodNotAllowed); !strings.Contains(a.body, `"error":"the path takes other methods: expected GET, HEAD"`) {
		t.Errorf("%s", a.body)
	}
	b.is(b.get("/api/run"), http.StatusBadRequest)
	b.is(b.get("/api/run?job=report&tick=2020-01-01T00:00:00Z"), http.StatusNotFound)
}

func TestMethods(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for request, allow := range map[string]string{
		"DELETE /": "GET, HEAD", "POST /": "GET, HEAD", "PUT /runs": "GET, HEAD", "POST /static/page.css": "GET, HEAD", "POST /api/runs": "GET, HEAD",
		"DELETE /api/run?job=report": "GET, HEAD", "POST /healthz": "GET, HEAD", "GET /do": "POST", "DELETE /do": "POST",
	} {
		method, path, _ := strings.Cut(request, " ")
		if a := b.is(b.send(method, path, nil), http.StatusMethodNotAllowed); a.Header.Get("Allow") != allow {
			t.Errorf("%s: Allow %q, want %q", request, a.Header.Get("Allow"), allow)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if a := b.is(b.send(method, "/nothing", nil), http.StatusNotFound); a.Header.Get("Allow") != "" {
			t.Errorf("%s of no page: Allow %q", method, a.Header.Get("Allow"))
		}
	}
}
