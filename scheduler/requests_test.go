package scheduler_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
)

// counts are the statements of a leader, by the name of their method.
func (l *link) counts() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.sent)
}

// A leader at rest sends its heartbeat and, every few minutes, that it has its jobs.
func TestLeaderAtRest(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Manual()}})
		c.until(time.Minute)
		before := r.link.counts()
		c.until(time.Hour)
		beats := 0
		for op, n := range r.link.counts() {
			switch n -= before[op]; {
			case op == "Renew":
				beats = n
			case n <= 18 && (op == "Refresh" || op == "Roster"), n <= 12 && op == "LoadOf":
			case n <= 1 && op == "PruneArchive":
			case n > 0 && op != "Prune":
				t.Errorf("%d times %s", n, op)
			}
		}
		if interval := 59 * time.Minute / time.Duration(beats); interval < 4900*time.Millisecond {
			t.Errorf("a heartbeat each %v, want one each 5s", interval)
		}
	})
}

// A request whose signal is lost is found by the next heartbeat.
func TestLostRequestSignal(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Every(time.Minute), Do: sleep(time.Hour)}, {Name: "manual", Schedule: jobs.Manual()}})
		r.link.set(func(l *link) { l.delay["Signal"] = 24 * time.Hour })
		c.until(time.Minute + 2*time.Second)
		_, err := c.Trigger(t.Context(), "manual")
		check(t, err)
		c.until(time.Minute + 7*time.Second)
		c.wantRows("manual", "1m2s succeeded")
		check(t, c.Cancel(t.Context(), jobs.Key{Job: "job", Tick: c.begin.Add(time.Minute)}))
		c.until(time.Minute + 12*time.Second)
		c.wantRows("job", "1m cancelled: jobs: cancelled on request: context canceled")
		if n := r.link.counts()["Changes"]; n > 0 {
			t.Errorf("Changes was read %d times", n)
		}
	})
}

// Signals that come for nothing cost few statements.
func TestRequestSignalsForNothing(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Manual()}})
		c.until(time.Minute)
		before := r.link.counts()
		r.link.set(func(l *link) { l.liar = true })
		_, err := c.Trigger(t.Context(), "job") // the last signal that is honest
		check(t, err)
		c.until(2 * time.Minute)
		after := r.link.counts()
		for op, n := range after {
			if n -= before[op]; n > 250 {
				t.Errorf("in a minute, %d times %s", n, op)
			}
		}
		if after["Load"]-before["Load"] < 60 {
			t.Errorf("signals that came for nothing made the leader look %d times", after["Load"]-before["Load"])
		}
		if r.State().Role != election.Leading {
			t.Error("the leader has lost its lease")
		}
	})
}

// When the heartbeat cannot look at the ledger, since a table is locked, the leader
// keeps its lease by heartbeats that only renew.
func TestHeartbeatThatCannotLook(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Manual()}})
		c.until(time.Minute)
		token := r.State().Token
		r.link.set(func(l *link) { l.locked = true })
		c.until(10 * time.Minute)
		if s := r.State(); s.Role != election.Leading || s.Token != token {
			t.Errorf("while a table is locked: %+v", s)
		}
		r.link.set(func(l *link) { l.locked = false })
		c.until(12 * time.Minute)
		before := r.link.counts()["Changes"]
		c.until(20 * time.Minute)
		if n := r.link.counts()["Changes"] - before; n > 0 {
			t.Errorf("after that, Changes was read %d times", n)
		}
	})
}

// A request to resign through the database ends the term at once.
func TestResignAtOnce(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Manual()}})
		c.until(time.Minute + 2*time.Second)
		check(t, c.store.AskResign(t.Context(), "g", r.State().Token))
		c.until(time.Minute + 2*time.Second + 100*time.Millisecond)
		if s := r.State(); s.Role == election.Leading {
			t.Errorf("%+v", s)
		}
	})
}

