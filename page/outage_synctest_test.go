package page

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/memstore"
)

// leaving is a source whose database may be away.
type leaving struct {
	Source
	away atomic.Pointer[func(context.Context) error] // nil: it is there
}

func (l *leaving) Leader(ctx context.Context) (election.Leadership, error) {
	return unless(ctx, l, l.Source.Leader)
}

func (l *leaving) Names(ctx context.Context) (jobs.Names, error) {
	return unless(ctx, l, l.Source.Names)
}

func (l *leaving) Roster(ctx context.Context) (jobs.Roster, error) {
	return unless(ctx, l, l.Source.Roster)
}

func unless[T any](ctx context.Context, l *leaving, read func(context.Context) (T, error)) (value T, err error) {
	if away := l.away.Load(); away != nil {
		return value, (*away)(ctx)
	}
	return read(ctx)
}

// While the database is away the page says so in words, since when, and what its own replica still knows; it
// shows nothing of what the network or a driver said.
func TestOutage(t *testing.T) {
	t.Parallel()
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	fails := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	for name, c := range map[string]struct {
		away func(context.Context) error
		says string
	}{
		"hanging": {hangs, "The database does not answer."},
		"refused": {fails(&net.OpError{Op: "dial", Err: errors.New("canary 10.1.2.3:3306")}), "The database cannot be reached."},
		"denied":  {fails(errors.Join(lease.ErrDenied, errors.New("canary"))), "refuses this replica&#39;s login"},
		"unfit":   {fails(errors.Join(lease.ErrSetup, errors.New("canary"))), "cannot be used as it is"},
		"other":   {fails(errors.New("canary")), "The database cannot be read."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := memstore.New()
				d := &database{Group: jobs.NewGroup(db, "billing"), store: db, name: "billing"}
				source := &leaving{Source: d}
				p, err := newPage("billing", source, d)
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				p.health = func() scheduler.Health {
					return scheduler.Health{Started: true, Health: election.Health{State: election.State{Role: election.Leading}, HeartbeatAge: 34 * time.Second}}
				}
				get := func(path string) *httptest.ResponseRecorder {
					w := httptest.NewRecorder()
					r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1"+path, nil)
					r.RemoteAddr = "127.0.0.1:1"
					p.ServeHTTP(w, r)
					if strings.Contains(w.Body.String(), "canary") || strings.Contains(w.Body.String(), "context deadline") {
						t.Errorf("%s shows the error itself: %s", path, w.Body)
					}
					return w
				}
				source.away.Store(&c.away)
				first := get("/")
				time.Sleep(time.Minute)
				asked := time.Now()
				for _, w := range []*httptest.ResponseRecorder{first, get("/")} {
					for _, want := range []string{
						noDatabase, c.says, "data-outage", "Not read since</dt><dd>" + begun.UTC().Format("2006-01-02 15:04:05"), "leads, until its lease ends",
						"the newest one seen is 34 s old", "this machine’s clock",
					} {
						if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), want) {
							t.Errorf("%d, no %q: %s", w.Code, want, w.Body)
						}
					}
				}
				if took := time.Since(asked); took > impatience {
					t.Errorf("a view of a database that is known to be away takes %v", took)
				}
				var told map[string]any
				if err := json.Unmarshal(get("/api/status").Body.Bytes(), &told); err != nil || told["role"] != "leading" || told["heartbeat_age_seconds"] != 34.0 || told["since"] == nil {
					t.Errorf("JSON: %v, %v", told, err)
				}
				source.away.Store(nil)
				time.Sleep(time.Minute)
				if w := get("/"); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "data-outage") || !strings.Contains(w.Body.String(), "the database’s clock") {
					t.Errorf("%d after the outage: %s", w.Code, w.Body)
				}
				if got := p.patience(); got != readsFor {
					t.Errorf("a view tries for %v after the outage", got)
				}
				time.Sleep(time.Minute) // the readings that views have left are over
			})
		})
	}
}
