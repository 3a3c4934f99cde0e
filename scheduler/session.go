package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/settings"
	"github.com/cronlease/cronlease/internal/stream"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// sessions are those of this replica, one after the other: leases of its own, under which it runs what the leader assigns to
// it. A change of leader does not touch them.
type sessions struct {
	s        *Scheduler
	db       store.Spreads
	keeper   *keeper.Keeper      // of the group's election, too
	election *election.Election  // of the session's lease, for which only this replica contends
	current  atomic.Pointer[env] // of the session; nil while there is none
	assigned signal              // has the session look at what it was assigned: the leader is in this process
}

func newSessions(s *Scheduler, set settings.Election) (*sessions, error) {
	db, ok := s.db.(store.Spreads)
	if !ok {
		return nil, errors.New("scheduler: WithSpread: this store cannot spread runs over replicas")
	}
	m := &sessions{s: s, db: db, keeper: set.Shared, assigned: make(signal, 1)}
	own := settings.Election{Shared: set.Shared, Leave: m.leave, Heeds: true}
	own.Keeper.Logger = zap.NewNop() // what it would tell is of no group
	own.Keeper.Events = stream.New(own.Keeper.Logger)
	var err error
	// No other replica waits for this lease, so it needs no signal to hand it over.
	m.election, err = election.New(struct{ store.Leases }{db}, store.SessionGroup(set.Shared.Owner()), func(e *settings.Election) { *e = own })
	return m, err
}

// keep has the leases of this replica renewed until stop is called.
func (m *sessions) keep(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		_ = m.keeper.Run(ctx)
	}()
	return func() {
		cancel()
		<-kept
	}
}

// run keeps a session until ctx ends, but for the drain.
func (m *sessions) run(ctx context.Context) error { return m.election.Run(ctx, m.serve) }

func (m *sessions) leave(ctx context.Context, why error) { m.s.leaveTerm(ctx, m.current.Load(), why) }

// serve is one session: it runs what this replica is given, until ctx ends.
func (m *sessions) serve(ctx context.Context, held election.Term) error {
	t := newTerm(ctx, held, m.s, serves)
	t.load, t.reader.look = m.load(t.env), m.assigned
	defer t.trouble.End()
	defer t.cut(nil)
	go t.dog.Watch(t.ctx, held)
	var snapshot jobs.Snapshot
	err := t.retry(t.ctx, "read what is assigned", func(ctx context.Context) (err error) {
		snapshot, err = t.load(ctx, false)
		return err
	})
	if err != nil {
		t.abandon()
		return nil
	}
	m.current.Store(t.env)
	defer m.current.Store(nil)
	t.wrote.server, t.wrote.home = snapshot.Server, snapshot.Home()
	t.apply(snapshot)
	m.s.crew.Look()
	m.wakeLeader()
	t.loop(nil)
	if cause := context.Cause(t.ctx); errors.Is(cause, election.ErrLost) || errors.Is(cause, election.ErrStuck) {
		t.log.Warn("the session of this replica was lost, and what it was running has ended: it begins another one", zap.NamedError("cause", cause))
	}
	if ctx.Err() == nil {
		return context.Cause(t.ctx)
	}
	return nil
}

// load returns what reads the runs that are open under a session.
func (m *sessions) load(v *env) func(context.Context, bool) (jobs.Snapshot, error) {
	return func(ctx context.Context, _ bool) (snapshot jobs.Snapshot, err error) {
		err = v.stream.Timed(v.head(), "open", 0, func() (err error) {
			snapshot, err = m.db.Open(ctx, v.holder.Group, v.holder.Owner)
			return err
		})
		snapshot.Open = slices.DeleteFunc(snapshot.Open, func(r jobs.Record) bool { return r.Token != v.holder.Token })
		// What is asked of the group is the leader's to heed.
		snapshot.Changes, snapshot.Paused, snapshot.Opened = 0, false, jobs.Opened{Token: v.holder.Token}
		return snapshot, err
	}
}
