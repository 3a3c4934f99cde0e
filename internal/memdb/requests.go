package memdb

import (
	"context"
	"sync"

	"github.com/cronlease/cronlease/store"
)

var (
	_ store.Heartbeats     = (*Store)(nil)
	_ store.RequestSignals = (*Store)(nil)
	_ store.Spreads        = (*Store)(nil)
)

// Beat implements [store.Heartbeats].
func (s *Store) Beat(ctx context.Context, owner string, heartbeat uint64, r store.Renewal, known uint64) (store.Beat, error) {
	if err := ctx.Err(); err != nil {
		return store.Beat{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.renew(store.Renew{Owner: owner, Heartbeat: heartbeat, Leases: []store.Renewal{r}}) == 0 {
		return store.Beat{}, nil
	}
	return store.Beat{Renewed: true, Asked: s.group(r.Group).Changes != known, Now: s.now(), Server: s.identity()}, nil
}

// ask wakes who waits for requests in the group. It is called with mu held.
func (s *Store) ask(group string) {
	if asked := s.asked[group]; asked != nil {
		close(asked)
		delete(s.asked, group)
	}
}

// Wake implements [store.Spreads].
func (s *Store) Wake(ctx context.Context, group string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.woken[group]++
	s.ask(group)
	return nil
}

// requestSignal waits for the next request in its group.
type requestSignal struct {
	store  *Store
	group  string
	token  uint64
	woken  int // when Wait returned last
	closed chan struct{}
	once   sync.Once
}

// RequestSignal implements [store.RequestSignals].
func (s *Store) RequestSignal(group string, token uint64) store.RequestSignal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &requestSignal{store: s, group: group, token: token, woken: s.woken[group], closed: make(chan struct{})}
}

// Wait implements [store.RequestSignal].
func (r *requestSignal) Wait(ctx context.Context, known *uint64) error {
	for {
		asked := r.next(known)
		if asked == nil {
			return ctx.Err()
		}
		select {
		case <-asked:
		case <-ctx.Done():
			return ctx.Err()
		case <-r.closed:
			return errClosed
		}
	}
}

// next returns what the next request closes; nil when there is one already.
func (r *requestSignal) next(known *uint64) <-chan struct{} {
	s := r.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.leases[r.group]; l.Token == r.token && l.ResignAsked || known != nil && s.group(r.group).Changes != *known || s.woken[r.group] != r.woken {
		r.woken = s.woken[r.group]
		return nil
	}
	asked, ok := s.asked[r.group]
	if !ok {
		asked = make(chan struct{})
		s.asked[r.group] = asked
	}
	return asked
}

// Close implements [store.RequestSignal].
func (r *requestSignal) Close() error {
	r.once.Do(func() { close(r.closed) })
	return nil
}
