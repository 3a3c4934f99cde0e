package zkstore

import (
	"context"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/waiting"
)

var (
	_ store.Heartbeats     = (*Store)(nil)
	_ store.RequestSignals = (*Store)(nil)
)

// Beat implements [store.Heartbeats]. The number is read after the renewal, from the server that has confirmed it.
func (s *Store) Beat(ctx context.Context, owner string, heartbeat uint64, r store.Renewal, known uint64) (store.Beat, error) {
	if owner == "" {
		return store.Beat{}, ctx.Err()
	}
	renewed, st, err := s.renew(ctx, owner, heartbeat, []store.Renewal{r})
	if err != nil || renewed == 0 {
		return store.Beat{}, failed("renew", err)
	}
	number, err := s.changes(ctx, r.Group)
	if err != nil {
		return store.Beat{}, failed("renew", err)
	}
	return store.Beat{Renewed: true, Asked: number != known, Now: st.now, Server: st.server}, nil
}

// requestSignal watches the node that each request in a group writes.
type requestSignal struct {
	*waiting.Closer
	store *Store
	group string
	token uint64
	seen  int64 // the zxid of the node at the last look; -1: there was none
}

// RequestSignal implements [store.RequestSignals].
func (s *Store) RequestSignal(group string, token uint64) store.RequestSignal {
	return &requestSignal{waiting.New(s.closing, "zkstore: wait for requests"), s, group, token, -1}
}

// Wake implements [store.Spreads].
func (s *Store) Wake(ctx context.Context, group string) error {
	return failed("wake a holder", repeat(func() error {
		n, err := s.get(ctx, s.path("asked", group))
		if err != nil {
			return err
		}
		_, _, err = s.settle(ctx, anyServer, s.put(n, n.data))
		return err
	}))
}

// Wait implements [store.RequestSignal].
func (r *requestSignal) Wait(ctx context.Context, known *uint64) error {
	return r.Until(ctx, func(ctx context.Context) error { return r.wait(ctx, known) })
}

func (r *requestSignal) wait(ctx context.Context, known *uint64) error {
	for {
		asked, err := r.store.link.watch(ctx, r.store.path("asked", r.group))
		if err != nil {
			return failed("wait for requests", err)
		}
		n, err := r.store.get(ctx, r.store.path("leases", r.group))
		if err != nil {
			return failed("wait for requests", err)
		}
		l, err := r.store.leaseOf(n)
		if err != nil {
			return err
		}
		is, err := r.store.get(ctx, r.store.path("asked", r.group))
		if err != nil {
			return failed("wait for requests", err)
		}
		number, err := changesOf(is)
		if err != nil {
			return failed("wait for requests", err)
		}
		seen := int64(0)
		if is.stat != nil {
			seen = is.stat.Mzxid
		}
		woken := r.seen >= 0 && r.seen != seen
		r.seen = seen
		if l != nil && l.Token == r.token && (l.ResignAsked || woken) || known != nil && number != *known {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-asked:
		}
	}
}
