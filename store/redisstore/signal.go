package redisstore

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

var presentScript = newScript("present")

// A waiting signal asks now and then whether the leader is at the other end of its connection, since the server tells
// nobody when a connection ends: each presentPart of the lease's TTL, which is a second by default, and no more often
// than presentLeast.
const (
	presentPart  = 15
	presentLeast = 200 * time.Millisecond
	presentFree  = time.Second // while there is no leader
	presentOwn   = time.Minute // while it is this process
)

// leaveMost is how long the server may take to confirm that a term is not shown any more. A lost connection never does.
const leaveMost = time.Second

// signal listens to the channel of a group, to which a release is told. It wakes all waiters.
type signal struct {
	store  *Store
	group  string
	closer *waiting.Closer

	waiting sync.Mutex  // held by Wait, with what follows
	woke    store.Lease // what it woke the waiter for last
	met     uint64      // the token of a term that it saw present

	mu    sync.Mutex
	shown *listener // listens to the channel of a term, which shows that the term is present
	term  uint64    // that it shows
}

// HandoverSignal implements [store.HandoverSignals]. A release wakes every waiter at once, and so does, within a fifteenth of the
// lease's TTL or a fifth of a second, whichever is longer, the end of the connection of a leader that was announced.
func (s *Store) HandoverSignal(group string) store.HandoverSignal {
	return &signal{store: s, group: group, closer: waiting.New(s.closing, "redisstore: wait for the hand-over signal")}
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
	l, err := b.store.topics.listen(ctx, b.store.key("free", b.group))
	if err != nil {
		return fmt.Errorf("redisstore: wait for the hand-over signal: %w", err)
	}
	defer l.stop()
	var held *store.Lease // nil: it is free
	for read := true; ; {
		if read {
			wake, is, err := b.look(ctx)
			if wake || err != nil {
				return err
			}
			held = is
		}
		if left, err := b.left(ctx, held); left || err != nil {
			return err
		}
		if read, err = b.rest(ctx, l, held); err != nil {
			return err
		}
	}
}

// rest returns when it is time to look again, and whether at the lease too. The leader waits for releases, and sees now
// and then whether it has been replaced without one.
func (b *signal) rest(ctx context.Context, l *listener, held *store.Lease) (read bool, err error) {
	every := presentFree
	if held != nil {
		every = max(held.TTL/presentPart, presentLeast)
		if b.shows(held.Token) {
			every = presentOwn
		}
	}
	look := time.NewTimer(every)
	defer look.Stop()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-l.woken:
		return true, nil
	case <-look.C:
		return b.met == 0 || every == presentOwn, nil
	}
}

// shows reports whether this process shows a term.
func (b *signal) shows(term uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shown != nil && b.term == term
}

// look reports whether to wake the waiter, as the lease is free, and the lease otherwise.
func (b *signal) look(ctx context.Context) (wake bool, held *store.Lease, err error) {
	rs, err := b.store.Read(ctx, b.group)
	if err != nil {
		return false, nil, err
	}
	var now store.Lease
	if l := rs[0].Lease; l != nil && !l.Released {
		b.woke = store.Lease{}
		return false, l, nil
	} else if l != nil {
		now = *l
	} else {
		now.Released = true
	}
	wake = now != b.woke
	b.woke = now
	return wake, nil, nil
}

// left reports, once, that the term was present and is not any more.
func (b *signal) left(ctx context.Context, held *store.Lease) (bool, error) {
	if held == nil {
		return false, nil
	}
	term := held.Token
	present, _, err := b.Present(ctx, term)
	if err != nil {
		return false, err
	}
	left := !present && b.met == term
	b.met = 0
	if present {
		b.met = term
	}
	return left, nil
}

// channel is the one that a process listens to which shows a term on a server.
func (b *signal) channel(token uint64, server string) string {
	if store.IsReplicaToken(token) {
		server = ""
	}
	return b.store.key("present", fmt.Sprintf("%s:%d:%s", b.group, token, server))
}

// Announce implements [store.PresenceSignal].
func (b *signal) Announce(ctx context.Context, token uint64, server string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.closer.Closed(); err != nil {
		return err
	}
	channel := b.channel(token, server)
	if b.shown != nil && b.shown.channel == channel {
		return nil
	}
	if err := b.hide(ctx); err != nil {
		return err
	}
	l, err := b.store.topics.listen(ctx, channel)
	if err != nil {
		return fmt.Errorf("redisstore: announce a term: %w", err)
	}
	b.shown, b.term = l, token
	return nil
}

// Present implements [store.PresenceSignal]. A process that listens on another server listens to the name of that server's channel.
func (b *signal) Present(ctx context.Context, token uint64) (present bool, server string, err error) {
	f, err := b.store.fieldsOf(ctx, "look for the leader's connection", presentScript, b.channel(token, ""))
	if err != nil {
		return false, "", err
	}
	present, server = f.number() > 0, f.text()
	return present, server, f.err
}

// Pass implements [store.HandoverSignal]. It only ends what Announce has begun.
func (b *signal) Pass(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hide(ctx)
}

// hide returns when the server does not show the term any more, or when its connection was
// lost, by which it does not either.
func (b *signal) hide(ctx context.Context) error {
	if b.shown == nil {
		return nil
	}
	left := b.shown.stop()
	b.shown = nil
	if left == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaveMost)
	defer cancel()
	select {
	case <-left:
		return nil
	case <-b.store.closing.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("redisstore: pass the hand-over signal: %w", ctx.Err())
	}
}

// Close implements [store.HandoverSignal].
func (b *signal) Close() error {
	_ = b.closer.Close() // never fails
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shown != nil {
		b.shown.stop()
		b.shown = nil
	}
	return nil
}
