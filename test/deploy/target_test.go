package deploy

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// target is the server that the jobs call.
type target struct {
	url string

	mu    sync.Mutex
	calls map[string]map[string]int // how often each job was called for each tick, with its trigger
	args  map[string]int            // how often a triggered run brought these arguments
	cut   []string                  // long runs whose caller was gone before they were over
	done  int                       // long runs that came to their end
	late  int                       // ticks that a job without limits was called for more than a second late
	// latest is by how much at most.
	latest time.Duration
}

// longest is how long a run of the job "long" takes at most.
const longest = 4 * time.Second

func newTarget(t *testing.T) *target {
	r := &target{calls: map[string]map[string]int{}, args: map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		job, tick := request.Header.Get("Cronlease-Job"), request.Header.Get("Cronlease-Tick")
		if trigger := request.Header.Get("Cronlease-Trigger"); trigger != "0" {
			tick += "#" + trigger
		}
		r.mu.Lock()
		if r.calls[job] == nil {
			r.calls[job] = map[string]int{}
		}
		r.calls[job][tick]++
		if at, err := time.Parse(time.RFC3339Nano, tick); err == nil && strings.HasPrefix(job, "load-") {
			late := time.Since(at)
			if r.latest = max(r.latest, late); late > time.Second {
				r.late++
			}
		}
		if job == "manual" {
			r.args[string(body)]++
		}
		r.mu.Unlock()
		if job != "long" {
			return
		}
		timer := time.NewTimer(longest/3 + rand.N(longest*2/3))
		defer timer.Stop()
		select {
		case <-timer.C:
			r.mu.Lock()
			r.done++
			r.mu.Unlock()
		case <-request.Context().Done():
			r.mu.Lock()
			r.cut = append(r.cut, tick)
			r.mu.Unlock()
		}
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// ticks are the scheduled ticks for which a job was called, and how often.
func (r *target) ticks(t *testing.T, job string) map[time.Time]int {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	found := map[time.Time]int{}
	for text, n := range r.calls[job] {
		if strings.Contains(text, "#") {
			continue
		}
		tick, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatalf("tick of %s: %v", job, err)
		}
		found[tick] = n
	}
	return found
}

// count is for how many ticks a job was called.
func (r *target) count(job string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls[job])
}
