package locks_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/internal/faulty"
	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store"
)

// simRuns is how many bubbles of locks there are.
const simRuns = 60

// Clients lock and unlock, read and write, try, wait, give up and dawdle, while
// statements are lost, late and slow, processes crash, the server is restarted,
// its clock is stepped, rows are locked by other transactions, cannot be written,
// are deleted and rewound, dead processes are searched for, new names come up that
// are hardly ever used again while idle rows are pruned, and holders do not stop
// when their session is lost. Each grant is checked: no conflicting holder, all
// earlier ones have stopped for a grace, tokens grow, and the row has no mark but
// its holders'. For the checks of each write of a row, see database. And once all
// faults have ended, every waiter is served in time.
//
// CRONLEASE_SEED replays a bubble, CRONLEASE_ROUNDS=20 has 20 times as many: see
// package rounds.
func TestSimulation(t *testing.T) {
	simulate(t, simRuns, simEvents)
}

// The same, with rows of locks that are deleted and rewound.
func TestSimulationOfChangedRows(t *testing.T) {
	events := maps.Clone(simEvents)
	events["deleted"], events["rewound"] = 8, 8
	simulate(t, simRuns/4, events)
}

func simulate(t *testing.T, runs int, events map[string]int) {
	seeds := rounds.Seeds(t, runs)
	var mu sync.Mutex
	counts := map[string]int{}
	t.Run("seeds", func(t *testing.T) {
		for _, seed := range seeds {
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := newSimulation(t, seed, events)
					s.run()
					if t.Failed() {
						t.Logf("CRONLEASE_SEED=%d", seed)
					}
					mu.Lock()
					defer mu.Unlock()
					for what, n := range s.w.counts {
						counts[what] += n
					}
					for what, n := range s.w.met {
						counts[what] += n
					}
				})
			})
		}
	})
	t.Log(counts)
	wanted := append(slices.Collect(maps.Keys(events)), "given", "read", "lost", "limit", "busy", "gave up", "in time", "pruned", "came back", "ran on", "met a locked row", "met a broken row")
	for _, what := range wanted {
		if counts[what] == 0 && len(seeds) >= 50 {
			t.Errorf("%q never happened", what)
		}
	}
}

// simulation decides what goes wrong. One goroutine owns it, but for what its
// workers share.
type simulation struct {
	w     *world
	t     *testing.T
	rng   *rand.Rand
	rigs  []*simRig
	names []string
	// events are what can happen, each with how often it comes.
	events map[string]int
	ended  context.Context
	end    context.CancelFunc
	group  sync.WaitGroup // the workers

	// lateSession: the server was restarted, or a session's row was deleted. However
	// long ago that was, a process that has lost its session waits a TTL for the next
	// one, and counts from when it needs one.
	lateSession bool
	odd         bool // a round had an event for which TTL + 2 s is not promised
	direction   int  // of the last step of the clock
	stepped     time.Time
	noStart     time.Time         // until then no process starts, see changeRow
	changed     map[string]uint64 // the versions that rows had before they were changed, see changeRow
	orders      []string          // names that are not used for long
	ends        []func()          // end what keeps rows from being written

	mu      sync.Mutex // guards what workers share
	calm    bool       // no new requests, and holders stop at once
	ranOn   bool       // a holder did not stop when its session was lost
	waiting map[*simCall]bool
	// lateUntil is when the last late statement has run.
	lateUntil time.Time
}

// simRig is one process of a simulation.
type simRig struct {
	*rig
	crashed bool
	stop    context.CancelFunc // of its workers
}

// simCall is one call that waits for a lock.
type simCall struct {
	name  string
	since time.Time
	of    *simRig
}

