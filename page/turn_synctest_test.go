package page

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// busy is a Source whose readings take time.
type busy struct {
	counting
	takes time.Duration
	now   atomic.Int64 // readings that go on
	most  atomic.Int64
}

func (b *busy) Runs(ctx context.Context, _ jobs.Filter) ([]jobs.Record, error) {
	if n := b.now.Add(1); n > b.most.Load() {
		b.most.Store(n)
	}
	defer b.now.Add(-1)
	select {
	case <-time.After(b.takes):
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// unread is a client that reads nothing of its answer until it leaves.
type unread struct {
	*httptest.ResponseRecorder
	left <-chan struct{}
}

func (u unread) Write(p []byte) (int, error) {
	<-u.left
	return len(p), nil
}

// named lets each client say its name.
func named(_ http.ResponseWriter, r *http.Request) (User, bool) {
	return User{Name: r.Header.Get("Name"), Role: Look}, true
}

func requestOf(ctx context.Context, name string, nth int) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/api/runs?limit="+strconv.Itoa(nth+1), nil)
	r.Header.Set("Name", name)
	return r
}

// Clients that do not read their answers keep no other user from an answer. They have a bounded
// number of them.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &busy{takes: time.Millisecond}
		p, err := newPage("billing", source, nil, WithAuth(named))
		if err != nil {
			t.Fatal(err)
		}
		left := make(chan struct{})
		for n := range 10 * perUser {
			go p.ServeHTTP(unread{httptest.NewRecorder(), left}, requestOf(t.Context(), "slow", n))
		}
		time.Sleep(time.Second)
		begun := time.Now()
		w := httptest.NewRecorder()
		p.ServeHTTP(w, requestOf(t.Context(), "other", 500))
		if took := time.Since(begun); w.Code != http.StatusOK || took > 10*time.Millisecond {
			t.Errorf("another user got %d after %v", w.Code, took)
		}
		if n := len(p.seats.of["slow"].taken); n != perUser {
			t.Errorf("the slow user has %d answers", n)
		}
		close(left)
		time.Sleep(time.Minute)
		if n := len(p.seats.of) + len(p.turns); n != 0 {
			t.Errorf("%d seats and turns are left", n)
		}
	})
}

// slowly resigns in a while, as a store does that asks the leader and then writes the audit.
type slowly struct {
	steering
	done error
}

func (s *slowly) Resign(ctx context.Context) error {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	s.done = ctx.Err()
	return s.done
}

// A client that leaves while its action is carried out does not stop it half-way.
func TestActionOfAClientThatLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		steer := &slowly{}
		p, err := newPage("billing", &counting{}, steer, WithAuth(func(http.ResponseWriter, *http.Request) (User, bool) { return User{"alice", Steer}, true }))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/do", strings.NewReader("action=resign"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		steer.done = context.Canceled // until it has been called
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if steer.done != nil || w.Code != http.StatusSeeOther {
			t.Errorf("%v, status %d", steer.done, w.Code)
		}
	})
}

// Clients that leave at once do not have more readings than others.
func TestClientsThatLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &busy{takes: 2 * time.Second}
		p, err := newPage("billing", source, nil, WithAuth(named))
		if err != nil {
			t.Fatal(err)
		}
		for n := range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			go p.ServeHTTP(httptest.NewRecorder(), requestOf(ctx, strconv.Itoa(n), n))
			time.Sleep(10 * time.Millisecond)
			cancel()
		}
		time.Sleep(time.Minute)
		if n := source.most.Load(); n > maxReads {
			t.Errorf("%d readings at a time, want %d at most", n, maxReads)
		}
	})
}
