package redisstore

import (
	"context"
	"fmt"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/waiting"
)

var (
	_ store.Heartbeats     = (*Store)(nil)
	_ store.RequestSignals = (*Store)(nil)
)

var (
	beatScript     = newScript("beat")
	requestsScript = newScript("requests")
	wakeScript     = newScript("wake")
)

// Beat implements [store.Heartbeats].
func (s *Store) Beat(ctx context.Context, owner string, heartbeat uint64, r store.Renewal, known uint64) (store.Beat, error) {
	if owner == "" {
		return store.Beat{}, ctx.Err()
	}
	answer, err := s.run(ctx, "renew", beatScript, r.Group, owner, heartbeat, r.Token, r.Heartbeat, flag(r.ResignAsked))
	if err != nil || answer == nil {
		return store.Beat{}, err
	}
	f := &fields{doing: "renew"}
	f.values = f.array(answer)
	b := store.Beat{Renewed: true, Asked: f.number() != known, Now: f.instant(), Server: f.text()}
	return b, f.err
}

// Wake implements [store.Spreads].
func (s *Store) Wake(ctx context.Context, group string) error {
	_, err := s.run(ctx, "wake", wakeScript, group)
	return err
}

// requestSignal listens to the channel of a group, to which each request is told, and each Wake.
type requestSignal struct {
	*waiting.Closer
	store *Store
	group string
	token uint64
}

// RequestSignal implements [store.RequestSignals].
func (s *Store) RequestSignal(group string, token uint64) store.RequestSignal {
	return &requestSignal{waiting.New(s.closing, "redisstore: wait for requests"), s, group, token}
}

// Wait implements [store.RequestSignal].
func (r *requestSignal) Wait(ctx context.Context, known *uint64) error {
	return r.Until(ctx, func(ctx context.Context) error { return r.wait(ctx, known) })
}

func (r *requestSignal) wait(ctx context.Context, known *uint64) error {
	l, err := r.store.topics.listen(ctx, r.store.key("asked", r.group))
	if err != nil {
		return fmt.Errorf("redisstore: wait for requests: %w", err)
	}
	defer l.stop()
	for woken := false; ; woken = true {
		f, err := r.store.fieldsOf(ctx, "wait for requests", requestsScript, r.group, r.token)
		if err != nil {
			return err
		}
		resign, number := f.text(), f.number()
		// What has woken a term that was not replaced is worth a look: Wake leaves nothing else behind.
		if f.err != nil || resign == "1" || known != nil && number != *known || woken && resign != "" {
			return f.err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.woken:
		}
	}
}