func newSimulation(t *testing.T, seed uint64, events map[string]int) *simulation {
	s := &simulation{w: newWorld(t), t: t, events: events, rng: rand.New(rand.NewPCG(seed, 0)), changed: map[string]uint64{}, waiting: map[*simCall]bool{}}
	s.ended, s.end = context.WithCancel(t.Context())
	for i := range 1 + s.rng.IntN(3) {
		s.names = append(s.names, fmt.Sprint("lock/", i))
	}
	for range 2 + s.rng.IntN(2) {
		s.start()
	}
	return s
}

func (s *simulation) span(most time.Duration) time.Duration {
	return time.Duration(s.rng.Int64N(int64(most)))
}

func (s *simulation) start() {
	ctx, stop := context.WithCancel(s.ended)
	l := newLink(s.w.database)
	var as store.Locks = l
	if seed := s.rng.Uint64(); seed%2 == 0 {
		as = newEnsemble(l, seed)
	}
	r := &simRig{rig: s.w.rigOn(l, as), stop: stop}
	s.rigs = append(s.rigs, r)
	for range 1 + s.rng.IntN(3) {
		rng := rand.New(rand.NewPCG(s.rng.Uint64(), 1))
		s.group.Go(func() { s.work(ctx, r, rng) })
	}
}

func (s *simulation) isCalm() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calm
}

// work is one part of a program that uses locks.
func (s *simulation) work(ctx context.Context, r *simRig, rng *rand.Rand) {
	span := func(most time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(most))) }
	for ctx.Err() == nil {
		pause(ctx, span([]time.Duration{time.Millisecond, time.Second, 10 * time.Second}[rng.IntN(3)]))
		name := s.names[rng.IntN(len(s.names))]
		rw, read, waits := r.RWMutex(name), rng.IntN(3) == 0, true
		get := rw.Lock
		if read {
			get = rw.RLock
		}
		asks, enough := ctx, func() {}
		switch kind := rng.IntN(8); {
		case kind == 0 && read:
			get, waits = rw.TryRLock, false
		case kind == 0:
			get, waits = rw.TryLock, false
		case kind == 1 && read:
			limit := 1 + span(20*time.Second)
			get = func(ctx context.Context) (*locks.Lock, error) { return rw.RLockFor(ctx, limit) }
		case kind == 1:
			limit := 1 + span(20*time.Second)
			get = func(ctx context.Context) (*locks.Lock, error) { return rw.LockFor(ctx, limit) }
		case kind < 4:
			asks, enough = context.WithTimeout(ctx, span(20*time.Second))
			waits = false
		}
		if s.isCalm() {
			pause(ctx, time.Second)
			enough()
			continue
		}
		call := &simCall{name, time.Now(), r}
		if waits {
			s.mu.Lock()
			s.waiting[call] = true
			s.mu.Unlock()
		}
		l, err := get(asks)
		enough()
		if err == nil {
			s.hold(r, s.w.enter(l, read, timing.Grace), rng)
		} else {
			s.answered(ctx, call, waits, err)
		}
		s.mu.Lock()
		delete(s.waiting, call)
		s.mu.Unlock()
	}
}

// answered looks at an error of a call that asked for a lock.
func (s *simulation) answered(ctx context.Context, call *simCall, waits bool, err error) {
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, locks.ErrBusy):
		s.w.count("busy")
	case errors.Is(err, context.DeadlineExceeded) && !waits:
		s.w.count("gave up")
	case waits && errors.Is(err, locks.ErrLost):
		s.w.count("too late")
	case waits:
		s.t.Errorf("%v: the waiter for %q since %v: %v", time.Now(), call.name, call.since, err)
	default:
		s.w.count("no answer")
	}
}

