package workertest

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Target is the server that the jobs call: it records which worker called it, for
// which tick, under which token.
type Target struct {
	t   testing.TB
	url string

	mu   sync.Mutex
	busy map[string]int // requests under way, by path
	most map[string]int // and the most that there were
	got  []Arrival
	more chan struct{} // closed and replaced with each arrival
}

// Arrival is a call.
type Arrival struct {
	Path  string
	Tick  string
	Owner string
	Token uint64
	At    time.Time
}

func newTarget(t testing.TB) *Target {
	r := &Target{t: t, busy: map[string]int{}, most: map[string]int{}, more: make(chan struct{})}
	closing := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		token, err := strconv.ParseUint(request.Header.Get("Cronlease-Token"), 10, 64)
		if err != nil {
			t.Errorf("token: %v", err)
		}
		r.record(Arrival{request.URL.Path, request.Header.Get("Cronlease-Tick"), request.Header.Get("Cronlease-Owner"), token, time.Now()})
		switch request.URL.Path {
		case "/slow/forbid", "/slow/queue", "/slow/allow":
			defer r.enter(request.URL.Path)()
			select {
			case <-time.After(slow):
			case <-closing:
			}
		case "/hold":
			select {
			case <-request.Context().Done(): // the caller's context ended, or the caller did
			case <-closing:
			}
		}
	}))
	t.Cleanup(func() {
		close(closing)
		server.Close()
	})
	r.url = server.URL
	return r
}

// slow is how long a request to a path below /slow takes.
const slow = 300 * time.Millisecond

// enter counts a request, until what it returns is called.
func (r *Target) enter(path string) func() {
	add := func(n int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.busy[path] += n
		r.most[path] = max(r.most[path], r.busy[path])
	}
	add(1)
	return func() { add(-1) }
}

// Most returns how many calls of the path were under way at the same time, at the most.
func (r *Target) Most(path string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most[path]
}

func (r *Target) record(a Arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, a)
	close(r.more)
	r.more = make(chan struct{})
}

// Arrivals returns all calls until now.
func (r *Target) Arrivals() []Arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// WaitForTick waits for a run of the job "tick" under the token.
func (r *Target) WaitForTick(token uint64) { r.t.Helper(); r.wait("/tick", token) }

// WaitForHold waits for a run of the job "hold" under the token.
func (r *Target) WaitForHold(token uint64) { r.t.Helper(); r.wait("/hold", token) }

// wait returns once a run has called the path under the token.
func (r *Target) wait(path string, token uint64) {
	r.t.Helper()
	r.WaitFor(path+" under token "+strconv.FormatUint(token, 10), func(a Arrival) bool { return a.Path == path && a.Token == token })
}

// WaitFor returns once there was a call that matches.
func (r *Target) WaitFor(what string, match func(Arrival) bool) {
	r.t.Helper()
	deadline := time.After(Patience)
	for {
		r.mu.Lock()
		more := r.more
		found := slices.ContainsFunc(r.got, match)
		r.mu.Unlock()
		if found {
			return
		}
		select {
		case <-more:
		case <-deadline:
			r.t.Fatalf("not within %v: %s", Patience, what)
		}
	}
}
