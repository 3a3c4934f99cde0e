package page

import (
	"context"
	"sync"
	"time"
)

const (
	// slowShare bounds what a slow reading costs while clients look: it begins again after
	// this many times what it took, but before its answer is too old.
	slowShare = 20
	// slowAge is how old an answer is at most that is shown.
	slowAge = time.Minute
	// slowWait is how long a view waits for an answer, from its beginning on.
	slowWait = 100 * time.Millisecond
)

// slow is something that takes longer to read of a large group than a view may take. One
// reading is for all clients, and a view shows the last one, with its age, where the next one
// is not done in time. The zero slow is ready for use.
type slow[T any] struct {
	mu     sync.Mutex
	last   aged[T]
	known  bool          // there is one
	again  time.Time     // when the next one is due
	ending chan struct{} // closed when the reading that is under way has ended; nil: there is none
}

// aged is an answer, and when its reading began.
type aged[T any] struct {
	value T
	begun time.Time
}

func (a aged[T]) age() time.Duration { return time.Since(a.begun) }

// begin begins a reading if one is due, and returns at once. The reading does not end with the
// request.
func (s *slow[T]) begin(ctx context.Context, read func(context.Context) (T, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending != nil || time.Now().Before(s.again) {
		return
	}
	ended := make(chan struct{})
	s.ending = ended
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readsFor)
		defer cancel()
		begun := time.Now()
		value, err := guarded(ctx, read)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil { // or the last one goes on, until it is too old
			s.last, s.known = aged[T]{value, begun}, true
		}
		s.again, s.ending = begun.Add(min(max(freshFor, slowShare*time.Since(begun)), slowAge/2)), nil
		close(ended)
	}()
}

// get returns the answer of the reading that is under way, if it ends by then, and else the one
// before; false: there is none.
func (s *slow[T]) get(ctx context.Context, by time.Time) (aged[T], bool) {
	s.mu.Lock()
	ending := s.ending
	s.mu.Unlock()
	if ending != nil {
		wait := time.NewTimer(time.Until(by))
		defer wait.Stop()
		select {
		case <-ending:
		case <-wait.C:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known || s.last.age() > slowAge {
		return aged[T]{}, false
	}
	return s.last, true
}