func (s *simulation) hold(r *simRig, held *stay, rng *rand.Rand) {
	most := []time.Duration{time.Millisecond, time.Second, 20 * time.Second}[rng.IntN(3)]
	if held.read {
		s.w.count("read")
	}
	till := time.Now().Add(time.Duration(rng.Int64N(int64(most))))
	for held.Context().Err() == nil && time.Now().Before(till) && !s.isCalm() {
		pause(held.Context(), min(time.Until(till), time.Second))
	}
	cause := context.Cause(held.Context())
	switch {
	case errors.Is(cause, locks.ErrLost):
		s.w.count("lost")
	case errors.Is(cause, locks.ErrLimit):
		s.w.count("limit")
	case cause != nil:
		s.t.Errorf("%v: %q ended: %v", time.Now(), held.name, cause)
	}
	if errors.Is(cause, locks.ErrLost) && rng.IntN(4) > 0 && s.runsOn() {
		// Longer than its process waits for it: the session is left to expire.
		time.Sleep(timing.TTL + time.Second + time.Duration(rng.Int64N(int64(timing.TTL/2))))
		s.w.count("ran on")
	} else if cause != nil { // it stops within the grace
		time.Sleep(time.Duration(rng.Int64N(int64(held.grace))))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rng.Int64N(int64(10*time.Second))))
	defer cancel()
	err := held.Unlock(ctx)
	if cause != nil && !errors.Is(err, cause) && ctx.Err() == nil {
		s.t.Errorf("%v: unlock of %q, which ended because %v: %v", time.Now(), held.name, cause, err)
	}
}

// runsOn has a holder run on after its context has ended, except in the calm phase,
// in which waiters are to be served in time.
func (s *simulation) runsOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ranOn = s.ranOn || !s.calm
	return !s.calm
}

// order uses locks once, one after the other, as for orders that are worked on.
func (s *simulation) order(ctx context.Context, r *simRig, names []string) {
	for _, name := range names {
		asks, enough := context.WithTimeout(ctx, 5*time.Second)
		if l, err := r.Mutex(name).Lock(asks); err == nil {
			// A database that does not answer is the client's to go on with.
			_ = s.w.enter(l, false, timing.Grace).Unlock(asks)
			s.w.count("order")
		}
		enough()
	}
}

