package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

const (
	group = "g"
	// tooMany is more statements than replicas send at one instant.
	tooMany = 20_000
)

// world is the database. It sees each statement that takes effect, whether or
// not its client got the answer, and checks there what has to hold:
//
//   - tokens strictly grow, and a token never changes its owner;
//   - when a lease is taken, every run of an older term has stopped, unless its
//     process is dead or stood still; when it is released, too. Shortly after a
//     leader's signal was cut, a lease may be taken early, and then runs may go on:
//     no other one of their jobs may begin, which work says;
//   - where runs are spread over the replicas, all that goes for the sessions of replicas instead, none of which is
//     ever taken early, and a change of leader ends no run;
//   - what only the holder may do is refused to all others;
//   - no scheduler pauses anything, but for a group whose rows were lost in the life of
//     that process;
//   - the rows of the ledger change as books says.
type world struct {
	*memdb.Store
	t     *testing.T
	began time.Time
	slow  float64       // by which part the database's clock is slower than the bubble's
	limit time.Duration // by which the clocks may differ; zero: no limit

	tracing sync.Mutex
	trace   []event // the last that happened
	failed  atomic.Bool

	mu       sync.Mutex
	at       time.Time // the present instant, and the statements of it
	spun     int
	cut      time.Time            // when a leader's signal was cut last
	lost     time.Time            // when so many rows were lost last that it counts as a restore
	stepped  time.Duration        // by which the database's clock was stepped
	offset   time.Duration        // which the store has been told of its clock
	latest   time.Time            // the latest instant that clock has ever shown
	leases   map[string]*terms    // by group: its lease, and the sessions of replicas
	replicas map[string]*replica  // by owner
	works    map[*work]struct{}   // runs in progress
	stoodFor map[standing]standby // by how a process stood still
	counts   map[string]int
	asked    map[jobs.Key]bool // runs that a user has cancelled
	peace    bool              // nothing goes wrong now
	rows     *books
}

// terms are those of one lease.
type terms struct {
	taken   map[uint64]taking    // by token
	newest  uint64               // token, ever
	renewed map[uint64]time.Time // when each term's last heartbeat, or its acquire, took effect
	holder  store.Holder         // by the fence row as it should be
}

// taking is an acquire.
type taking struct {
	owner string
	at    time.Duration // since the world began
}

// terms are those of a lease; called with mu held.
func (w *world) terms(of string) *terms {
	if w.leases[of] == nil {
		w.leases[of] = &terms{taken: map[uint64]taking{}, renewed: map[uint64]time.Time{}}
	}
	return w.leases[of]
}

// standby is the number of processes that stood still, and of those that were
// replaced meanwhile.
type standby struct{ all, replaced int }

// event is something that happened.
type event struct {
	at     time.Duration
	format string
	args   []any
}

func newWorld(t *testing.T, slow float64) *world {
	return &world{
		Store: memdb.New(), t: t, began: time.Now(), slow: slow,
		leases: map[string]*terms{}, replicas: map[string]*replica{}, works: map[*work]struct{}{},
		stoodFor: map[standing]standby{}, counts: map[string]int{}, asked: map[jobs.Key]bool{}, rows: newBooks(),
	}
}

// note remembers what happened.
func (w *world) note(format string, args ...any) {
	w.tracing.Lock()
	defer w.tracing.Unlock()
	if w.trace = append(w.trace, event{time.Since(w.began), format, args}); len(w.trace) > 300 {
		w.trace = slices.Delete(w.trace, 0, 100)
	}
}

// failf fails the simulation, and says what happened before: twice what is wrong,
// since logs are cut at either end. It is over then: the database says nothing
// more.
func (w *world) failf(format string, args ...any) {
	w.t.Helper()
	if w.failed.Swap(true) {
		return
	}
	w.tracing.Lock()
	defer w.tracing.Unlock()
	wrong := fmt.Sprintf(format, args...)
	var before strings.Builder
	for _, e := range w.trace {
		fmt.Fprintf(&before, "%12.3f ", e.at.Seconds())
		fmt.Fprintf(&before, e.format+"\n", e.args...)
	}
	w.t.Errorf("%s\n%s%12.3f %s", wrong, before.String(), time.Since(w.began).Seconds(), wrong)
}

// by is the end of an owner's name, which is the part that differs.
func by(owner string) string { return owner[max(0, len(owner)-4):] }

