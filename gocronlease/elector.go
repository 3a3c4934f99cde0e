package gocronlease

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

var _ gocron.Elector = (*Elector)(nil)

// ErrNotLeading is the answer of an [Elector] on a replica that does not lead.
var ErrNotLeading = election.ErrNotLeading

// Elector is a [gocron.Elector] over an election. It is safe for concurrent use.
type Elector struct {
	group string
	done  chan struct{} // closed when the campaign has ended
	err   error         // of the campaign; set before done is closed

	mu   sync.Mutex
	term *term // nil while this replica does not lead
}

// term is one term and the work that runs under it.
type term struct {
	election.Term
	ctx  context.Context
	work sync.WaitGroup // added to under Elector.mu, while the term is the present one
}

// NewElector campaigns for the group until ctx ends, in the background. The
// error names the option that does not fit. [Elector.Wait] waits for the end.
func NewElector(ctx context.Context, leases store.Leases, group string, options ...election.Option) (*Elector, error) {
	campaign, err := election.New(leases, group, options...)
	if err != nil {
		return nil, err
	}
	e := &Elector{group: group, done: make(chan struct{})}
	go func() {
		e.err = campaign.Run(ctx, e.lead)
		close(e.done)
	}()
	return e, nil
}

// lead is one term.
func (e *Elector) lead(ctx context.Context, t election.Term) error {
	present := &term{Term: t, ctx: ctx}
	e.set(present)
	<-ctx.Done()
	e.set(nil)
	present.work.Wait() // the lease is released after that
	return nil
}

func (e *Elector) set(t *term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term = t
}

// IsLeader implements [gocron.Elector]: it returns nil when this replica leads at
// this moment, by its own clocks, and otherwise an error that matches
// [ErrNotLeading]. It sends no statement.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term == nil || !e.term.Trusted() {
		return e.notLeading()
	}
	return nil
}

func (e *Elector) notLeading() error { return fmt.Errorf("%w %q", ErrNotLeading, e.group) }

// Do runs f as a part of the present term, which is what the function of a gocron
// job does with its work: the context that f gets ends with ctx and when the
// leadership is lost, with a cause that says why, and fence.Do knows its token. The
// lease is not released before f has returned. On a replica that does not
// lead, Do returns an error that matches [ErrNotLeading] and does not call f.
func (e *Elector) Do(ctx context.Context, f func(context.Context, election.Term) error) error {
	e.mu.Lock()
	t := e.term
	if t == nil || !t.Trusted() {
		e.mu.Unlock()
		return e.notLeading()
	}
	if f == nil {
		e.mu.Unlock()
		return errors.New("gocronlease: Do: the function is nil")
	}
	t.work.Add(1)
	e.mu.Unlock()
	defer t.work.Done()

	working, cancel := context.WithCancelCause(lease.WithHold(ctx, lease.Holds(t.ctx)...))
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })()
	return f(working, t.Term)
}

// Wait waits until the campaign has ended, because the context of [NewElector]
// did and the lease was given back, or with the error that says why the
// database is unfit; or until ctx ends.
func (e *Elector) Wait(ctx context.Context) error {
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
		return errors.Join(errors.New("gocronlease: the campaign has not ended"), context.Cause(ctx))
	}
}