// newOrders are names of which most were never used, and some a while ago.
func (s *simulation) newOrders() []string {
	var names []string
	for range 1 + s.rng.IntN(20) {
		if n := len(s.orders); n > 0 && s.rng.IntN(2) == 0 {
			old := s.orders[s.rng.IntN(n)]
			if s.w.isPruned(old) {
				s.w.count("came back")
			}
			names = append(names, old)
			continue
		}
		names = append(names, fmt.Sprint("order/", len(s.orders)))
		s.orders = append(s.orders, names[len(names)-1])
	}
	return names
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (s *simulation) run() {
	for range 1 + s.rng.IntN(3) {
		s.odd = false
		for range 1 + s.rng.IntN(8) {
			s.event()
			time.Sleep(s.span(10 * time.Second))
			if s.t.Failed() {
				break
			}
		}
		s.heal()
		if s.t.Failed() {
			break
		}
	}
	s.end()
	for _, r := range s.rigs {
		r.stop()
	}
	s.group.Wait()
	synctest.Wait()
}

// heal ends all faults, and checks that every waiter is then served.
func (s *simulation) heal() {
	for _, r := range s.rigs {
		if !r.crashed {
			r.link.Heal()
		}
	}
	for _, end := range s.ends {
		end()
	}
	s.ends = nil
	// By then, unanswered statements have timed out, late ones are done, and slow
	// holders have stopped.
	time.Sleep(max(s.isLate(), 0) + hangs)
	s.setCalm(true)
	bound := timing.TTL + 2*time.Second
	if s.odd || s.lateSession {
		bound = 3 * timing.TTL
	}
	bound += s.longest()
	s.mu.Lock()
	if s.ranOn {
		// A session that is renewed for a TTL while its work drains, and then
		// left to expire.
		bound += 2 * timing.TTL
		s.ranOn = false
	}
	pending := maps.Clone(s.waiting)
	s.mu.Unlock()
	time.Sleep(bound)
	synctest.Wait()
	s.mu.Lock()
	for call := range pending {
		if s.waiting[call] && !call.of.crashed {
			s.t.Errorf("%v: %s waits for %q since %v, and all is whole since %v (odd: %v): %s", time.Now(), call.of.Owner(), call.name, call.since, bound, s.odd, s.w.row(call.name).Queue)
		}
	}
	s.mu.Unlock()
	s.w.count("in time")
	for _, name := range s.orders {
		if s.w.isPruned(name) {
			s.w.count("pruned")
		}
	}
	s.rigs = slices.DeleteFunc(s.rigs, func(r *simRig) bool { return r.crashed })
	for len(s.rigs) < 2 {
		s.start()
	}
	s.setCalm(false)
}

// longest is what holders may still take: they look at the calm once a second,
// and stop within the grace; each place in the queue adds a look.
func (s *simulation) longest() time.Duration {
	return timing.Grace + 2*time.Second
}

func (s *simulation) setCalm(calm bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calm = calm
}

// lossy is a link on which anything can happen to a statement.
func (s *simulation) lossy() func(string) faulty.Fault {
	rng := rand.New(rand.NewPCG(s.rng.Uint64(), 2))
	only := ""
	if s.rng.IntN(2) == 0 {
		only = []string{"Read", "Acquire", "Renew", "ReadLocks", "WriteLocks", "WriteLocks", "Wait", "Notify", "Release"}[s.rng.IntN(9)]
	}
	until := time.Now().Add(10 * time.Second)
	return func(op string) (f faulty.Fault) { // called with the link's lock
		if only != "" && op != only || time.Now().After(until) {
			return faulty.Fault{}
		}
		defer func() { s.isLateBy(f.Late + f.Reply) }()
		span := func(most time.Duration) time.Duration { return 1 + time.Duration(rng.Int64N(int64(most))) }
		switch rng.IntN(8) {
		case 0:
			return faulty.Fault{Err: faulty.ErrLost}
		case 1:
			return faulty.Fault{Err: faulty.ErrLost, Applied: true}
		case 2:
			return faulty.Fault{Err: faulty.ErrLost, Late: span(20 * time.Second)}
		case 3:
			return faulty.Fault{Late: span(5 * time.Second)}
		case 4:
			return faulty.Fault{Reply: span(5 * time.Second)}
		case 5:
			return faulty.Fault{Silence: true}
		case 6:
			return faulty.Fault{Late: span(time.Second), Reply: span(time.Second)}
		}
		return faulty.Fault{}
	}
}

// isLateBy notes that a statement is in flight for that long.
func (s *simulation) isLateBy(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := time.Now().Add(d); until.After(s.lateUntil) {
		s.lateUntil = until
	}
}

// isLate is for how long statements that were sent so far can still run late.
func (s *simulation) isLate() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.lateUntil)
}

var simEvents = map[string]int{
	"cut": 5, "hung": 5, "lossy": 12, "all cut": 1, "all hung": 1, "all lossy": 3, "healed": 5, "crashed": 3,
	"restarted": 1, "stepped": 3, "session deleted": 2, "cleaned": 6, "locked": 3, "unwritable": 3, "orders": 6,
}

func (s *simulation) event() {
	total := 0
	for _, weight := range s.events {
		total += weight
	}
	at := s.rng.IntN(total)
	for _, name := range slices.Sorted(maps.Keys(s.events)) {
		if at -= s.events[name]; at < 0 {
			if s.do(name, s.rigs[s.rng.IntN(len(s.rigs))]) {
				s.w.count(name)
			}
			return
		}
	}
}

