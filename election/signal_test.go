package election_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/store"
)

// brittle is a store whose signals can be broken, as a lost connection does.
type brittle struct {
	*memdb.Store

	mu      sync.Mutex
	broke   chan struct{} // closed when all that listen now hear that
	dead    bool          // no signal works
	signals []store.HandoverSignal
}

type brittleSignal struct {
	store.HandoverSignal
	s *brittle
}

func (s *brittle) HandoverSignal(group string) store.HandoverSignal {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.Store.HandoverSignal(group)
	s.signals = append(s.signals, b)
	return brittleSignal{b, s}
}

// steal takes the signal from the replica that has it.
func (s *brittle) steal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.signals {
		_ = b.Pass(context.Background())
	}
}

func (s *brittle) breakNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.broke)
	s.broke = make(chan struct{})
}

func (b brittleSignal) Wait(ctx context.Context) error {
	b.s.mu.Lock()
	broke, dead := b.s.broke, b.s.dead
	b.s.mu.Unlock()
	if dead {
		return faulty.ErrLost
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-broke:
			cancel()
		case <-ctx.Done():
		}
	}()
	return b.HandoverSignal.Wait(ctx)
}

// The leader dies while the server restarts. A replica that waits for the signal
// notices, reads the lease, and so begins to count at once.
func TestRestartIsHeardThroughTheSignal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for after := time.Duration(0); after < ttl; after += 1300 * time.Millisecond {
			store := &brittle{Store: memdb.New(), broke: make(chan struct{})}
			first, second, _ := pair(t, store)
			time.Sleep(after)
			first.Cut()
			store.Restart()
			store.breakNow()
			restarted := time.Now()
			<-second.terms
			within(t, "the takeover", restarted, ttl+time.Second)
			first.stop()
			second.stop()
			<-first.done
			<-second.done
		}
	})
}

// Signals that never work cost nothing but the quick hand-over.
func TestSignalsThatDoNotWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &brittle{Store: memdb.New(), broke: make(chan struct{}), dead: true}
		first, second, _ := pair(t, store)
		before := second.All()
		time.Sleep(time.Hour)
		if n := second.All() - before; n > int(time.Hour/(ttl/2)) {
			t.Errorf("%d statements an hour", n)
		}
		stopped := time.Now()
		first.stop()
		<-second.terms
		within(t, "the hand-over", stopped, ttl+time.Second)
	})
}

// A leader's signal breaks: the leader waits for it again, and the waiters ahead
// of it get the signal for nothing, with pauses.
func TestSignalsThatBreakNowAndThen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &brittle{Store: memdb.New(), broke: make(chan struct{})}
		first, second, a := pair(t, store)
		before := second.All()
		for range 60 {
			store.breakNow()
			time.Sleep(time.Minute)
		}
		if n := second.All() - before; n > 2*int(time.Hour/(ttl/2)) {
			t.Errorf("%d statements an hour", n)
		}
		if !a.Trusted() {
			t.Error("a healthy leader was deposed")
		}
		stopped := time.Now()
		first.stop()
		<-second.terms
		within(t, "the hand-over", stopped, ttl+time.Second)
	})
}

// A leader's signal goes to another without its knowledge, as when a connection
// dies unnoticed: it looks after it now and then.
func TestSignalThatIsLostUnnoticed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &brittle{Store: memdb.New(), broke: make(chan struct{})}
		first, second, _ := pair(t, store)
		store.steal()
		time.Sleep(3 * time.Minute)
		stopped := time.Now()
		first.stop()
		<-second.terms
		within(t, "the hand-over", stopped, soon)
	})
}
