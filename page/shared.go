package page

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/locks"
)

const (
	// freshFor is how long an answer of the database counts for all clients.
	freshFor = time.Second
	// maxShared bounds how many answers are kept.
	maxShared = 64
)

// shared is a Source whose answers count for all that ask the same within a second, so
// that a hundred open pages read what one reads.
type shared struct {
	Source
	outages outages

	mu      sync.Mutex
	answers map[any]*reading
}

func newShared(s Source) *shared { return &shared{Source: s, answers: map[any]*reading{}} }

// reading is an answer, once done is closed.
type reading struct {
	begun time.Time
	done  chan struct{}
	value any
	err   error
}

// share returns the answer under the key, from a reading that began less than a second ago, or
// from one that it begins. The reading does not end with the request that began it, since
// others wait for it too.
func share[T any](ctx context.Context, s *shared, key any, read func(context.Context) (T, error)) (T, error) {
	s.mu.Lock()
	now := time.Now()
	r, ok := s.answers[key]
	if !ok || now.Sub(r.begun) >= freshFor {
		if len(s.answers) >= maxShared {
			clear(s.answers) // those that wait keep theirs
		}
		r = &reading{begun: now, done: make(chan struct{})}
		s.answers[key] = r
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readsFor)
			defer cancel()
			r.value, r.err = guarded(ctx, read)
			s.outages.note(now, r.err)
			close(r.done)
			// Lists may be long: none is kept for longer than it counts.
			time.AfterFunc(freshFor-time.Since(now), func() { s.drop(key, r) })
		}()
	}
	s.mu.Unlock()
	select {
	case <-r.done:
		value, _ := r.value.(T)
		return value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// guarded reads, and makes an error of a panic, which would end the process with all its jobs.
func guarded[T any](ctx context.Context, read func(context.Context) (T, error)) (value T, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("page: panic while reading: %v", v)
		}
	}()
	return read(ctx)
}

// drop forgets an answer, unless there is another one.
func (s *shared) drop(key any, r *reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers[key] == r {
		delete(s.answers, key)
	}
}

// forget has the next questions asked again: an action has changed something.
func (s *shared) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.answers)
}

// The keys of answers that have no parameters.
type (
	leaderKey struct{}
	loadKey   struct{}
	namesKey  struct{}
	rosterKey struct{}
)

// The keys of answers whose parameters are a run, or have slices.
type (
	runKey      jobs.Key
	attemptsKey jobs.Key
	textKey     string
)

// What these return is shared: it must not be changed.

func (s *shared) Leader(ctx context.Context) (election.Leadership, error) {
	return share(ctx, s, leaderKey{}, s.Source.Leader)
}

func (s *shared) Load(ctx context.Context) (jobs.Snapshot, error) {
	return share(ctx, s, loadKey{}, s.Source.Load)
}

func (s *shared) Names(ctx context.Context) (jobs.Names, error) {
	return share(ctx, s, namesKey{}, s.Source.Names)
}

func (s *shared) LoadOf(ctx context.Context, names []string) (jobs.Snapshot, error) {
	return share(ctx, s, textKey(fmt.Sprintf("load %q", names)), func(ctx context.Context) (jobs.Snapshot, error) { return s.Source.LoadOf(ctx, names) })
}

func (s *shared) Roster(ctx context.Context) (jobs.Roster, error) {
	return share(ctx, s, rosterKey{}, s.Source.Roster)
}

func (s *shared) Runs(ctx context.Context, filter jobs.Filter) ([]jobs.Record, error) {
	return share(ctx, s, filter, func(ctx context.Context) ([]jobs.Record, error) { return s.Source.Runs(ctx, filter) })
}

func (s *shared) Args(ctx context.Context, key jobs.Key) (json.RawMessage, error) {
	return share(ctx, s, key, func(ctx context.Context) (json.RawMessage, error) { return s.Source.Args(ctx, key) })
}

func (s *shared) Run(ctx context.Context, key jobs.Key) (jobs.Record, error) {
	return share(ctx, s, runKey(key), func(ctx context.Context) (jobs.Record, error) { return s.Source.Run(ctx, key) })
}

func (s *shared) Terms(ctx context.Context, filter jobs.TermFilter) ([]jobs.Term, error) {
	return share(ctx, s, filter, func(ctx context.Context) ([]jobs.Term, error) { return s.Source.Terms(ctx, filter) })
}

func (s *shared) Newest(ctx context.Context, of jobs.Newest) (map[string][]jobs.Record, error) {
	return share(ctx, s, textKey(fmt.Sprintf("newest %q %v", of.Jobs, of)), func(ctx context.Context) (map[string][]jobs.Record, error) { return s.Source.Newest(ctx, of) })
}

func (s *shared) Counts(ctx context.Context, filter jobs.CountFilter) (jobs.Counts, error) {
	return share(ctx, s, textKey(fmt.Sprintf("counts %q %v", filter.Jobs, filter)), func(ctx context.Context) (jobs.Counts, error) { return s.Source.Counts(ctx, filter) })
}

func (s *shared) Attempts(ctx context.Context, key jobs.Key) ([]jobs.Attempt, error) {
	return share(ctx, s, attemptsKey(key), func(ctx context.Context) ([]jobs.Attempt, error) { return s.Source.Attempts(ctx, key) })
}

func (s *shared) Audit(ctx context.Context, filter jobs.AuditFilter) ([]jobs.AuditEntry, error) {
	return share(ctx, s, filter, func(ctx context.Context) ([]jobs.AuditEntry, error) { return s.Source.Audit(ctx, filter) })
}

func (s *shared) Locks(ctx context.Context, after string, limit int) ([]locks.Info, error) {
	return share(ctx, s, textKey(fmt.Sprintf("locks %q %d", after, limit)), func(ctx context.Context) ([]locks.Info, error) { return s.Source.Locks(ctx, after, limit) })
}
