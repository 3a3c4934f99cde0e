package zkstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/waiting"
)

var (
	_ store.HandoverSignals = (*Store)(nil)
	_ store.PresenceSignal  = (*signal)(nil)
)

// hideMost is how long a signal that is closed may take to end what it shows. The end of the session does so too.
const hideMost = time.Second

// signal watches the node that each release of a group's lease writes, and that of its leader's session. It wakes all waiters.
type signal struct {
	store  *Store
	group  string
	closer *waiting.Closer

	waiting sync.Mutex  // held by Wait, with what follows
	woke    store.Lease // what it woke the waiter for last
	met     uint64      // the token of a term that it saw present

	mu    sync.Mutex
	shown string // the path of the node that shows a term; empty: none
}

// HandoverSignal implements [store.HandoverSignals]. A release wakes every waiter at once, and so does the end of the
// session of a leader that was announced: at once if it ended it, and else after the session's timeout.
func (s *Store) HandoverSignal(group string) store.HandoverSignal {
	return &signal{store: s, group: group, closer: waiting.New(s.closing, "zkstore: wait for the hand-over signal")}
}

// Wait implements [store.HandoverSignal].
func (b *signal) Wait(ctx context.Context) error {
	b.waiting.Lock()
	defer b.waiting.Unlock()
	if err := b.closer.Closed(); err != nil {
		return err
	}
	return b.closer.Until(ctx, b.wait)
}

func (b *signal) wait(ctx context.Context) error {
	for {
		free, err := b.store.link.watch(ctx, b.store.path("free", b.group))
		if err != nil {
			return failed("wait for the hand-over signal", err)
		}
		wake, term, server, err := b.look(ctx)
		if wake || err != nil {
			return err
		}
		var leader <-chan struct{}
		if term != 0 {
			if leader, err = b.store.link.watch(ctx, b.node(term, server)); err != nil {
				return failed("wait for the hand-over signal", err)
			}
			present, err := b.present(ctx, term, server)
			if err != nil {
				return err
			}
			left := !present && b.met == term
			b.met = 0
			if present {
				b.met = term
			}
			if left {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-free:
		case <-leader:
		}
	}
}

// look reports whether to wake the waiter, as the lease is free, and otherwise the token of the term that holds it.
func (b *signal) look(ctx context.Context) (wake bool, term uint64, server string, err error) {
	n, err := b.store.get(ctx, b.store.path("leases", b.group))
	if err != nil {
		return false, 0, "", failed("wait for the hand-over signal", err)
	}
	l, err := b.store.leaseOf(n)
	if err != nil {
		return false, 0, "", err
	}
	if l != nil && !l.Released {
		b.woke = store.Lease{}
		id, err := b.store.known(ctx)
		if err != nil {
			return false, 0, "", failed("wait for the hand-over signal", err)
		}
		return false, l.Token, id.text, nil
	}
	now := store.Lease{Released: true}
	if l != nil {
		now = *l
	}
	wake = now != b.woke
	b.woke = now
	return wake, 0, "", nil
}

// node is the path of the node that shows a term on a server.
func (b *signal) node(token uint64, server string) string {
	return b.store.presence(b.group, token, server)
}

func (s *Store) presence(group string, token uint64, server string) string {
	if store.IsReplicaToken(token) {
		server = ""
	}
	return s.path("present", fmt.Sprintf("%s~%d~%s", group, token, server))
}

// Announce implements [store.PresenceSignal]. The node comes back with the next session of the store.
func (b *signal) Announce(ctx context.Context, token uint64, server string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.closer.Closed(); err != nil {
		return err
	}
	if _, err := b.store.known(ctx); err != nil {
		return failed("announce a term", err)
	}
	path := b.node(token, server)
	if b.shown != path {
		if err := b.hide(ctx); err != nil {
			return err
		}
	}
	b.shown = path
	return failed("announce a term", b.store.link.show(ctx, path, b.store.acl))
}

// Present implements [store.PresenceSignal].
func (b *signal) Present(ctx context.Context, token uint64) (present bool, server string, err error) {
	st, err := b.store.tick(ctx)
	if err != nil {
		return false, "", failed("look for the leader's session", err)
	}
	present, err = b.present(ctx, token, st.server)
	return present, st.server, err
}

func (b *signal) present(ctx context.Context, token uint64, server string) (bool, error) {
	n, err := b.store.get(ctx, b.node(token, server))
	return n.stat != nil, failed("look for the leader's session", err)
}

// Pass implements [store.HandoverSignal]. It only ends what Announce has begun.
func (b *signal) Pass(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hide(ctx)
}

func (b *signal) hide(ctx context.Context) error {
	if b.shown == "" {
		return nil
	}
	path := b.shown
	b.shown = ""
	return failed("pass the hand-over signal", b.store.link.hide(ctx, path))
}

// Close implements [store.HandoverSignal].
func (b *signal) Close() error {
	_ = b.closer.Close() // never fails
	b.mu.Lock()
	defer b.mu.Unlock()
	ctx, cancel := context.WithTimeout(b.store.closing, hideMost)
	defer cancel()
	_ = b.hide(ctx) // the node ends with the session otherwise
	return nil
}
