package simulation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

var (
	errLink   = faulty.ErrLost
	errDenied = fmt.Errorf("connect: %w", lease.ErrDenied)
)

// link is a replica's way to the database.
type link struct {
	faulty.Leases
	faulty.Ledger
	faulty.Signals
	rest
	host *host
	read atomic.Int64 // when the last reading of the group's lease that was answered was sent, since the world began
	dead atomic.Bool  // its process is: it sends nothing more

	mu    sync.Mutex
	rng   *rand.Rand
	plan  func() fault
	traps map[string]func()
}

// rest is what nothing happens to on the way.
type rest struct{ *world }

var _ store.Jobs = (*link)(nil)

func newLink(w *world, h *host, rng *rand.Rand) *link {
	l := &link{rest: rest{w}, host: h, rng: rng}
	l.Leases = faulty.Leases{To: w, Send: l.send}
	l.Ledger = faulty.Ledger{To: w, Send: l.send}
	l.Signals = faulty.Signals{To: w, Send: l.send}
	return l
}

// fault is what happens to one statement, with its name in the counts.
type fault struct {
	name string
	faulty.Fault
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

// send runs a statement with what happens to it. What a process that stands
// still was about to send is sent when it wakes, or not at all if its time is
// over by then; and it hears no answer before.
func (l *link) send(ctx context.Context, op string, run func(context.Context) error) error {
	if l.failed.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if _, bounded := ctx.Deadline(); !bounded && op != "Listen" && op != "Signal" {
		l.failf("%s has no deadline: without an answer it would not end", op)
	}
	stood := l.host.stands()
	l.host.await()
	if l.dead.Load() {
		return errLink
	}
	detached := context.WithoutCancel(ctx)
	if err := ctx.Err(); err != nil {
		if stood && l.coin() {
			l.count("sent after waking: " + op)
			_ = run(detached) // nothing hears the answer
		}
		return err
	}
	f, some := l.take()
	if !some { // most statements, by far
		return run(ctx)
	}
	if f.name != "" {
		l.count(f.name)
	}
	switch {
	case f.Silence:
		<-ctx.Done()
		l.host.await()
		return ctx.Err()
	case f.Err != nil && f.Applied:
		_ = run(detached) // the answer is lost
		return f.Err
	case f.Err != nil && f.Late == 0:
		return f.Err
	}
	answered := make(chan error, 1)
	apply := func() {
		err := run(detached)
		if ctx.Err() != nil || f.Err != nil {
			l.late(op, err)
		}
		answered <- err
		if f := l.caught(op); f != nil {
			f()
		}
	}
	if f.Late > 0 {
		time.AfterFunc(f.Late, apply)
	} else {
		apply()
	}
	if f.Err != nil {
		return f.Err
	}
	answer, err := hear(ctx, answered, f.Reply)
	l.host.await()
	switch {
	case l.dead.Load():
		return errLink
	case err == nil && ctx.Err() != nil && l.coin():
		return ctx.Err()
	case err != nil:
		return err
	}
	return answer
}

// hear returns the answer, or why it was not heard.
func hear(ctx context.Context, answered <-chan error, reply time.Duration) (answer, err error) {
	select {
	case answer = <-answered:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return answer, wait(ctx, reply)
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

// Read notes when the last reading of the group's lease was sent that was answered: one of sessions shows no term.
func (l *link) Read(ctx context.Context, groups ...string) ([]store.Reading, error) {
	sent := time.Since(l.began)
	readings, err := l.Leases.Read(ctx, groups...)
	if err == nil && slices.Contains(groups, group) {
		l.read.Store(int64(sent))
	}
	return readings, err
}
