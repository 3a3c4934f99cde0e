package election_test

import (
	"errors"
	"testing"
	"time"

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