// count counts what happened.
func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// late counts a statement that ran after its client had given up.
func (w *world) late(op string, err error) {
	switch {
	case err == nil:
		w.count("late: " + op)
	case errors.Is(err, store.ErrChanged) || errors.Is(err, store.ErrReplaced):
		w.count("late and refused")
	}
}

// enter begins a statement: the database's clock is what it should be by now.
func (w *world) enter() {
	w.mu.Lock()
	if now := time.Now(); !now.Equal(w.at) {
		w.at, w.spun = now, 0
	}
	if w.spun++; w.spun == tooMany {
		w.failf("%d statements at one instant", tooMany)
	}
	want := w.stepped - time.Duration(float64(time.Since(w.began))*w.slow)
	w.StepClock(want - w.offset)
	w.offset = want
	if now := w.now(); now.After(w.latest) {
		w.latest = now
	}
}

// now is the database's clock; called with mu held.
func (w *world) now() time.Time { return time.Now().Add(w.offset).UTC().Round(time.Microsecond) }

// Read implements [store.Leases].
func (w *world) Read(ctx context.Context, groups ...string) ([]store.Reading, error) {
	w.enter()
	defer w.mu.Unlock()
	readings, err := w.Store.Read(ctx, groups...)
	if err != nil {
		return nil, err
	}
	for i, r := range readings {
		if l := r.Lease; l != nil {
			w.note("%s%s %d is read, heartbeat %d, released %v, on %s", sessionOf(groups[i]), by(l.Owner), l.Token, l.Heartbeat, l.Released, r.Server)
		}
	}
	return readings, nil
}

// Prepare implements [store.Leases].
func (w *world) Prepare(ctx context.Context, group string, ttl time.Duration) error {
	w.enter()
	defer w.mu.Unlock()
	return w.Store.Prepare(ctx, group, ttl)
}

// Acquire implements [store.Leases].
func (w *world) Acquire(ctx context.Context, a store.Acquire) (uint64, error) {
	return w.acquire(ctx, a, w.Store.Acquire)
}

func (w *world) acquire(ctx context.Context, a store.Acquire, acquire func(context.Context, store.Acquire) (uint64, error)) (uint64, error) {
	w.enter()
	defer w.mu.Unlock()
	token, err := acquire(ctx, a)
	if err != nil {
		w.note("%s acquires: %v", by(a.Owner), err)
		return token, err
	}
	w.counts["acquired"]++
	of := a.Read.Group
	w.note("%s takes %s%d, heartbeat %d, from %s %d", by(a.Owner), sessionOf(of), token, a.Heartbeat, by(a.Read.Lease.Owner), a.Read.Lease.Token)
	l := w.terms(of)
	if had, ok := l.taken[token]; ok || token <= l.newest {
		w.failf("token %d of %s after %d, had by %q", token, a.Owner, l.newest, had.owner)
	}
	l.renewed[token] = time.Now()
	l.taken[token], l.newest = taking{a.Owner, time.Since(w.began)}, max(l.newest, token)
	l.holder = store.Holder{Group: of, Owner: a.Owner, Token: token}
	cut := of == group && time.Since(w.cut) < 3*ttl // a leader may not know yet that it was replaced
	if cut {
		w.counts["taken after a cut"]++
	}
	for x := range w.works {
		switch {
		case x.of != of || w.excused(x):
		case cut && !a.Read.Lease.Released:
			w.counts["run left alone"]++
		default:
			w.failf("token %d is taken by %s while %v of term %d of %s runs, its context ended: %v", token, by(a.Owner), x.Key(), x.term, by(x.Owner), context.Cause(x.ctx))
		}
	}
	if of != group {
		if a.Owner != ownerOf(of) {
			w.counts["session taken up"]++
		}
		return token, nil
	}
	for _, r := range w.replicas {
		s := r.State()
		if r.Owner() != a.Owner && s.Role == election.Leading && s.Token < token && !w.absent(r, group, s.Token) && !cut {
			w.failf("token %d is taken by %s while %s leads under %d", token, by(a.Owner), by(r.Owner()), s.Token)
		}
	}
	return token, nil
}

// excused reports whether a run may go on under a term that is over: its process
// is dead or stood still; called with mu held.
func (w *world) excused(x *work) bool { return w.absent(x.replica, x.of, x.term) }

