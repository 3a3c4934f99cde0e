package metrics_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/metrics"
	"github.com/cronlease/cronlease/scheduler"
)

// way is a replica's way to the database.
type way struct {
	faulty.Line
	faulty.Leases
	faulty.Ledger
	rest
}

type rest struct{ *memdb.Store }

// Counts is the store's, and not the line's, which has another method of that name: so the way is a [jobs.Archive].
func (w *way) Counts(ctx context.Context, group string, filter jobs.CountFilter) (jobs.Counts, error) {
	return w.rest.Counts(ctx, group, filter)
}

var _ jobs.Archive = (*way)(nil)

func newWay(to *memdb.Store) *way {
	w := &way{rest: rest{to}}
	w.Leases = faulty.Leases{To: to, Send: w.Line.Send}
	w.Ledger = faulty.Ledger{To: to, Send: w.Line.Send}
	return w
}

// replica is one whose metrics Prometheus scrapes.
type replica struct {
	*scheduler.Scheduler
	way     *way
	metrics *metrics.Metrics
	address string

	mu     sync.Mutex
	server *httptest.Server
	cancel context.CancelFunc
	done   chan error
}

var quick = lease.Timing{TTL: time.Second, Grace: 100 * time.Millisecond}

// newReplica starts a replica of the group "billing", and serves its metrics.
func newReplica(t *testing.T, db *memdb.Store, declared []jobs.Job, options ...scheduler.Option) *replica {
	t.Helper()
	r := &replica{way: newWay(db), metrics: metrics.New(metrics.WithVersion("test")), done: make(chan error, 1)}
	options = append([]scheduler.Option{scheduler.WithTiming(quick), scheduler.WithEvents(r.metrics.Observe)}, options...)
	s, err := scheduler.New(r.way, "billing", options...)
	if err == nil {
		err = s.Add(declared...)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.Scheduler = s
	r.metrics.Watch("billing", s.Health)
	r.serve(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r.cancel = cancel
	go func() { r.done <- s.Run(ctx) }()
	t.Cleanup(func() {
		r.way.Heal()
		cancel()
		if err := <-r.done; err != nil && !errors.Is(err, election.ErrStillLeading) {
			t.Error(err)
		}
		r.hide()
	})
	return r
}

// serve serves the metrics, where they were served before if they were.
func (r *replica) serve(t *testing.T) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r.metrics)
	address := r.address
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server = &httptest.Server{Listener: l, Config: &http.Server{Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}}
	r.server.Start()
	r.address = l.Addr().String()
}

// hide serves them no more.
func (r *replica) hide() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server != nil {
		r.server.CloseClientConnections()
		r.server.Close()
		r.server = nil
	}
}

// leader waits until one of the replicas leads, and returns it and the others.
func leader(t *testing.T, all ...*replica) (leads *replica, follow []*replica) {
	t.Helper()
	until(t, "a replica leads", func() bool {
		at := slices.IndexFunc(all, func(r *replica) bool { return r.State().Role == election.Leading })
		if at >= 0 {
			leads, follow = all[at], slices.Delete(slices.Clone(all), at, at+1)
		}
		return at >= 0
	})
	if leads == nil {
		return all[0], all[1:] // the test has failed
	}
	return leads, follow
}

// until waits until something is so.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); !is(); wait(t, 100*time.Millisecond) {
		if time.Now().After(deadline) || t.Context().Err() != nil {
			t.Errorf("not within four minutes: %s", what)
			return
		}
	}
}

func wait(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// However often Prometheus asks, the database is not.
func TestScrapesSendNothing(t *testing.T) {
	t.Parallel()
	r := newReplica(t, memdb.New(), []jobs.Job{{Name: "idle", Schedule: jobs.Manual(), Do: nothing}}, scheduler.WithTiming(lease.Timing{TTL: time.Minute}))
	leader(t, r)
	before := r.way.All()
	for range 500 {
		response, err := http.Get("http://" + r.address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Error(err)
		}
		response.Body.Close()
	}
	if n := r.way.All() - before; n > 20 { // a leader sends a few by itself
		t.Errorf("%d statements for 500 scrapes", n)
	}
}
