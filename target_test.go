package cronlease_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// target is the server that the jobs call: it records which worker called it, for
// which tick, under which token.
type target struct {
	t   testing.TB
	url string

	mu   sync.Mutex
	busy map[string]int // requests under way, by path
	most map[string]int // and the most that there were
	got  []arrival
	more chan struct{} // closed and replaced with each arrival
}

type arrival struct {
	path  string
	tick  string
	owner string
	token uint64
	at    time.Time
}

func newTarget(t testing.TB) *target {
	r := &target{t: t, busy: map[string]int{}, most: map[string]int{}, more: make(chan struct{})}
	closing := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		token, err := strconv.ParseUint(request.Header.Get("Cronlease-Token"), 10, 64)
		if err != nil {
			t.Errorf("token: %v", err)
		}
		r.record(arrival{request.URL.Path, request.Header.Get("Cronlease-Tick"), request.Header.Get("Cronlease-Owner"), token, time.Now()})
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
func (r *target) enter(path string) func() {
	add := func(n int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.busy[path] += n
		r.most[path] = max(r.most[path], r.busy[path])
	}
	add(1)
	return func() { add(-1) }
}

func (r *target) record(a arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, a)
	close(r.more)
	r.more = make(chan struct{})
}

func (r *target) arrivals() []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

func (r *target) waitForTick(token uint64) { r.t.Helper(); r.wait("/tick", token) }

func (r *target) waitForHold(token uint64) { r.t.Helper(); r.wait("/hold", token) }

// wait returns once a run has called the path under the token.
func (r *target) wait(path string, token uint64) {
	r.t.Helper()
	r.waitFor(path+" under token "+strconv.FormatUint(token, 10), func(a arrival) bool { return a.path == path && a.token == token })
}

// waitFor returns once there was a call that matches.
func (r *target) waitFor(what string, match func(arrival) bool) {
	r.t.Helper()
	deadline := time.After(patience)
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
			r.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
