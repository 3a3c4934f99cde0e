package page

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// counting is a source that counts how often it is read. What it does not have is nil.
type counting struct {
	Source
	reads  atomic.Int64
	mu     sync.Mutex
	leader election.Leadership
	err    error
}

func (c *counting) Leader(context.Context) (election.Leadership, error) {
	c.reads.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leader, c.err
}

func (c *counting) Changes(context.Context) (store.Changes, error) {
	return store.Changes{Number: 1, Now: time.Date(2027, 1, 1, 0, 0, 1, 0, time.UTC)}, nil
}

// Load panics.
func (c *counting) Load(context.Context) (jobs.Snapshot, error) { panic("canary") }

func (c *counting) Runs(context.Context, jobs.Filter) ([]jobs.Record, error) { return nil, nil }

func (c *counting) set(l election.Leadership, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader, c.err = l, err
}

func leads(owner string) election.Leadership {
	return election.Leadership{Group: "billing", Owner: owner, Token: 7, TTL: time.Minute}
}

// One reader serves all clients, and without clients nothing is read.
func TestOneReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &counting{leader: leads("a")}
		l := newLive(source, 100)
		time.Sleep(time.Hour)
		if n := source.reads.Load(); n != 0 {
			t.Errorf("%d readings without a client", n)
		}
		var leave []func()
		for range 100 {
			events, end, err := l.follow()
			if err != nil {
				t.Fatal(err)
			}
			leave = append(leave, end)
			if first := <-events; first.Owner != "a" || first.Token != "7" || first.State != "held" {
				t.Errorf("%+v", first)
			}
		}
		if _, _, err := l.follow(); !errors.Is(err, errFull) {
			t.Errorf("one too many: %v", err)
		}
		before := source.reads.Load()
		time.Sleep(10 * time.Second)
		if n := source.reads.Load() - before; n < 9 || n > 11 {
			t.Errorf("%d readings in 10 s for 100 clients", n)
		}
		for _, end := range leave {
			end()
		}
		before = source.reads.Load()
		time.Sleep(time.Hour)
		if n := source.reads.Load() - before; n != 0 {
			t.Errorf("%d readings after the last client", n)
		}
		// The next one starts afresh.
		source.set(leads("b"), nil)
		events, end, err := l.follow()
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		if first := <-events; first.Owner != "b" {
			t.Errorf("%+v", first)
		}
	})
}

// A client that does not read gets the newest event once it does, and holds up no other. An
// outage is told, and does not change the version.
func TestNewestEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &counting{leader: leads("a")}
		l := newLive(source, 2)
		slow, end, err := l.follow()
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		quick, end, err := l.follow()
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		first := <-quick
		source.set(election.Leadership{}, errors.New("away"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := <-quick; n.Error != "The database cannot be read." || n.Version != first.Version {
			t.Errorf("in the outage: %+v after %+v", n, first)
		}
		source.set(leads("b"), nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := <-quick; n.Owner != "b" || n.Version == first.Version || n.Error != "" {
			t.Errorf("after a takeover: %+v after %+v", n, first)
		}
		if n := <-slow; n.Owner != "b" {
			t.Errorf("the slow client: %+v", n)
		}
	})
}

// What is asked within a second is read once, and again after an action.
func TestSharedReadings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &counting{leader: leads("a")}
		s := newShared(source)
		var wait sync.WaitGroup
		for range 100 {
			wait.Go(func() {
				if l, err := s.Leader(t.Context()); err != nil || l.Owner != "a" {
					t.Errorf("%+v, %v", l, err)
				}
			})
		}
		wait.Wait()
		if n := source.reads.Load(); n != 1 {
			t.Errorf("%d readings for 100 at once", n)
		}
		if _, err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "canary") {
			t.Errorf("a panic of the store: %v", err)
		}
		s.forget()
		_, _ = s.Leader(t.Context())
		time.Sleep(freshFor)
		_, _ = s.Leader(t.Context())
		if n := source.reads.Load(); n != 3 {
			t.Errorf("%d readings, want one after the action and one a second later", n)
		}
		for i := range 10 * maxShared {
			_, _ = s.Runs(t.Context(), jobs.Filter{Limit: i})
		}
		if len(s.answers) > maxShared {
			t.Errorf("%d answers are kept", len(s.answers))
		}
		time.Sleep(2 * freshFor)
		synctest.Wait()
		if len(s.answers) > 0 {
			t.Errorf("%d answers are kept after they count", len(s.answers))
		}
	})
}

func TestOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var o once
		for range 2 {
			if !o.take("") {
				t.Error("a form without a number is always carried out")
			}
		}
		n := o.number()
		if !o.take(n) || o.take(n) {
			t.Error("a form is carried out once")
		}
		o.giveBack(n)
		if !o.take(n) {
			t.Error("a form that failed is carried out again")
		}
		for range 3 * maxRemembered {
			o.take(o.number())
		}
		if len(o.taken) > maxRemembered {
			t.Errorf("%d forms are remembered", len(o.taken))
		}
		time.Sleep(rememberFor)
		o.take(o.number())
		if len(o.taken) != 1 {
			t.Errorf("%d forms are remembered after an hour", len(o.taken))
		}
	})
}