// do lets an event happen, and reports whether it did.
func (s *simulation) do(event string, r *simRig) bool {
	switch event {
	case "cut", "hung", "lossy", "healed":
		if r.crashed {
			return false
		}
		s.breaks(event, r)
	case "all cut", "all hung", "all lossy":
		for _, r := range s.rigs {
			if !r.crashed {
				s.breaks(event[len("all "):], r)
			}
		}
	case "crashed":
		if r.crashed || len(s.rigs) > 8 || !s.mayStart() {
			return false
		}
		r.crash()
		s.mu.Lock()
		r.crashed = true
		s.mu.Unlock()
		r.stop()
		s.start()
	case "restarted":
		s.lateSession = true
		s.w.Restart()
	case "stepped":
		direction := 1 - 2*s.rng.IntN(2)
		if direction != s.direction && time.Since(s.stepped) < 3*timing.TTL {
			return false
		}
		s.odd = s.odd || direction < 0
		s.direction, s.stepped = direction, time.Now()
		s.w.StepClock(time.Duration(direction) * s.span(time.Hour))
	case "session deleted":
		s.lateSession = true
		for _, p := range s.w.look(s.names[0]).Processes {
			s.w.Update(p.Group, deleteRows)
			return true
		}
		return false
	case "locked":
		s.until(s.w.keep(s.names[s.rng.IntN(len(s.names))]), 5*time.Second)
	case "unwritable":
		name := s.names[s.rng.IntN(len(s.names))]
		s.w.breakWrites(name, true)
		s.until(func() { s.w.breakWrites(name, false) }, 10*time.Second)
	case "cleaned":
		s.group.Go(func() { _ = r.Clean(s.ended) }) // or its link is broken
	case "orders":
		names := s.newOrders()
		s.group.Go(func() { s.order(s.ended, r, names) })
	case "deleted", "rewound":
		return s.changeRow(event)
	}
	return true
}

// until ends something after a while, or when all is made whole.
func (s *simulation) until(end func(), most time.Duration) {
	time.AfterFunc(s.span(most), end)
	s.ends = append(s.ends, end)
}

func (s *simulation) breaks(how string, r *simRig) {
	switch how {
	case "cut":
		r.link.Cut()
	case "hung":
		r.link.Hang()
	case "lossy":
		r.link.Always(s.lossy())
	case "healed":
		r.link.Heal()
	}
}

func deleteRows(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) { return nil, nil }

// mayStart reports whether a process may start that has seen no row: once those that have
// seen the newest versions have written newer ones.
func (s *simulation) mayStart() bool {
	maps.DeleteFunc(s.changed, func(name string, before uint64) bool { return s.w.row(name).Version > before })
	return len(s.changed) == 0 && !time.Now().Before(s.noStart)
}

// changeRow deletes the row of a lock, or restores it to a version without holders
// and waiters, without any client's knowledge. docs/locks.md says what is not
// promised then: what that does to a process that has not seen the newest row, and
// what a statement does that is in flight and expects just the restored row, or no
// row. So it happens only when all clients have seen the row and no statement is
// late, and restores only a version that no statement expects.
func (s *simulation) changeRow(event string) bool {
	name := s.names[s.rng.IntN(len(s.names))]
	before := s.w.row(name)
	s.w.database.mu.Lock()
	old := s.w.empty[name]
	s.w.database.mu.Unlock()
	if old.Version == 0 || old.Version >= before.Version {
		return false
	}
	for _, r := range s.rigs {
		if r.crashed {
			continue
		}
		r.link.Heal()
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Millisecond)
		l, err := r.RWMutex(name).TryRLock(ctx)
		cancel()
		if err == nil {
			s.w.enter(l, true, timing.Grace).unlock(s.t)
		}
		if !errors.Is(err, locks.ErrBusy) {
			return false
		}
	}
	if s.w.row(name).Version != before.Version || s.isLate() > 0 {
		return false
	}
	s.odd = true
	s.noStart = time.Now().Add(2 * timing.TTL)
	old.Version--
	if event == "deleted" {
		old = store.LockRow{}
	}
	s.changed[name] = before.Version
	s.w.change(name, func(store.LockRow) store.LockRow { return old })
	return true
}