// On real servers, a trigger reaches the leader long before its next heartbeat, and a
// stream of them costs neither the lease nor a run.
func TestTriggerOnServers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		leader, asker := onServer(t, db), jobs.NewGroup(onServer(t, db), "g")
		started := make(chan jobs.Run, 1000)
		lost := make(chan error, 10)
		s, err := scheduler.New(leader, "g", scheduler.WithTiming(lease.Timing{TTL: 60 * time.Second}), scheduler.WithObserver(func(s election.State) {
			if errors.Is(s.Cause, election.ErrLost) {
				lost <- s.Cause
			}
		}))
		check(t, err)
		check(t, s.Add(jobs.Job{Name: "job", Schedule: jobs.Manual(), Overlap: jobs.OverlapAllow, Do: func(_ context.Context, r jobs.Run) error {
			started <- r
			return nil
		}}))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		for {
			if _, err := asker.Trigger(t.Context(), "job"); err == nil {
				<-started
				break
			} else if !errors.Is(err, jobs.ErrNoJob) {
				t.Fatal(err)
			}
		}
		var took []time.Duration
		for range 20 {
			at := time.Now()
			_, err := asker.Trigger(t.Context(), "job")
			check(t, err)
			<-started
			took = append(took, time.Since(at))
		}
		slices.Sort(took)
		t.Logf("from trigger to start: median %v, longest %v", took[10], took[19])
		if took[10] > 2*time.Second {
			t.Errorf("from trigger to start: %v; the heartbeat comes each 20 s", took)
		}
		const each, askers = 50, 4
		var all sync.WaitGroup
		for range askers {
			group := jobs.NewGroup(onServer(t, db), "g")
			all.Go(func() {
				for range each {
					if _, err := group.Trigger(t.Context(), "job"); err != nil {
						t.Error(err)
					}
				}
			})
		}
		seen := map[jobs.Key]bool{}
		for range each * askers {
			r := <-started
			key := jobs.Key{Job: r.Job, Tick: r.Tick, Trigger: r.Trigger}
			if seen[key] {
				t.Errorf("%v ran twice", key)
			}
			seen[key] = true
		}
		all.Wait()
		stop()
		check(t, <-done)
		if len(lost) > 0 {
			t.Errorf("the lease was lost: %v", <-lost)
		}
	})
}

// A stream of requests does not keep the lease from being renewed.
func TestRequestsDoNotStarveHeartbeats(t *testing.T) {
	inBubble(t, func(c *cluster) {
		r := c.start([]jobs.Job{{Name: "job", Schedule: jobs.Manual(), Overlap: jobs.OverlapAllow}})
		r.link.set(func(l *link) {
			for _, op := range []string{"Renew", "Load", "Listen", "Signal"} {
				l.hold[op] = 30 * time.Millisecond // so that each finds another number
			}
		})
		c.until(time.Second)
		token := r.State().Token
		for range 10_000 {
			_, err := c.Trigger(t.Context(), "job")
			check(t, err)
			time.Sleep(10 * time.Millisecond)
		}
		if s := r.State(); s.Role != election.Leading || s.Token != token {
			t.Errorf("after the stream: %+v", s)
		}
		time.Sleep(10 * time.Second)
		c.wantAllOver("job", 10_000)
	})
}

// lyingSignal comes for nothing.
type lyingSignal struct {
	store.RequestSignal
	link *link
}

func (s lyingSignal) Wait(ctx context.Context, known *uint64) error {
	s.link.mu.Lock()
	lies := s.link.liar
	s.link.mu.Unlock()
	if lies {
		return s.link.send(ctx, "Lie", func(context.Context) error { return nil })
	}
	return s.RequestSignal.Wait(ctx, known)
}

// RequestSignal is that of the ledger, and lies if the link says so.
func (l *link) RequestSignal(group string, token uint64) store.RequestSignal {
	return lyingSignal{l.Ledger.RequestSignal(group, token), l}
}

// Beat is the ledger's, unless a table is locked.
func (l *link) Beat(ctx context.Context, owner string, heartbeat uint64, r store.Renewal, known uint64) (store.Beat, error) {
	l.mu.Lock()
	locked := l.locked
	l.mu.Unlock()
	if locked {
		return store.Beat{}, faulty.Fault{Silence: true}.Send(ctx, nil)
	}
	return l.Ledger.Beat(ctx, owner, heartbeat, r, known)
}

// plain is a store that can do what each store can, and no more.
type plain struct{ store.Jobs }

// A leader whose store has neither request signals nor heartbeats that look at the ledger finds requests by itself within a
// second or so, and reads the ledger only when it has changed.
func TestRequestsOnAPlainStore(t *testing.T) {
	inBubble(t, func(c *cluster) {
		way := newLink(c.store)
		s, err := scheduler.New(plain{way}, "g")
		check(t, err)
		ran := 0
		check(t, s.Add(jobs.Job{Name: "job", Schedule: jobs.Manual(), Do: func(context.Context, jobs.Run) error { ran++; return nil }}))
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		c.until(time.Minute)
		before := way.count("Load")
		c.until(2 * time.Minute)
		if n := way.count("Load") - before; n > 0 {
			t.Errorf("%d readings at rest", n)
		}
		_, err = c.Trigger(c.Context(), "job")
		check(t, err)
		c.until(2*time.Minute + 1500*time.Millisecond)
		if ran != 1 {
			t.Errorf("it ran %d times", ran)
		}
		cancel()
		check(t, <-ended)
	})
}
