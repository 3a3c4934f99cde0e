package storetest

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/cronlease/cronlease/store"
)

var signalCases = []leaseCase{
	{"signal/wakes the next when the lease is released", func(e *leaseEnv) {
		s, next := e.signals()
		for range 3 {
			holder := s.HandoverSignal(group)
			r := e.takeWithSignal(s, holder)
			found := e.waitForRelease(next, next.HandoverSignal(group))
			e.stillWaits(found)
			e.ok(s.Release(e.ctx(), group, alice, r.Lease.Token), "Release")
			e.ok(holder.Pass(e.ctx()), "Pass")
			e.given(found, "Wait until the lease is released")
			e.ok(holder.Close(), "Close")
		}
	}},

	{"signal/a holder's Close passes it", func(e *leaseEnv) {
		s, next := e.signals()
		holder := s.HandoverSignal(group)
		r := e.takeWithSignal(s, holder)
		found := e.waitForRelease(next, next.HandoverSignal(group))
		e.stillWaits(found)
		e.ok(s.Release(e.ctx(), group, alice, r.Lease.Token), "Release")
		e.ok(holder.Close(), "Close")
		e.given(found, "Wait until the lease is released")
	}},

	{"signal/one has it at a time", func(e *leaseEnv) {
		s, next := e.exclusiveSignals()
		holder, waiter, third := s.HandoverSignal(group), next.HandoverSignal(group), next.HandoverSignal(group)
		defer e.close(holder, waiter, third)
		e.takeWithSignal(s, holder)
		e.silent(waiter, "Wait while another has the signal")
		e.ok(waiter.Pass(e.ctx()), "Pass without the signal")
		e.silent(third, "Wait while another has the signal, and one without it has passed it")
		e.ok(holder.Pass(e.ctx()), "Pass")
		e.given(e.waitFor(waiter), "Wait for a signal that was passed")
		e.silent(third, "Wait while the next has the signal")
		e.silent(holder, "Wait by the caller that passed it")
	}},

	{"signal/Wait returns at once for the caller that has it", func(e *leaseEnv) {
		s, next := e.exclusiveSignals()
		holder, waiter := s.HandoverSignal(group), next.HandoverSignal(group)
		defer e.close(holder, waiter)
		e.takeWithSignal(s, holder)
		for range 3 {
			e.given(e.waitFor(holder), "Wait by the caller that has the signal")
		}
		e.silent(waiter, "Wait while another has asked whether it has the signal")
		e.ok(holder.Pass(e.ctx()), "Pass")
		e.given(e.waitFor(waiter), "Wait for a signal that was passed")
	}},

	{"signal/a closed store passes it", func(e *leaseEnv) {
		s, next := e.exclusiveSignals()
		store, ok := s.(io.Closer)
		if !ok {
			e.Skip("left out: the store has no Close")
		}
		waiter := next.HandoverSignal(group)
		defer e.close(waiter)
		e.takeWithSignal(s, s.HandoverSignal(group))
		found := e.waitFor(waiter)
		e.stillWaits(found)
		e.ok(store.Close(), "Close of the store")
		e.given(found, "Wait for the signal of a store that was closed")
	}},

	{"signal/a lost connection passes it", func(e *leaseEnv) {
		if e.h.LoseSignal == nil {
			e.Skip("left out: Harness.LoseSignal is nil")
		}
		s, next := e.exclusiveSignals()
		holder, waiter := s.HandoverSignal(group), next.HandoverSignal(group)
		defer e.close(holder, waiter)
		e.takeWithSignal(s, holder)
		found := e.waitFor(waiter)
		e.stillWaits(found)
		e.h.LoseSignal(e.TB, group)
		e.given(found, "Wait for the signal of a process that has died")
		e.silent(holder, "Wait by the caller that lost the signal")
	}},

	{"signal/each group has its own", func(e *leaseEnv) {
		s, next := e.exclusiveSignals()
		long := strings.Repeat("x", store.MaxName-1)
		for _, pair := range [][2]string{{"a", "b"}, {"a", "A"}, {long + "1", long + "2"}} {
			e.take(s, pair[0], alice)
			e.prepare(s, pair[1])
			one, other, same := s.HandoverSignal(pair[0]), next.HandoverSignal(pair[1]), next.HandoverSignal(pair[0])
			e.ok(one.Wait(e.ctx()), "Wait for the signal of "+pair[0])
			e.ok(other.Wait(e.ctx()), "Wait for the signal of "+pair[1]+" while another has that of "+pair[0])
			e.silent(same, "Wait for the signal of "+pair[0]+" while another has it")
			e.close(one, other, same)
		}
	}},

	{"signal/a context ends Wait", func(e *leaseEnv) {
		s, next := e.signals()
		holder, waiter := s.HandoverSignal(group), next.HandoverSignal(group)
		defer e.close(holder)
		r := e.takeWithSignal(s, holder)
		ctx, cancel := context.WithCancel(e.ctx())
		defer cancel()
		ended := e.waitForError(ctx, waiter)
		e.stillWaits(ended)
		cancel()
		if err := e.soon(ended); !errors.Is(err, context.Canceled) {
			e.Errorf("Wait after its context ended: error %v, want the context's", err)
		}
		// The signal still works after that.
		found := e.waitForRelease(next, waiter)
		e.ok(s.Release(e.ctx(), group, alice, r.Lease.Token), "Release")
		e.ok(holder.Pass(e.ctx()), "Pass")
		e.given(found, "Wait until the lease is released")
	}},

	{"signal/Close ends Wait", func(e *leaseEnv) {
		s, next := e.signals()
		holder, waiter := s.HandoverSignal(group), next.HandoverSignal(group)
		defer e.close(holder)
		r := e.takeWithSignal(s, holder)
		ended := e.waitForError(e.ctx(), waiter)
		e.stillWaits(ended)
		e.ok(waiter.Close(), "Close")
		if err := e.soon(ended); err == nil || errors.Is(err, context.DeadlineExceeded) {
			e.Errorf("Wait while the signal was closed: error %v, want one of the signal's own", err)
		}
		e.ok(s.Release(e.ctx(), group, alice, r.Lease.Token), "Release")
		e.ok(holder.Pass(e.ctx()), "Pass")
		for range 10 {
			if err := waiter.Wait(e.ctx()); err == nil {
				e.Fatalf("Wait after Close has no error")
			}
		}
		// A closed signal does not keep other waiters from the next signal.
		third := next.HandoverSignal(group)
		defer e.close(third)
		e.given(e.waitFor(third), "Wait for a signal that was passed, after another was closed")
	}},

	{"signal/closed before its first use", func(e *leaseEnv) {
		s, _ := e.signals()
		b := s.HandoverSignal(group)
		e.ok(b.Pass(e.ctx()), "Pass before Wait")
		e.ok(b.Close(), "Close before Wait")
		if err := b.Wait(e.ctx()); err == nil {
			e.Errorf("Wait after Close has no error")
		}
	}},
}

