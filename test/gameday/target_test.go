package gameday

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// target is what the jobs of a group call.
type target struct {
	url   string
	fails atomic.Bool // whether the path /flaky answers with 500
	hangs atomic.Bool // whether it does not answer

	mu    sync.Mutex
	calls []call
}

// call is a request of a job.
type call struct {
	at         time.Time
	path, tick string
}

func newTarget(t *testing.T) *target {
	g := &target{}
	closing := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.calls = append(g.calls, call{time.Now(), r.URL.Path, r.Header.Get("Cronlease-Tick")})
		g.mu.Unlock()
		if r.URL.Path != "/flaky" {
			return
		}
		if g.hangs.Load() {
			select {
			case <-r.Context().Done():
			case <-closing:
			}
		}
		if g.fails.Load() {
			http.Error(w, "no luck", http.StatusInternalServerError)
		}
	}))
	t.Cleanup(func() {
		close(closing)
		server.Close()
	})
	g.url = server.URL
	return g
}

// called returns the calls of a path.
func (g *target) called(path string) []call {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(g.calls), func(c call) bool { return c.path != path })
}

// after returns the first call of the job "tick" from that instant on; zero: there is none.
func (g *target) after(at time.Time) time.Time {
	for _, c := range g.called("/tick") {
		if !c.at.Before(at) {
			return c.at
		}
	}
	return time.Time{}
}

// gap is the longest time between two calls of the job "tick".
func (g *target) gap(from, to time.Time) time.Duration {
	last, longest := from, time.Duration(0)
	for _, c := range append(g.called("/tick"), call{at: to}) {
		if c.at.After(from) && !c.at.After(to) {
			longest = max(longest, c.at.Sub(last))
			last = c.at
		}
	}
	return longest
}
