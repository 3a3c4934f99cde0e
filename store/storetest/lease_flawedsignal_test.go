package storetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cronlease/cronlease/store"
)

// signal is one of a database.
type signal struct {
	d      *leaseDatabase
	s      *leaseReplica
	group  string
	line   chan struct{}
	closed chan struct{}

	waiting atomic.Bool

	mu        sync.Mutex
	has       bool
	shut      bool
	spent     bool
	announced *term
}

func (s *leaseReplica) HandoverSignal(group string) store.HandoverSignal {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := group
	switch {
	case s.has("signal: one for all groups"):
		name = ""
	case s.has("signal: one for groups that differ by case"):
		name = strings.ToLower(name)
	case s.has("signal: one for groups that differ at the end"):
		name = name[:min(len(name), 64)]
	}
	if s.leaseDatabase.signals[name] == nil {
		s.leaseDatabase.signals[name] = make(chan struct{}, 1)
	}
	b := &signal{d: s.leaseDatabase, s: s, group: group, line: s.leaseDatabase.signals[name], closed: make(chan struct{})}
	s.signals = append(s.signals, b)
	return b
}

func (b *signal) Wait(ctx context.Context) error {
	if b.d.has("signal: given to all") {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.shut {
			return errors.New("closed")
		}
		return ctx.Err()
	}
	done, closed := ctx.Done(), b.closed
	if b.d.has("signal: Wait ignores the context") {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 1500*time.Millisecond) // longer than the test's patience
		defer cancel()
		done = ctx.Done()
	}
	if b.d.has("signal: Close does not end Wait") {
		closed = nil
	}
	b.mu.Lock()
	shut, has, spent, announced := b.shut, b.has, b.spent, b.announced
	b.mu.Unlock()
	if shut && !b.d.has("signal: Wait goes on after Close") && !b.d.has("signal: a closed signal stays in line") {
		return errors.New("closed")
	}
	switch {
	case has && b.d.has("signal: Wait passes it"):
		return errors.Join(b.Pass(ctx), ctx.Err())
	case has && !b.d.has("signal: Wait blocks for its own holder"):
		return ctx.Err()
	}
	if spent {
		return errors.New("unusable")
	}
	if shut {
		closed = nil
	}
	b.waiting.Store(true)
	defer b.waiting.Store(false)
	line := b.line
	if b.d.has("signal: never given") && len(line) > 0 {
		line = nil
	}
	select {
	case line <- struct{}{}:
		b.mu.Lock()
		defer b.mu.Unlock()
		if shut && b.d.has("signal: a closed signal stays in line") {
			return errors.New("closed")
		}
		b.has = true
		b.d.mu.Lock()
		b.d.had[b.group] = b
		b.d.mu.Unlock()
		if b.d.has("presence: Announce during Wait is lost") {
			b.announced = announced
		}
		if !b.d.has("presence: not with Wait") {
			b.show()
		}
		return nil
	case <-done:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.spent = b.d.has("signal: unusable after a context")
		return ctx.Err()
	case <-closed:
		return errors.New("closed")
	}
}

func (b *signal) Pass(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.d.has("signal: Pass fails before Wait") && !b.has {
		return errors.New("no signal")
	}
	if !b.d.has("presence: stays after Pass") && (b.has || !b.d.has("presence: Pass without the signal leaves it")) {
		b.hide(!b.d.has("presence: comes back with the signal"))
	}
	if b.has || b.d.has("signal: Pass by anybody") {
		b.leave()
	}
	return nil
}

func (b *signal) leave() {
	b.has = false
	select {
	case <-b.line:
	default: // another caller passed it
	}
}

func (b *signal) Close() error {
	if !b.d.has("signal: Close does not pass") {
		b.mu.Lock()
		if b.has {
			b.leave()
		}
		if !b.d.has("presence: stays after Close") {
			b.hide(true)
		}
		b.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.shut {
		b.shut = true
		close(b.closed)
	}
	return nil
}

func (b *signal) Release(ctx context.Context, owner string, token uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.has {
		if b.d.has("handover: Release without the signal") {
			return b.s.Release(ctx, b.group, owner, token)
		}
		return errors.New("no signal")
	}
	b.d.mu.Lock()
	row := b.d.leases[b.d.key(b.group)]
	b.d.mu.Unlock()
	if b.d.has("handover: Release ignores the owner") && owner != "" {
		owner = row.Owner
	}
	if b.d.has("handover: Release ignores the token") {
		token = row.Token
	}
	if !b.d.has("handover: Release does not release") {
		if err := b.s.Release(ctx, b.group, owner, token); err != nil {
			if b.d.has("handover: Release passes when it is refused") {
				b.leave()
			}
			return err
		}
	}
	switch {
	case b.d.has("handover: Release does not pass"), row.Released && b.d.has("handover: Release of a released lease does not pass"):
	default:
		b.leave()
	}
	if !b.d.has("presence: stays after Release") {
		b.hide(true)
	}
	return nil
}

func (b *signal) Take(ctx context.Context, a store.Acquire) (uint64, error) {
	b.d.mu.Lock()
	l, f := b.d.leases[b.d.key(a.Read.Group)], b.d.fences[b.d.key(a.Read.Group)]
	b.d.mu.Unlock()
	if a.Read.Lease == nil || a.Read.Fence == nil || !b.d.or("take: ignores released", l.Released) ||
		!b.d.same(l.Token, a.Read.Lease.Token, "take", "lease token") || !b.d.same(f.Token, a.Read.Fence.Token, "take", "fence token") ||
		!b.d.or("take: ignores an older heartbeat", l.Heartbeat >= a.Read.Lease.Heartbeat) ||
		b.d.has("take: compares the heartbeat") && l.Heartbeat != a.Read.Lease.Heartbeat {
		return 0, store.ErrChanged
	}
	if b.d.has("take: ignores the session") {
		a.Read.Session = b.s.session(b.s.number)
	}
	if b.d.has("take: ignores the floor") {
		a.Floor = 0
	}
	if b.d.has("take: leaves the TTL") {
		a.TTL = l.TTL
	}
	if b.d.has("take: keeps the heartbeat") {
		a.Heartbeat = l.Heartbeat
	}
	a.Read.Lease, a.Read.Fence = &l, &f
	token, err := b.s.Acquire(ctx, a)
	if err == nil && b.d.has("take: leaves the fence") {
		b.d.mu.Lock()
		b.d.fences[b.d.key(a.Read.Group)] = f
		b.d.mu.Unlock()
	}
	return token, err
}
