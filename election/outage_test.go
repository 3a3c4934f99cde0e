package election_test

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// The database is away for an hour: no replica gives up, and there is a leader
// within TTL + 1 s of its return.
func TestDatabaseAwayForAnHour(t *testing.T) {
	for name, c := range map[string]struct {
		away    func(*link)
		restart bool
		slack   time.Duration
	}{
		"refused":              {(*link).Cut, false, time.Second},
		"refused, and started": {(*link).Cut, true, time.Second},
		"silent":               {(*link).Hang, false, time.Second},
		// An attempt that is under way when the database returns is given up
		// when its time is over.
		"silent, and started": {(*link).Hang, true, time.Second + ttl/5},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := memdb.New()
				first, second, a := pair(t, store)
				third := start(t, store)
				time.Sleep(time.Minute)
				for _, r := range []*replica{first, second, third} {
					c.away(r.link)
				}
				causedBy(t, <-first.ends, election.ErrLost)
				time.Sleep(time.Hour)
				for _, r := range []*replica{first, second, third} {
					// Nothing that a restart would mend, and yet not well.
					if h := r.Health(); h.Stuck != nil || h.Database == nil || h.Leader == nil {
						t.Errorf("while the database is away: %+v", h)
					}
					r.Heal()
				}
				if c.restart {
					store.Restart()
				}
				back := time.Now()
				var b term
				select {
				case b = <-first.terms:
				case b = <-second.terms:
				case b = <-third.terms:
				}
				within(t, "a new leader", back, ttl+c.slack)
				if b.Token() <= a.Token() {
					t.Errorf("token %d after %d", b.Token(), a.Token())
				}
				time.Sleep(time.Hour)
				if !b.Trusted() {
					t.Error("it did not stay")
				}
			})
		})
	}
}

// The bound of a second for long TTLs too.
func TestDatabaseAwayWithALongTTL(t *testing.T) {
	bubble(t, func(t *testing.T) {
		shared := memdb.New()
		store := noSignal{shared}
		long := election.WithTiming(lease.Timing{TTL: 10 * time.Minute})
		first := start(t, store, long)
		<-first.terms
		second := start(t, store, long)
		time.Sleep(time.Hour)
		second.Cut()
		first.Cut()
		time.Sleep(time.Hour)
		first.stop() // a crash
		time.Sleep(3 * time.Minute)
		second.Heal()
		shared.Restart()
		back := time.Now()
		<-second.terms
		within(t, "a new leader", back, 10*time.Minute+time.Second)
	})
}

// An outage that is over before the trust is.
func TestDatabaseAwayForAMoment(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		first, second, _ := pair(t, store)
		for range 30 {
			time.Sleep(47 * time.Second)
			first.Cut()
			second.Cut()
			time.Sleep(6 * time.Second)
			first.Heal()
			second.Heal()
		}
		if len(first.ends) != 0 || len(second.terms) != 0 {
			t.Error("a healthy leader was deposed")
		}
	})
}

// A day with a database clock that is stepped by an hour, again and again.
func TestHealthyLeaderIsNeverDeposed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		first, second, a := pair(t, store)
		third := start(t, store)
		began := time.Now()
		for i := 0; time.Since(began) < 24*time.Hour; i++ {
			time.Sleep(13*time.Minute + 700*time.Millisecond)
			store.StepClock([]time.Duration{time.Hour, -time.Hour, -time.Hour, time.Hour}[i%4])
			for _, r := range []*replica{first, second, third} {
				if err := r.Check(); err != nil {
					t.Fatalf("Check: %v", err)
				}
			}
		}
		if !a.Trusted() || len(second.terms)+len(third.terms) != 0 {
			t.Error("a healthy leader was deposed")
		}
		for _, r := range []*replica{second, third} {
			if n := r.All(); n > 2*24*3600/15 {
				t.Errorf("%d statements of a follower", n)
			}
		}
		if n := first.All(); n > 24*3600/5*11/10 {
			t.Errorf("%d statements of the leader", n)
		}
	})
}

// Statements that take half a second do not depose the leader either.
func TestSlowDatabase(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		var all []*replica
		for range 3 {
			r := prepare(t, store)
			r.Always(func(string) faulty.Fault {
				return faulty.Fault{Late: 500 * time.Millisecond, Reply: 500 * time.Millisecond}
			})
			all = append(all, r.start())
		}
		time.Sleep(24 * time.Hour)
		terms, ends := 0, 0
		for _, r := range all {
			terms, ends = terms+len(r.terms), ends+len(r.ends)
		}
		if terms != 1 || ends != 0 {
			t.Errorf("%d terms, %d ends", terms, ends)
		}
	})
}

// The row is deleted: the leader notices, and until a replica leads again, every
// replica reports that there is no leader.
func TestDeletedRow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		leases := memdb.New()
		first, second, a := pair(t, leases)
		leases.Update("g", func(_ *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) { return nil, f })
		deleted := time.Now()
		e := <-first.ends
		causedBy(t, e, election.ErrLost)
		time.Sleep(ttl - time.Second - time.Since(deleted))
		for _, r := range []*replica{first, second} {
			if s := r.State(); s.Owner != "" || s.Token != 0 {
				t.Errorf("nobody leads, and the state is %+v", s)
			}
		}
		var b term
		select {
		case b = <-first.terms:
		case b = <-second.terms:
		}
		if after := b.began.Sub(e.at); after < 2*time.Second || b.Token() <= a.Token() {
			t.Errorf("token %d, %v after the end of %d", b.Token(), after, a.Token())
		}
		within(t, "a new leader", e.at, ttl+2*time.Second)
	})
}

// The server restarts: the healthy leader stays, and no replica takes the lease
// for a TTL, although it is released in that time.
func TestRestartOfTheServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		first, second, a := pair(t, store)
		for range 10 {
			store.Restart()
			time.Sleep(20 * time.Second)
		}
		if !a.Trusted() || len(second.terms) != 0 {
			t.Fatal("a healthy leader was deposed")
		}
		store.Restart()
		restarted := time.Now()
		first.stop()
		time.Sleep(time.Second)
		if s := second.State(); s != (election.State{}) {
			t.Errorf("nobody leads, and the state is %+v", s)
		}
		b := <-second.terms
		if after := b.began.Sub(restarted); after < ttl || after > ttl+time.Second {
			t.Errorf("taken %v after the restart", after)
		}
	})
}

// An outage is a few lines in the log of a leader, and of one that starts in it.
func TestAnOutageIsLoggedOnceAMinute(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memdb.New()
		core, logs := observer.New(zapcore.InfoLevel)
		logger := election.WithLogger(zap.New(core))
		leader := start(t, store, logger)
		<-leader.terms
		leader.Cut()
		time.Sleep(10 * time.Minute)
		warnings := 0
		for _, line := range logs.TakeAll() {
			if line.Level >= zapcore.WarnLevel {
				warnings++
			}
		}
		if warnings < 10 || warnings > 13 { // one is of the lost lease
			t.Errorf("%d warnings in 10 minutes", warnings)
		}
		leader.Heal()
		<-leader.terms
		if n := logs.FilterMessage("database trouble over").Len(); n != 1 {
			t.Errorf("the end of the outage is logged %d times: %v", n, logs.All())
		}
		if n := logs.FilterLevelExact(zapcore.WarnLevel).Len(); n != 0 {
			t.Errorf("%d warnings after the outage: %v", n, logs.All())
		}
	})
}