// absent reports whether a process could not know that a term of it is over:
// called with mu held.
func (w *world) absent(r *replica, of string, token uint64) bool {
	if r.dead || r.justWoke() {
		return true
	}
	// Only its heartbeats show a virtual machine that it stood still, and the answer
	// to one may have been in flight.
	return !r.thawed.IsZero() && r.renewals < 2 && w.terms(of).taken[token].at <= r.thawed.Sub(w.began)
}

// Renew implements [store.Leases].
func (w *world) Renew(ctx context.Context, r store.Renew) (int, error) {
	w.enter()
	defer w.mu.Unlock()
	renewed, err := w.Store.Renew(ctx, r)
	for _, l := range r.Leases {
		w.sawRenewal(r.Owner, r.Heartbeat, l, w.hasHeartbeat(l, r.Heartbeat))
	}
	return renewed, err
}

// Beat implements [store.Heartbeats].
func (w *world) Beat(ctx context.Context, owner string, heartbeat uint64, r store.Renewal, known uint64) (store.Beat, error) {
	w.enter()
	defer w.mu.Unlock()
	beat, err := w.Store.Beat(ctx, owner, heartbeat, r, known)
	w.sawRenewal(owner, heartbeat, r, beat.Renewed)
	if beat.Asked {
		w.counts["heartbeat that tells of a request"]++
	}
	return beat, err
}

// hasHeartbeat reports whether a lease has that heartbeat; called with mu held.
func (w *world) hasHeartbeat(r store.Renewal, heartbeat uint64) bool {
	readings, err := w.Store.Read(context.Background(), r.Group)
	return err == nil && readings[0].Lease != nil && readings[0].Lease.Token == r.Token && readings[0].Lease.Heartbeat == heartbeat
}

// sawRenewal is called with mu held.
func (w *world) sawRenewal(owner string, heartbeat uint64, of store.Renewal, renewed bool) {
	w.note("%s renews %s%d with heartbeat %d: %t", by(owner), sessionOf(of.Group), of.Token, heartbeat, renewed)
	if !renewed {
		w.counts["renewal refused"]++
		return
	}
	w.terms(of.Group).renewed[of.Token] = time.Now()
	if holder := w.replicas[owner]; holder != nil && !holder.host.stands() {
		holder.renewals++
	}
}

// Release implements [store.Leases].
func (w *world) Release(ctx context.Context, of, owner string, token uint64) error {
	w.enter()
	defer w.mu.Unlock()
	err := w.Store.Release(ctx, of, owner, token)
	w.note("%s releases %s%d: %v", by(owner), sessionOf(of), token, err)
	if err != nil {
		return err
	}
	w.counts["released"]++
	for x := range w.works {
		if x.of == of && (x.term == token && !x.replica.dead || x.term < token && !w.excused(x)) {
			w.failf("term %d is released while %v of term %d runs", token, x.Key(), x.term)
		}
	}
	return nil
}

// HandoverSignal implements [store.HandoverSignals].
func (w *world) HandoverSignal(group string) store.HandoverSignal {
	return signal{w.Store.HandoverSignal(group).(handovers), w}
}

// handovers is what signals of the store can do.
type handovers interface {
	store.DirectHandover
	store.PresenceSignal
}

// signal is a signal of the world.
type signal struct {
	handovers
	w *world
}

// Release implements [store.DirectHandover]. Now and then a waiter is woken a moment
// before the lease is released: if the row matches, so not by a release that runs late.
func (s signal) Release(ctx context.Context, owner string, token uint64) error {
	readings, err := s.w.Store.Read(ctx, group)
	if err == nil && token%4 == 0 && readings[0].Lease != nil && readings[0].Lease.Token == token {
		s.w.count("woken before the release")
		_ = s.Pass(ctx)
		<-time.After(10 * time.Millisecond)
	}
	if err := s.w.Release(ctx, group, owner, token); err != nil {
		return err
	}
	return s.Pass(ctx)
}

// Take implements [store.DirectHandover].
func (s signal) Take(ctx context.Context, a store.Acquire) (uint64, error) {
	token, err := s.w.acquire(ctx, a, s.handovers.Take)
	if err == nil {
		s.w.count("taken without a look")
	}
	return token, err
}

