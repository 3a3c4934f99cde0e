package locks

import (
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// clockFor is how long the database's clock is extrapolated with our own.
const clockFor = time.Minute

// sight is what this process knows of the database as a whole, and of the sessions of
// others.
//
// After a change of server no lock is granted for the longest TTL that any process was
// seen to have: the new server may lack the last writes, which a holder trusts for its
// own TTL at most. A session that is over never comes back, so its places may be
// removed whenever they are seen.
type sight struct {
	log *zap.Logger

	server   string        // that answered last
	clock    clock         // for display and new versions: no expiry is decided by it
	floor    uint64        // see [store.LockReading.Floor]
	barred   time.Time     // no lock is granted before this instant
	barredBy time.Duration // the longest TTL seen
	over     map[sessionID]time.Time
}

// clock is the database's, as a reading showed it.
type clock struct {
	now time.Time // the database's
	at  time.Time // ours
}

// answeredBy notes which server answered. After a change of server, it returns for
// how long no lock is granted.
func (s *sight) answeredBy(server string) (barred time.Duration) {
	if s.server != "" && s.server != server {
		s.log.Warn("another server answers: no lock is granted for a while", zap.String("server", server), zap.Duration("for", s.barredBy))
		s.barred, barred = time.Now().Add(s.barredBy), s.barredBy
	}
	s.server = server
	return barred
}

func (s *sight) answering() string { return s.server }

// read takes in a reading that was answered then.
func (s *sight) read(r store.LockReading, replied time.Time) {
	s.clock = clock{r.Now, replied}
	s.floor = max(s.floor, r.Floor)
}

// met takes in the processes of a row, and returns the longest TTL seen.
func (s *sight) met(processes []process) time.Duration {
	for _, p := range processes {
		s.barredBy = max(s.barredBy, min(p.TTL, lease.MaxTTL))
	}
	return s.barredBy
}

func (s *sight) isBarred() bool { return time.Now().Before(s.barred) }

// prunedTo is the highest version that a pruned row may have had.
func (s *sight) prunedTo() uint64 { return s.floor }

// now estimates the database's clock, in microseconds since 1970.
func (s *sight) now() int64 {
	if s.clock.now.IsZero() {
		return 0
	}
	return s.clock.now.Add(time.Since(s.clock.at)).UnixMicro()
}

// isStale reports whether the clock has to be read again before a write.
func (s *sight) isStale() bool { return time.Since(s.clock.at) > clockFor }

// next is the least version that a write may give any row: above the floor, which a
// pruned row may have reached. The floor matters for an existing row too: programs of
// schema version 3 insert without checking the floor.
func (s *sight) next(now int64) uint64 { return max(s.floor+1, uint64(now)) }

// ended notes that the session of a process is over.
func (s *sight) ended(p process) {
	id := p.sessionID()
	if !s.isOver(id) {
		s.log.Info("the session of a holder is over: its locks are free", zap.String("holder", p.Owner), zap.Uint64("token", id.token))
	}
	s.over[id] = time.Now()
}

func (s *sight) isOver(id sessionID) bool {
	_, over := s.over[id]
	return over
}

// tidy drops the sessions that no waiter has found over for a while.
func (s *sight) tidy() {
	for id, since := range s.over {
		if time.Since(since) > tidyEvery {
			delete(s.over, id)
		}
	}
}
