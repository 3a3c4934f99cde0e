package election_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/internal/settings"
	"github.com/cronlease/cronlease/lease"
)

// With a short TTL, an outage shows on both replicas within seconds: in the answers
// about the database and the leader, but not in the one for which a process is
// restarted.
func TestHealthInAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		timing := election.WithTiming(lease.Timing{TTL: time.Second})
		first := prepare(t, store, timing).start()
		<-first.terms
		second := prepare(t, store, timing).start()
		time.Sleep(5 * time.Second)
		for _, r := range []*replica{first, second} {
			if h := r.Health(); h.Err() != nil || h.HeartbeatAge > time.Second {
				t.Errorf("%v: %+v", r.State().Role, h)
			}
		}
		for _, r := range []*replica{first, second} {
			r.Always(func(string) faulty.Fault { return faulty.Fault{Err: faulty.ErrLost} })
		}
		time.Sleep(5 * time.Second)
		for _, r := range []*replica{first, second} {
			h := r.Health()
			if h.Stuck != nil || !errors.Is(h.Database, faulty.ErrLost) || !errors.Is(h.Leader, election.ErrLeaderless) || r.Check() == nil {
				t.Errorf("in the outage: %+v", h)
			}
		}
		for _, r := range []*replica{first, second} {
			r.Always(func(string) faulty.Fault { return faulty.Fault{} })
		}
		time.Sleep(5 * time.Second)
		for _, r := range []*replica{first, second} {
			if h := r.Health(); h.Err() != nil {
				t.Errorf("after the outage: %+v", h)
			}
		}
	})
}

// However long an outage was that has cost a leader its lease: once its database answers again, its health says so with the
// next look.
func TestHealthSoonAfterAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		for outage := 15 * time.Second; outage < 30*time.Second; outage += 250 * time.Millisecond {
			leader := prepare(t, store)
			leader.lead = func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Second) // so that a heartbeat is under way when the lease is given up
				return nil
			}
			leader.start()
			<-leader.terms
			follower := prepare(t, store).start()
			leader.Hang()
			time.Sleep(outage)
			leader.Heal()
			time.Sleep(leader.Timing().AttemptTimeout + time.Second) // for what is under way
			if h := leader.Health(); h.Database != nil {
				t.Errorf("after an outage of %v: %v", outage, h.Database)
			}
			for _, r := range []*replica{follower, leader} {
				r.stop()
				<-r.done
			}
		}
	})
}

// A term that ends while the database hangs takes its grace, and attempts at what is left to
// write. None of that is a reason to restart the process.
func TestHealthWhileATermEnds(t *testing.T) {
	for name, timing := range map[string]lease.Timing{
		"default": {}, "short": {TTL: 3 * time.Second}, "much grace": {TTL: time.Minute, Grace: 30 * time.Second}, "long attempts": {TTL: 15 * time.Second, AttemptTimeout: 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := prepare(t, memdb.New(), election.WithTiming(timing))
				whole := r.Timing()
				r.lead = func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(whole.Grace + 2*whole.AttemptTimeout) // as a scheduler does, for its runs and their outcomes
					return nil
				}
				r.start()
				<-r.terms
				r.Hang()
				for ended, began := false, time.Now(); time.Since(began) < 6*whole.TTL; time.Sleep(whole.TTL / 50) {
					h := r.Health()
					ended = ended || h.State.Role == election.Draining
					if h.Stuck != nil {
						t.Fatalf("%v after the database hangs, as %v: %v", time.Since(began), h.State.Role, h.Stuck)
					}
					if time.Since(began) > 5*whole.TTL && (!ended || h.State.Role != election.Following || h.Database == nil) {
						t.Fatalf("the term should be over: %+v", h)
					}
				}
				r.Heal()
				<-r.terms
			})
		})
	}
}

