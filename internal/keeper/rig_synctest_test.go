package keeper_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// rig is one replica inside a bubble: a keeper that runs until the test ends,
// on a link of its own.
type rig struct {
	*keeper.Keeper
	t     *testing.T
	store *memdb.Store
	link  *faulty.Store
	sizes *sizes
}

// sizes is a store that notes how many leases each renewal was for.
type sizes struct {
	store.Leases
	mu  sync.Mutex // late statements run beside others
	all []int
}

func (s *sizes) Renew(ctx context.Context, r store.Renew) (int, error) {
	s.mu.Lock()
	s.all = append(s.all, len(r.Leases))
	s.mu.Unlock()
	return s.Leases.Renew(ctx, r)
}

// bubble runs a test of rigs in parallel with others and in no time.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

func newRig(t *testing.T, store *memdb.Store, config ...keeper.Config) *rig {
	t.Helper()
	r := stoppedRig(t, store, config...)
	go func() { _ = r.Run(t.Context()) }()
	synctest.Wait()
	return r
}

// stoppedRig is a rig whose keeper does not run.
func stoppedRig(t *testing.T, store *memdb.Store, config ...keeper.Config) *rig {
	t.Helper()
	n := &sizes{Leases: store}
	l := faulty.New(n)
	l.Ended = true
	var c keeper.Config
	if len(config) > 0 {
		c = config[0]
	}
	k, err := keeper.New(l, c)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{Keeper: k, t: t, store: store, link: l, sizes: n}
}

func (r *rig) candidate(group string) *keeper.Candidate {
	r.t.Helper()
	c, err := r.Candidate(group)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// takes has the candidate take the lease now.
func (r *rig) takes(c *keeper.Candidate) *keeper.Held {
	r.t.Helper()
	held, wait, err := c.Look(r.t.Context())
	if held == nil {
		r.t.Fatalf("the lease is not taken: wait %v, %v", wait, err)
	}
	return held
}

func (r *rig) hold(group string) *keeper.Held {
	r.t.Helper()
	return r.takes(r.candidate(group))
}

// waits looks and returns how long the candidate then waits.
func (r *rig) waits(c *keeper.Candidate) time.Duration {
	r.t.Helper()
	held, wait, err := c.Look(r.t.Context())
	if held != nil || err != nil {
		r.t.Fatalf("held %v, error %v, want neither", held, err)
	}
	return wait
}

func (r *rig) row(group string) store.Lease {
	r.t.Helper()
	readings, err := r.store.Read(context.WithoutCancel(r.t.Context()), group)
	if err != nil || readings[0].Lease == nil {
		r.t.Fatalf("no row of %q: %v", group, err)
	}
	return *readings[0].Lease
}

// change changes the lease row directly, as no Store method would.
func (r *rig) change(group string, f func(l *store.Lease)) {
	r.store.Update(group, func(l *store.Lease, fence *store.Fence) (*store.Lease, *store.Fence) {
		f(l)
		return l, fence
	})
}

// lost checks that a term is over, and that its cause says why.
func lost(t *testing.T, held *keeper.Held, why string) {
	t.Helper()
	cause := context.Cause(held.Context())
	if !errors.Is(cause, lease.ErrLost) || !strings.Contains(cause.Error(), why) {
		t.Errorf("cause %v, want lost, %q", cause, why)
	}
	if held.Trusted() {
		t.Error("still trusted")
	}
}

// clocks are a machine's two clocks; its sleep moves only the wall clock.
type clocks struct {
	mu    sync.Mutex
	slept time.Duration
}

func (c *clocks) sleep(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slept += d
}

func (c *clocks) read() (mono, wall time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := time.Now()
	return t, t.Add(c.slept)
}
