package election_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

func TestNew(t *testing.T) {
	t.Parallel()
	s := memdb.New()
	for name, c := range map[string]struct {
		store   store.Leases
		group   string
		options []election.Option
		names   string // what the error names
	}{
		"no group":   {s, "", nil, "group"},
		"bad group":  {s, "a b", nil, "group"},
		"bad timing": {s, "g", []election.Option{election.WithTiming(lease.Timing{TTL: time.Millisecond})}, "TTL"},
		"no store":   {nil, "g", nil, "store"},
	} {
		e, err := election.New(c.store, c.group, c.options...)
		if err == nil || e != nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: %v, %v", name, e, err)
		}
		if err := election.Run(t.Context(), c.store, c.group, nil, c.options...); err == nil {
			t.Errorf("%s: Run: no error", name)
		}
	}
	e, err := election.New(s, "g", election.WithLabel("billing"), election.WithTiming(lease.Timing{TTL: time.Minute}))
	if err != nil || !strings.HasPrefix(e.Owner(), "billing/") || e.Timing().TTL != time.Minute || e.Timing().Grace != 8*time.Second {
		t.Errorf("owner %q, timing %+v, %v", e.Owner(), e.Timing(), err)
	}
	if err := e.Check(); err == nil || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("Check before Run: %v", err)
	}
	if err := e.Resign(t.Context()); !errors.Is(err, election.ErrNotLeading) {
		t.Errorf("Resign before Run: %v", err)
	}
}

func TestRunTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := start(t, memdb.New())
		<-r.terms
		if err := r.run(t.Context()); err == nil || !strings.Contains(err.Error(), "already running") {
			t.Errorf("second Run: %v", err)
		}
		time.Sleep(time.Hour)
		if len(r.ends) != 0 {
			t.Error("the second Run disturbed the first")
		}
	})
}

// The leading function runs under the term's hold.
func TestTermHasItsHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memdb.New()
		ctx, stop := context.WithCancel(t.Context())
		err := election.Run(ctx, s, "g", func(ctx context.Context, term election.Term) error {
			holds := lease.Holds(ctx)
			if len(holds) != 1 || holds[0].Store != store.Leases(s) || holds[0].Kind != lease.HoldLease || holds[0].Name != "g" ||
				holds[0].Owner != term.Owner() || holds[0].Token != term.Token() || !holds[0].Trusted() {
				t.Errorf("holds %+v", holds)
			}
			stop()
			<-ctx.Done()
			if holds[0].Trusted() {
				t.Error("trusted after the term")
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A leading function that ends its goroutine has returned: the next replica leads.
func TestGoexit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		db, led := memdb.New(), make(chan string, 100)
		lead := func(name string, f func(context.Context)) {
			e, err := election.New(db, "g")
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_ = e.Run(t.Context(), func(ctx context.Context, _ election.Term) error {
					led <- name
					f(ctx)
					return nil
				})
			}()
			time.Sleep(time.Second)
		}
		lead("exits", func(context.Context) { runtime.Goexit() })
		lead("works", func(ctx context.Context) { <-ctx.Done() })
		time.Sleep(time.Minute)
		var all []string
		for len(led) > 0 {
			all = append(all, <-led)
		}
		if all[len(all)-1] != "works" {
			t.Errorf("these have led: %q", all)
		}
	})
}

// Again after it returned, much later too, and at once.
func TestRunAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := prepare(t, memdb.New())
		time.Sleep(time.Hour)
		last := uint64(0)
		for range 5 {
			r.start()
			began := time.Now()
			term := <-r.terms
			within(t, "leading again", began, soon)
			if term.Token() <= last {
				t.Errorf("token %d after %d", term.Token(), last)
			}
			last = term.Token()
			time.Sleep(time.Minute)
			if err := r.Check(); err != nil || !term.Trusted() {
				t.Errorf("trusted %v, Check: %v", term.Trusted(), err)
			}
			r.stop()
			if err := <-r.done; err != nil {
				t.Errorf("Run: %v", err)
			}
			if err := r.Check(); err == nil {
				t.Error("Check of what does not run says nothing")
			}
			time.Sleep(time.Hour)
		}
	})
}

func TestTerm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		ctx, cancel := context.WithCancel(t.Context())
		err := election.Run(ctx, store, "g", func(ctx context.Context, term election.Term) error {
			row := rowOf(t, store)
			if term.Group() != "g" || term.Owner() != row.Owner || term.Token() != row.Token || !term.Trusted() || ctx.Err() != nil {
				t.Errorf("term %q %q %d, row %+v", term.Group(), term.Owner(), term.Token(), row)
			}
			cancel()
			<-ctx.Done()
			if term.Trusted() || !errors.Is(context.Cause(ctx), election.ErrStopped) {
				t.Errorf("trusted %v, cause %v", term.Trusted(), context.Cause(ctx))
			}
			return nil
		})
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// checked is a store whose fitness is asked.
type checked struct {
	*link
	answers []error // one by one; the last one stays
	asked   int
}

func (c *checked) Check(context.Context) error {
	c.asked++
	if len(c.answers) > 1 {
		defer func() { c.answers = c.answers[1:] }()
	}
	return c.answers[0]
}

func TestUnfitDatabase(t *testing.T) {
	unfit := fmt.Errorf("%w: autocommit is off", lease.ErrSetup)
	away := errors.New("away")
	readOnly := fmt.Errorf("%w: read_only is on", lease.ErrNotReady)
	for name, c := range map[string]struct {
		answers []error
		leads   bool
		most    int // how often it is asked in an hour
	}{
		"fit":               {[]error{nil}, true, 1},
		"unfit":             {[]error{unfit}, false, 1},
		"away, then unfit":  {[]error{away, away, unfit}, false, 3},
		"away, then fit":    {[]error{away, away, nil}, true, 3},
		"never to be asked": {[]error{away}, true, 1},
		"not ready yet":     {[]error{readOnly, readOnly, readOnly, nil}, true, 4},
		"in the end unfit":  {[]error{readOnly, unfit}, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				l := newLink(memdb.New())
				store := &checked{link: l, answers: c.answers}
				if len(c.answers) > 1 && errors.Is(c.answers[0], away) {
					l.Once("Read", faulty.Fault{Err: faulty.ErrLost}, faulty.Fault{Err: faulty.ErrLost})
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				led := false
				err := election.Run(ctx, store, "g", func(ctx context.Context, _ election.Term) error {
					led = true
					<-ctx.Done()
					return nil
				})
				if led != c.leads || (err == nil) != c.leads || err != nil && !errors.Is(err, lease.ErrSetup) {
					t.Errorf("led %v, Run: %v", led, err)
				}
				if store.asked > c.most {
					t.Errorf("asked %d times", store.asked)
				}
			})
		})
	}
}

// A leader whose heartbeats work can use the database, whatever kept it from finding the database fit before.
func TestHealthOfALeaderThatWasNotChecked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, err := election.New(&checked{link: newLink(memdb.New()), answers: []error{context.DeadlineExceeded}}, "g")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- e.Run(ctx, func(ctx context.Context, _ election.Term) error { <-ctx.Done(); return nil })
		}()
		time.Sleep(30 * time.Second)
		if h := e.Health(); h.State.Role != election.Leading || h.Err() != nil {
			t.Errorf("%+v", h)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
