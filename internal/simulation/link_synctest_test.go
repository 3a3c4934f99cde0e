package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cronlease/cronlease/internal/clocks"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

var (
	errLink   = errors.New("connection lost")
	errDenied = fmt.Errorf("connect: %w", lease.ErrDenied)
)

// link is a replica's way to the database.
type link struct {
	*world
	host *host
	read atomic.Int64 // when the last reading that was answered was sent, since the world began
	dead atomic.Bool  // its process is: it sends nothing more

	mu    sync.Mutex
	rng   *rand.Rand
	plan  func() fault
	traps map[string]func()
}

// fault is what happens to one statement. The zero value is none.
type fault struct {
	name    string
	err     error         // the caller hears this at once; the statement runs if late or applied says so
	applied bool          // with err: it ran, and the answer was lost
	late    time.Duration // it runs that long after it was sent, even if its caller has given up
	reply   time.Duration // the answer takes that long
	silence bool          // it does not run, and nothing is heard until the caller gives up
}

func (l *link) always(plan func() fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plan = plan
}

// trap has f called right when the next statement of that kind has run, before
// its answer is heard.
func (l *link) trap(op string, f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.traps = map[string]func(){op: f}
}

func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plan, l.traps = nil, nil
}

// take is what happens to the next statement, if anything can.
func (l *link) take() (f fault, some bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.plan != nil {
		return l.plan(), true
	}
	return f, len(l.traps) > 0
}

func (l *link) caught(op string) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.traps[op]
	delete(l.traps, op)
	return f
}

func (l *link) coin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.IntN(2) == 0
}

// Clocks implements [clocks.Host].
func (l *link) Clocks() clocks.Instant { return l.host.Clocks() }

type answer[T any] struct {
	value T
	err   error
}

// send runs a statement with what happens to it. What a process that stands
// still was about to send is sent when it wakes, or not at all if its time is
// over by then; and it hears no answer before.
func send[T any](ctx context.Context, l *link, op string, run func(context.Context) (T, error)) (T, error) {
	var none T
	if l.failed.Load() {
		<-ctx.Done()
		return none, ctx.Err()
	}
	stood := l.host.stands()
	l.host.await()
	if l.dead.Load() {
		return none, errLink
	}
	detached := context.WithoutCancel(ctx)
	if err := ctx.Err(); err != nil {
		if stood && l.coin() {
			l.count("sent after waking: " + op)
			_, _ = run(detached)
		}
		return none, err
	}
	f, some := l.take()
	if !some { // most statements, by far
		return run(ctx)
	}
	if f.name != "" {
		l.count(f.name)
	}
	switch {
	case f.silence:
		<-ctx.Done()
		l.host.await()
		return none, ctx.Err()
	case f.err != nil && f.applied:
		_, _ = run(detached)
		return none, f.err
	case f.err != nil && f.late == 0:
		return none, f.err
	}
	answered := make(chan answer[T], 1)
	apply := func() {
		value, err := run(detached)
		if ctx.Err() != nil || f.err != nil {
			l.late(op, err)
		}
		answered <- answer[T]{value, err}
		if f := l.caught(op); f != nil {
			f()
		}
	}
	if f.late > 0 {
		time.AfterFunc(f.late, apply)
	} else {
		apply()
	}
	if f.err != nil {
		return none, f.err
	}
	a, err := hear(ctx, answered, f.reply)
	l.host.await()
	switch {
	case l.dead.Load():
		return none, errLink
	case err == nil && ctx.Err() != nil && l.coin():
		return none, ctx.Err()
	case err != nil:
		return none, err
	}
	return a.value, a.err
}

func hear[T any](ctx context.Context, answered <-chan answer[T], reply time.Duration) (a answer[T], err error) {
	select {
	case a = <-answered:
	case <-ctx.Done():
		return a, ctx.Err()
	}
	return a, wait(ctx, reply)
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// do is send for statements that only fail.
func do(ctx context.Context, l *link, op string, run func(context.Context) error) error {
	_, err := send(ctx, l, op, func(ctx context.Context) (struct{}, error) { return struct{}{}, run(ctx) })
	return err
}

func (l *link) Read(ctx context.Context, groups ...string) ([]store.Reading, error) {
	sent := time.Since(l.began)
	readings, err := send(ctx, l, "Read", func(ctx context.Context) ([]store.Reading, error) { return l.world.Read(ctx, groups...) })
	if err == nil {
		l.read.Store(int64(sent))
	}
	return readings, err
}

func (l *link) Prepare(ctx context.Context, group string, ttl time.Duration) error {
	return do(ctx, l, "Prepare", func(ctx context.Context) error { return l.world.Prepare(ctx, group, ttl) })
}

func (l *link) Acquire(ctx context.Context, a store.Acquire) (uint64, error) {
	return send(ctx, l, "Acquire", func(ctx context.Context) (uint64, error) { return l.world.Acquire(ctx, a) })
}

func (l *link) Renew(ctx context.Context, r store.Renew) (int, error) {
	return send(ctx, l, "Renew", func(ctx context.Context) (int, error) { return l.world.Renew(ctx, r) })
}

func (l *link) Release(ctx context.Context, group, owner string, token uint64) error {
	return do(ctx, l, "Release", func(ctx context.Context) error { return l.world.Release(ctx, group, owner, token) })
}

func (l *link) Declare(ctx context.Context, h store.Holder, declared []store.Declared) error {
	return do(ctx, l, "Declare", func(ctx context.Context) error { return l.world.Declare(ctx, h, declared) })
}

func (l *link) Load(ctx context.Context, group string) (jobs.Snapshot, error) {
	return send(ctx, l, "Load", func(ctx context.Context) (jobs.Snapshot, error) { return l.world.Load(ctx, group) })
}

func (l *link) Changes(ctx context.Context, group string) (store.Changes, error) {
	return send(ctx, l, "Changes", func(ctx context.Context) (store.Changes, error) { return l.world.Changes(ctx, group) })
}

func (l *link) PassOver(ctx context.Context, h store.Holder, job string, after time.Time) (int, error) {
	return send(ctx, l, "PassOver", func(ctx context.Context) (int, error) { return l.world.PassOver(ctx, h, job, after) })
}

func (l *link) Claim(ctx context.Context, h store.Holder, id store.ClaimID, claims []store.Claim) ([]store.Claimed, error) {
	return send(ctx, l, "Claim", func(ctx context.Context) ([]store.Claimed, error) { return l.world.Claim(ctx, h, id, claims) })
}

func (l *link) Move(ctx context.Context, h store.Holder, moves []store.Move) ([]bool, error) {
	return send(ctx, l, "Move", func(ctx context.Context) ([]bool, error) { return l.world.Move(ctx, h, moves) })
}

func (l *link) Prune(ctx context.Context, group, job string, history jobs.History, batch int) (int, error) {
	return send(ctx, l, "Prune", func(ctx context.Context) (int, error) { return l.world.Prune(ctx, group, job, history, batch) })
}