// Pause implements [jobs.Control].
func (w *world) Pause(ctx context.Context, group, job string) error {
	w.enter()
	defer w.mu.Unlock()
	if by := jobs.ActorOf(ctx); by.Via == jobs.ViaScheduler {
		w.counts["paused by a scheduler"]++
		if r := w.replicas[by.Name]; job != "" || r == nil || r.began.After(w.lost) {
			w.failf("%s pauses %q, and no rows were lost since it began: rows were lost last at %v", by.Name, job, w.lost)
		}
	}
	return w.Store.Pause(ctx, group, job)
}

// effect is what a run does to something that compares tokens as package fence
// does: by the fence row, at that moment.
func (w *world) effect(x *work) {
	w.enter()
	defer w.mu.Unlock()
	readings, err := w.Store.Read(context.Background(), x.of)
	f := readings[0].Fence
	if err != nil || f == nil || f.Owner != x.Owner || f.Token != x.term || !w.hasRow(x) {
		w.counts["effect refused"]++
		return
	}
	w.counts["effect"]++
	if holder := w.terms(x.of).holder; x.Owner != holder.Owner || x.term != holder.Token {
		w.failf("an effect of %s under %d stands beside %s under %d", by(x.Owner), x.term, by(holder.Owner), holder.Token)
	}
	if row := w.rows.rows[x.Key()]; x.of != group && (row.state != jobs.Running || row.attempt != x.Attempt || row.token != x.term) {
		w.failf("an effect of %v, attempt %d under %d, stands beside its row, which is %+v", x.Key(), x.Attempt, x.term, row)
	}
}

// hasRow reports whether the row of a run is that of its attempt, where fenced work compares it; called with mu held.
func (w *world) hasRow(x *work) bool {
	if x.of == group {
		return true
	}
	open, err := w.Open(context.Background(), group, x.Owner)
	return err == nil && slices.ContainsFunc(open.Open, func(r jobs.Record) bool {
		return r.Key == x.Key() && r.State == jobs.Running && r.Token == x.term && r.Attempt == x.Attempt
	})
}

// backup copies all rows: restore puts them back.
func (w *world) backup() (restore func()) {
	w.enter()
	defer w.mu.Unlock()
	rows, books, holder, taken := w.Backup(), w.rows.clone(), w.terms(group).holder, time.Now()
	return func() { // called with mu held
		before, kept := w.restorePause(), w.sessions()
		rows()
		kept()
		// A minute is by the fastest clock. Each replica that has seen a pause for a restore puts it back once it is lost, even with the
		// last second alone.
		if time.Since(taken) > 59*time.Second || before != 0 && w.restorePause() != before {
			w.lost = time.Now()
		}
		w.counts["rows forgotten"] += w.rows.forget(books.clone())
		w.terms(group).holder = holder
	}
}

// restorePause is the action of a scheduler that has paused the group for a restore; zero: there is none. Called with mu held.
func (w *world) restorePause() (id uint64) {
	if by, err := jobs.NewGroup(w.Store, group).PausedBy(context.Background()); err == nil && by.Via == jobs.ViaScheduler {
		id = by.ID
	}
	return id
}

// sessions copies the rows of the replicas' sessions, and returns what puts them back: that none of these is lost
// is the exception that the documents make. Called with mu held, as what it returns.
func (w *world) sessions() (putBack func()) {
	type rows struct {
		lease *store.Lease
		fence *store.Fence
	}
	kept := map[string]rows{}
	for of := range w.leases {
		if of != group {
			w.Update(of, func(l *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) {
				kept[of] = rows{l, f}
				return l, f
			})
		}
	}
	return func() {
		for of, r := range kept {
			w.Update(of, func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) { return r.lease, r.fence })
		}
	}
}

// ownerOf is whose session a lease is.
func ownerOf(of string) string { return strings.TrimPrefix(of, store.SessionGroup("")) }

// sessionOf names a session in what is noted.
func sessionOf(of string) string {
	if of == group {
		return ""
	}
	return "the session of " + by(of) + ": "
}

// leaders are the replicas that lead.
func (w *world) leaders() (leaders []*replica) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.replicas {
		if !r.dead && r.State().Role == election.Leading {
			leaders = append(leaders, r)
		}
	}
	return leaders
}

// last is the newest term.
func (l *terms) last() taking { return l.taken[l.newest] }