// A replica that is kept from campaigning reports that, and that no replica
// leads.
func TestHealthBehindAGate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		errGate := errors.New("not today")
		r := prepare(t, store, func(s *settings.Election) { s.Gate = func(lease.Skew) error { return errGate } }).start()
		time.Sleep(time.Minute)
		if h := r.Health(); h.Stuck != nil || !errors.Is(h.Database, errGate) || !errors.Is(h.Leader, election.ErrLeaderless) {
			t.Errorf("%+v", h)
		}
		other := prepare(t, store).start()
		<-other.terms
		time.Sleep(20 * time.Second)
		if h := r.Health(); h.Leader != nil || h.HeartbeatAge > 15*time.Second || h.State.Owner != other.Owner() {
			t.Errorf("with a leader: %+v", h)
		}
		other.Always(func(string) faulty.Fault { return faulty.Fault{Err: faulty.ErrLost} })
		time.Sleep(40 * time.Second)
		if h := r.Health(); !errors.Is(h.Leader, election.ErrLeaderless) || h.HeartbeatAge < 15*time.Second {
			t.Errorf("without the leader: %+v", h)
		}
	})
}

func TestHealthOfACampaignThatDoesNotRun(t *testing.T) {
	t.Parallel()
	e, err := election.New(memdb.New(), "g")
	if err != nil {
		t.Fatal(err)
	}
	if h := e.Health(); h.Stuck == nil || h.Leader == nil || h.Database != nil {
		t.Errorf("%+v", h)
	}
}

// A campaign that was stopped needs no restart, whatever else its process still has to end. One that
// failed does.
func TestHealthOfACampaignThatHasStopped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := start(t, memdb.New())
		<-r.terms
		r.stop()
		if err := <-r.done; err != nil {
			t.Fatal(err)
		}
		if h := r.Health(); h.Stuck != nil || h.Running || !errors.Is(h.Leader, election.ErrLeaderless) {
			t.Errorf("after a stop: %+v", h)
		}
		release := make(chan struct{})
		r.lead = func(context.Context) error { <-release; return nil }
		r.start()
		<-r.terms
		if h := r.Health(); h.Err() != nil {
			t.Errorf("begun again: %+v", h)
		}
		r.stop()
		if err := <-r.done; !errors.Is(err, election.ErrStillLeading) {
			t.Fatal(err)
		}
		if h := r.Health(); h.Stuck == nil || h.Running {
			t.Errorf("while the work of a stopped one goes on: %+v", h)
		}
		close(release)
		synctest.Wait()
		if h := r.Health(); h.Stuck != nil || h.Running {
			t.Errorf("after its end: %+v", h)
		}

		failed, err := election.New(&checked{link: newLink(memdb.New()), answers: []error{lease.ErrSetup}}, "g")
		if err != nil {
			t.Fatal(err)
		}
		if err := failed.Run(t.Context(), func(context.Context, election.Term) error { return nil }); !errors.Is(err, lease.ErrSetup) {
			t.Fatal(err)
		}
		if h := failed.Health(); h.Stuck == nil || h.Running {
			t.Errorf("after a failure: %+v", h)
		}
	})
}

// The only replica was killed and starts again: one line says what it waits for, and until when.
func TestWaitIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		db := memdb.New()
		killed := start(t, noSignal{db})
		<-killed.terms
		killed.Cut()
		core, logs := observer.New(zap.InfoLevel)
		began := time.Now()
		again := start(t, noSignal{db}, election.WithLogger(zap.New(core)))
		second := <-again.terms
		lines := logs.FilterMessageSnippet("the lease is held").All()
		if len(lines) != 1 {
			t.Fatalf("%v", logs.All())
		}
		says := lines[0].ContextMap()
		if until, _ := says["expires"].(time.Time); says["leader"] != killed.Owner() || lines[0].Time.Sub(began) > time.Second || second.began.Sub(until).Abs() > time.Second {
			t.Errorf("led after %v: %v", second.began.Sub(began), says)
		}
	})
}
