package election_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/memdb"
)

// An observer sees every state in order, however slow it is, and delays only the end
// of Run.
func TestObserversSeeEachChange(t *testing.T) {
	for name, slow := range map[string]time.Duration{"quick": 0, "slow": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var mu sync.Mutex
				var seen []election.State
				inside := false
				store := memdb.New()
				first := prepare(t, store, election.WithObserver(func(s election.State) {
					mu.Lock()
					if inside {
						t.Error("called twice at once")
					}
					inside = true
					mu.Unlock()
					time.Sleep(slow)
					mu.Lock()
					defer mu.Unlock()
					inside = false
					seen = append(seen, s)
				}))
				first.start()
				a := <-first.terms
				second := start(t, store)
				time.Sleep(time.Minute)
				if err := first.Resign(t.Context()); err != nil {
					t.Fatal(err)
				}
				b := <-second.terms
				time.Sleep(time.Minute)
				second.stop()
				<-second.done
				c := <-first.terms
				time.Sleep(time.Minute)
				first.stop()
				if err := <-first.done; err != nil {
					t.Fatal(err)
				}

				me, other := first.Owner(), second.Owner()
				want := []election.State{
					{Role: election.Leading, Owner: me, Token: a.Token()},
					{Role: election.Draining, Owner: me, Token: a.Token(), Cause: election.ErrResigned},
					{Cause: election.ErrResigned},
					{Owner: other, Token: b.Token()},
					{},
					{Role: election.Leading, Owner: me, Token: c.Token()},
					{Role: election.Draining, Owner: me, Token: c.Token(), Cause: election.ErrStopped},
					{Cause: election.ErrStopped},
					{},
				}
				// Between the two terms it may read the row and see no leader.
				seen = slices.DeleteFunc(seen, func(s election.State) bool { return s == election.State{} })
				want = slices.DeleteFunc(want, func(s election.State) bool { return s == election.State{} })
				if !slices.Equal(seen, want) {
					t.Errorf("seen:\n%+v\nwant:\n%+v", seen, want)
				}
			})
		})
	}
}

func TestObserversInASecondRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		changes := 0
		r := prepare(t, memdb.New(), election.WithObserver(func(election.State) { changes++ }))
		for range 3 {
			changes = 0
			r.start()
			<-r.terms
			time.Sleep(time.Minute)
			r.stop()
			<-r.done
			if changes != 4 { // leading, draining, following with its cause, nothing
				t.Errorf("%d changes", changes)
			}
		}
	})
}

func TestState(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first, second, a := pair(t, memdb.New())
		if s := first.State(); s != (election.State{Role: election.Leading, Owner: first.Owner(), Token: a.Token()}) {
			t.Errorf("leader: %+v", s)
		}
		if s := second.State(); s != (election.State{Owner: first.Owner(), Token: a.Token()}) {
			t.Errorf("follower: %+v", s)
		}
		first.stop()
		<-first.done
		if s := first.State(); s != (election.State{}) {
			t.Errorf("stopped: %+v", s)
		}
	})
}

func TestObserve(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		l := newLink(store)
		l.Cut()
		ctx, cancel := context.WithCancel(t.Context())
		type news struct {
			election.Leadership
			err error
		}
		seen := make(chan news, 100)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for leader, err := range election.Observe(ctx, l, "g", 0) {
				seen <- news{leader, err}
			}
		}()
		if n := <-seen; !errors.Is(n.err, faulty.ErrLost) {
			t.Errorf("first %+v", n)
		}
		l.Heal()
		for n := range seen {
			if n.err == nil {
				if n.Owner != "" || n.Held() {
					t.Errorf("of an empty store: %+v", n)
				}
				break
			}
		}
		first, second, a := pair(t, store)
		if n := <-seen; n.err != nil || n.Token != a.Token() || n.Owner != first.Owner() || !n.Held() || n.Age > ttl/3 || n.TTL != ttl {
			t.Errorf("leader %+v", n)
		}
		first.stop()
		b := <-second.terms
		n := <-seen
		for n.Token == a.Token() { // it may be seen released
			n = <-seen
		}
		if n.Token != b.Token() || !n.Held() {
			t.Errorf("next leader %+v", n)
		}
		second.Cut()
		if n := <-seen; n.Token != b.Token() || n.Held() {
			t.Errorf("crashed leader %+v", n)
		}
		time.Sleep(time.Hour)
		if len(seen) != 0 {
			t.Errorf("%d news of nothing", len(seen))
		}
		cancel()
		<-done
		for _, err := range election.Observe(t.Context(), store, "g", time.Second) {
			if err != nil {
				t.Error(err)
			}
			break
		}
		for _, err := range election.Observe(t.Context(), store, "no good", time.Second) {
			if err == nil {
				t.Error("a bad group is observed")
			}
			break
		}
		synctest.Wait()
	})
}

func TestRoleString(t *testing.T) {
	t.Parallel()
	for role, want := range map[election.Role]string{election.Following: "following", election.Leading: "leading", election.Draining: "draining", 9: "Role(9)"} {
		if got := role.String(); got != want {
			t.Errorf("%d: %q", role, got)
		}
	}
}

// A row can be newer than the clock that it is compared with.
func TestLeaderOfTheFuture(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		r := start(t, store)
		<-r.terms
		store.StepClock(-time.Second)
		if l, err := election.Leader(t.Context(), store, "g"); err != nil || l.Age != 0 || !l.Held() {
			t.Errorf("%+v, %v", l, err)
		}
	})
}
