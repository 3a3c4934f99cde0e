package page

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/memstore"
)

// large is a source that takes its time to read all jobs.
type large struct {
	Source
	takes time.Duration
	loads atomic.Int64
}

func (l *large) Load(ctx context.Context) (jobs.Snapshot, error) {
	l.loads.Add(1)
	time.Sleep(l.takes)
	return l.Source.Load(ctx)
}

// leftGroup is a group whose leader has left the ticks of a job for ten minutes.
func leftGroup(t *testing.T) *database {
	t.Helper()
	ctx, db := t.Context(), memstore.New()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(db.Prepare(ctx, "billing", time.Hour))
	reading, err := db.Read(ctx, "billing")
	ok(err)
	h := store.Holder{Group: "billing", Owner: "a/b/1/c"}
	h.Token, err = db.Acquire(ctx, store.Acquire{Read: reading[0], Owner: h.Owner, Heartbeat: 1, TTL: time.Hour})
	ok(err)
	ok(db.Declare(ctx, h, []store.Declared{{Name: "left", Schedule: "every 1s"}, {Name: "later", Schedule: "every 24h"}}))
	time.Sleep(10 * time.Minute)
	return &database{Group: jobs.NewGroup(db, "billing"), store: db, name: "billing"}
}

// No view waits for all jobs of a large group: it shows what was found in them last, and how old that is.
func TestSlowReadings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, d := t.Context(), leftGroup(t)
		source := &large{Source: d, takes: time.Second}
		p, err := newPage("billing", source, d)
		if err != nil {
			t.Fatal(err)
		}
		view := func(path string, wait time.Duration, want string) (body string) {
			t.Helper()
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
			r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
			w := httptest.NewRecorder()
			begin := time.Now()
			p.ServeHTTP(w, r)
			if took := time.Since(begin); took != wait {
				t.Errorf("%s took %v, want %v", path, took, wait)
			}
			if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s: %d, no %q in %s", path, w.Code, want, body)
			}
			return w.Body.String()
		}
		const note = "1 job has a tick that no leader has claimed. The oldest, of left, is 10 min"
		view("/", slowWait, "Whether ticks are late is not known yet")
		view("/job?name=left", 0, "no leader has claimed it")
		if body := view("/job?name=later", 0, "<code>every 24h</code>"); strings.Contains(body, "no leader has claimed it") {
			t.Error("the view of a job shows the late tick of another one")
		}
		time.Sleep(5 * time.Second)
		view("/", 0, note)
		view("/", 0, ", as of 5 s ago.")
		time.Sleep(16 * time.Second) // the next reading is due
		view("/", slowWait, ", as of 21 s ago.")
		time.Sleep(time.Second)
		view("/", 0, ", as of 1 s ago.")
		if n := source.loads.Load(); n != 2 {
			t.Errorf("all jobs were read %d times", n)
		}
		time.Sleep(2 * slowAge)
		view("/", slowWait, "Whether ticks are late is not known yet")
		source.takes = 0
		time.Sleep(2 * slowAge)
		view("/", 0, " late.")
		time.Sleep(time.Minute)
	})
}

// patient is a large source that also takes its time to read what a view shows.
type patient struct {
	*large
	early atomic.Bool // all jobs were being read meanwhile
}

func (p *patient) Newest(ctx context.Context, of jobs.Newest) (map[string][]jobs.Record, error) {
	time.Sleep(slowWait)
	p.early.Store(p.early.Load() || p.loads.Load() > 0)
	return p.large.Newest(ctx, of)
}

// The first view of a large group does not share the database with readings that it does not
// wait for.
func TestSlowReadingsComeLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := leftGroup(t)
		source := &patient{large: &large{Source: d, takes: time.Second}}
		p, err := newPage("billing", source, d)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if w.Code != http.StatusOK || source.early.Load() {
			t.Errorf("%d, all jobs were read before the view: %t", w.Code, source.early.Load())
		}
		time.Sleep(2 * time.Second)
		if n := source.loads.Load(); n != 1 {
			t.Errorf("all jobs were read %d times", n)
		}
	})
}
