package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

var _ store.PresenceSignal = (*signal)(nil)

// term is one that a signal has announced.
type term struct {
	group string
	token uint64
}

func (b *signal) key(token uint64) term {
	t := term{b.group, token}
	switch {
	case b.d.has("presence: ignores the group"):
		t.group = ""
	case b.d.has("presence: ignores the token"):
		t.token = 0
	case b.d.has("presence: ignores the highest bit"):
		t.token &^= 1 << 63
	case b.d.has("presence: ignores high bits"):
		t.token &= 1<<32 - 1
	}
	return t
}

func (b *signal) server() string {
	if b.d.has("presence: no server") {
		return ""
	}
	return fmt.Sprint("server", b.d.server)
}

func (b *signal) Announce(_ context.Context, token uint64, server string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.has && b.announced != nil && b.d.has("presence: a second Announce ends it") {
		b.hide(true)
		return nil
	}
	switch {
	case b.d.has("presence: never"):
		return nil
	case token > 1<<63 && b.d.has("presence: fails above 1<<63"):
		return errors.New("too large")
	case b.d.has("presence: not before the signal is had") && !b.has:
		return nil
	case b.announced != nil && *b.announced != b.key(token) && b.d.has("presence: a later term is ignored"):
		return nil
	case b.announced != nil && *b.announced != b.key(token) && !b.d.has("presence: an earlier term stays"):
		b.hide(true)
	}
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	if store.IsReplicaToken(token) && !b.d.has("presence: replicas are terms") {
		t := b.key(token)
		b.announced = &t
		b.d.present[t] = b
		return nil
	}
	if server != fmt.Sprint("server", b.d.server) && !b.d.has("presence: on any server") && (server != "" || !b.d.has("presence: on no server")) {
		return nil
	}
	t := b.key(token)
	b.announced = &t
	if b.has {
		b.d.present[t] = b
	}
	return nil
}

// show makes the announced term present. It is called with b.mu.
func (b *signal) show() {
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	if b.announced != nil {
		b.d.present[*b.announced] = b
	}
}

// hide makes the terms of the signal absent. It is called with b.mu.
func (b *signal) hide(forget bool) {
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	for t, of := range b.d.present {
		if of == b || b.d.has("presence: ends with any Pass") {
			delete(b.d.present, t)
		}
	}
	if forget {
		b.announced = nil
	}
}

func (b *signal) Present(ctx context.Context, token uint64) (bool, string, error) {
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	of := b.d.present[b.key(token)]
	there := of != nil
	switch {
	case b.d.has("presence: always"):
		there = true
	case b.d.has("presence: only for itself"):
		there = of == b
	case b.d.has("presence: not for itself"):
		there = there && of != b
	case b.d.has("presence: not while Wait waits") && b.waiting.Load():
		return false, "", errors.New("in use")
	}
	return there, b.server(), nil
}

// Enlist is as in [store.Replicas].
func (d *leaseDatabase) Enlist(_ context.Context, _ string, r jobs.Replica) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.enlisted = append(d.enlisted, r)
	return nil
}

// Roster is as in [store.Replicas].
func (d *leaseDatabase) Roster(context.Context, string, jobs.Roster) (r jobs.Roster, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.leases[group]; !l.Released {
		r.Leader = l.Owner
	}
	for _, x := range d.enlisted {
		if x.Owner != r.Leader || d.has("presence: the leader is absent") {
			if d.has("presence: older releases are absent") {
				x.List = jobs.FirstList
			}
			x.SetPresence(d.present[term{group, store.ReplicaToken(x.Owner)}] != nil)
		}
		r.Replicas = append(r.Replicas, x)
	}
	return r, nil
}