// signaller is a store that has hand-over signals.
type signaller interface {
	store.Leases
	store.HandoverSignals
}

// signals returns the stores of a holder and of a replica that waits.
func (e *leaseEnv) signals() (signaller, signaller) {
	e.Helper()
	s, ok := e.open().(signaller)
	if !ok {
		e.Skip("left out: the store has no signals")
	}
	return s, e.open().(signaller)
}

func (e *leaseEnv) exclusiveSignals() (signaller, signaller) {
	e.Helper()
	if e.h.SignalsAll {
		e.Skip("left out: Harness.SignalsAll says that several can have the signal")
	}
	return e.signals()
}

// takeWithSignal takes the group as alice, after waiting for the signal.
func (e *leaseEnv) takeWithSignal(s store.Leases, b store.HandoverSignal) store.Reading {
	e.Helper()
	e.prepare(s, group)
	if l := e.row(s, group).Lease; !l.Released {
		e.ok(s.Release(e.ctx(), group, l.Owner, l.Token), "Release")
	}
	e.given(e.waitFor(b), "Wait for a free signal of a free lease")
	return e.take(s, group, alice)
}

// waitFor waits for the signal once.
func (e *leaseEnv) waitFor(b store.HandoverSignal) <-chan error {
	ctx := e.ctx()
	found := make(chan error, 1)
	go func() { found <- b.Wait(ctx) }()
	return found
}

// given says that a Wait ends because the signal is given.
func (e *leaseEnv) given(found <-chan error, what string) {
	e.Helper()
	err := <-found
	if err != nil && e.ctx().Err() != nil {
		e.Fatalf("%s: the signal was not given within %v, Harness.Patience (%v)", what, e.h.Patience, err)
	}
	e.ok(err, what)
}

// waitForRelease waits for the signal until the row says that the lease is
// released: a signal may be given for nothing. It passes and closes the signal.
func (e *leaseEnv) waitForRelease(s store.Leases, b store.HandoverSignal) <-chan error {
	ctx := e.ctx()
	found := make(chan error, 1)
	go func() {
		defer func() { _ = b.Close() }()
		for {
			if err := b.Wait(ctx); err != nil {
				found <- err
				return
			}
			rs, err := s.Read(ctx, group)
			if err == nil && len(rs) == 1 && rs[0].Lease != nil && !rs[0].Lease.Released {
				err = b.Pass(ctx)
				if err == nil {
					continue
				}
			}
			found <- err
			return
		}
	}()
	return found
}

// waitForError waits for the signal, again when it is given, until Wait fails.
func (e *leaseEnv) waitForError(ctx context.Context, b store.HandoverSignal) <-chan error {
	ended := make(chan error, 1)
	go func() {
		for {
			over := ctx.Err() != nil
			err := b.Wait(ctx)
			switch {
			case err == nil && over:
				err = errors.New("none, after the context ended")
			case err == nil:
				err = b.Pass(ctx)
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	return ended
}

// stillWaits gives a Wait a moment to begin.
func (e *leaseEnv) stillWaits(ended <-chan error) {
	e.Helper()
	select {
	case err := <-ended:
		e.Fatalf("Wait failed: %v", err)
	case <-time.After(moment):
	}
}

func (e *leaseEnv) soon(ended <-chan error) error {
	e.Helper()
	select {
	case err := <-ended:
		return err
	case <-e.ctx().Done():
		e.Fatalf("Wait has not ended")
		return nil
	}
}

// silent says that the signal is not given to b.
func (e *leaseEnv) silent(b store.HandoverSignal, what string) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), moment)
	defer cancel()
	if err := b.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		e.Errorf("%s: error %v, want the context's", what, err)
	}
}

func (e *leaseEnv) close(signals ...store.HandoverSignal) {
	for _, b := range signals {
		e.ok(b.Close(), "Close")
	}
}
