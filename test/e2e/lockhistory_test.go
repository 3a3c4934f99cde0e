package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store/memstore"
)

// lockEvent is what a worker of a lock player says before it goes on. All
// instants are of one monotonic clock, in nanoseconds.
type lockEvent struct {
	What    string // one of those below
	Process int
	Worker  int   // of the process; unused for lockKilled
	At      int64 // see What
	Lock    string
	Read    bool
	Token   uint64 // of lockGot
	// Trusted: at At, or an instant later, the lock said that it can be relied
	// on.
	Trusted bool
	Error   string // of lockFailed and lockUnlocked
}

const (
	lockCalled   = "called"   // the lock is about to be asked for
	lockFailed   = "failed"   // and was not granted
	lockGot      = "got"      // it was granted
	lockKept     = "kept"     // it is still held
	lockUnlock   = "unlock"   // it is about to be unlocked
	lockUnlocked = "unlocked" // that has returned
	lockKilled   = "killed"   // the whole process, at At or a little later
)

// never is the end of an operation that was not seen to end.
const never = math.MaxInt64

// lockHold is one call for a lock, and what became of it.
type lockHold struct {
	process, worker int
	lock            string
	read            bool
	called          int64
	got             int64 // never if the lock was not seen to be granted
	token           uint64
	trusted         int64 // the last instant of which it is known that the lock was trusted; 0 for none
	stopped         int64 // Unlock was called, or the process killed
	unlocked        int64 // Unlock confirmed it; otherwise never
	killed          bool  // its process was, before Unlock had returned
	hit             bool  // and before it was called, while the lock was held
}

// gatherHolds makes calls of events, in the order in which they were made. The
// events of a worker are in order.
func gatherHolds(events []lockEvent) ([]lockHold, error) {
	type worker struct{ process, worker int }
	var all []*lockHold
	open := map[worker]*lockHold{}
	for _, e := range events {
		if e.What == lockKilled {
			for w, h := range open {
				if w.process == e.Process {
					h.killed, h.hit = true, h.got != never && h.stopped == never
					h.stopped = min(h.stopped, e.At)
					delete(open, w)
				}
			}
			continue
		}
		w := worker{e.Process, e.Worker}
		h := open[w]
		if (h == nil) != (e.What == lockCalled) {
			return nil, fmt.Errorf("worker %v says %q out of turn", w, e.What)
		}
		switch e.What {
		case lockCalled:
			h = &lockHold{process: e.Process, worker: e.Worker, lock: e.Lock, read: e.Read, called: e.At, got: never, stopped: never, unlocked: never}
			all, open[w] = append(all, h), h
		case lockGot:
			h.got, h.token = e.At, e.Token
		case lockUnlock:
			h.stopped = e.At
		case lockUnlocked:
			if e.Error == "" {
				h.unlocked = e.At
			}
			delete(open, w)
		case lockFailed:
			delete(open, w)
		}
		if e.Trusted {
			h.trusted = e.At
		}
	}
	holds := make([]lockHold, len(all))
	for i, h := range all {
		holds[i] = *h
	}
	return holds, nil
}

// end is the instant before which the lock was surely held: until its holder
// gave it back or was killed, but no longer than a grace after the last instant
// at which it could be relied on, which is what a holder is promised. A process
// that was starved may have lost its lock long before it says anything else.
func (h lockHold) end(grace time.Duration) int64 {
	return min(h.stopped, h.trusted+int64(grace))
}

func (h lockHold) String() string {
	kind := "writer"
	if h.read {
		kind = "reader"
	}
	return fmt.Sprintf("%s %d.%d under token %d (%d to %d, killed %v)", kind, h.process, h.worker, h.token, h.got, h.stopped, h.killed)
}

// checkOverlaps finds writers that held a lock beside another holder, and reports
// the first few.
func checkOverlaps(holds []lockHold, grace time.Duration) error {
	const few = 5
	var errs []error
	type last struct{ writer, any lockHold }
	lasts := map[string]last{}
	for _, h := range slices.SortedFunc(slices.Values(holds), func(a, b lockHold) int { return cmp.Compare(a.got, b.got) }) {
		if h.trusted == 0 || h.end(grace) <= h.got {
			continue
		}
		l := lasts[h.lock]
		before := l.any
		if h.read {
			before = l.writer
		}
		if h.got < before.end(grace) && len(errs) < few {
			errs = append(errs, fmt.Errorf("%s: %v beside %v", h.lock, h, before))
		}
		if h.end(grace) > l.any.end(grace) {
			l.any = h
		}
		if !h.read && h.end(grace) > l.writer.end(grace) {
			l.writer = h
		}
		lasts[h.lock] = l
	}
	return errors.Join(errs...)
}

// lockStep is half of a hold: the grant or the release of the lock. The release of
// a process that was killed or lost the lock has an unknown end: it takes effect at
// any time from then on.
type lockStep struct {
	give  bool
	hold  int // its number
	read  bool
	token uint64
	// before is the next lower token of the lock. Tokens grow, so this is the
	// newest at the grant. Stating it keeps the search short.
	before uint64
}

// lockState is a lock that works: one writer or any number of readers, and
// tokens that grow, although readers may share one.
type lockState struct {
	writer  int   // the number of its hold, or -1
	readers []int // the numbers of their holds, sorted
	token   uint64
	shared  bool // token was granted to a reader
}

func (s lockState) step(op lockStep) (bool, lockState) {
	at, isReader := slices.BinarySearch(s.readers, op.hold)
	switch {
	case !op.give && op.read:
		return isReader, lockState{s.writer, without(s.readers, at, isReader), s.token, s.shared}
	case !op.give:
		return s.writer == op.hold, lockState{-1, s.readers, s.token, s.shared}
	case op.read:
		next := s.token == op.before || s.token == op.token && s.shared
		return next && s.writer < 0, lockState{-1, slices.Insert(slices.Clone(s.readers), at, op.hold), op.token, true}
	default:
		return s.token == op.before && s.writer < 0 && len(s.readers) == 0, lockState{op.hold, nil, op.token, false}
	}
}

func without(all []int, at int, is bool) []int {
	if !is {
		return all
	}
	return slices.Delete(slices.Clone(all), at, at+1)
}

var lockModel = porcupine.Model{
	Init: func() any { return lockState{writer: -1} },
	Step: func(state, input, _ any) (bool, any) {
		return state.(lockState).step(input.(lockStep))
	},
	Equal: func(a, b any) bool {
		x, y := a.(lockState), b.(lockState)
		return x.writer == y.writer && x.token == y.token && x.shared == y.shared && slices.Equal(x.readers, y.readers)
	},
}

// lockSteps is what the model has to explain of one lock. A call that failed, or
// was not seen to return, may or may not have held the lock. It is left out, since
// it is always consistent that the call never held the lock.
func lockSteps(holds []lockHold, grace time.Duration) []porcupine.Operation {
	tokens := []uint64{0}
	for _, h := range holds {
		if h.got != never {
			tokens = append(tokens, h.token)
		}
	}
	slices.Sort(tokens)
	tokens = slices.Compact(tokens)
	var ops []porcupine.Operation
	for i, h := range holds {
		if h.got == never {
			continue
		}
		step := lockStep{true, i, h.read, h.token, 0}
		if at, _ := slices.BinarySearch(tokens, h.token); at > 0 {
			step.before = tokens[at-1]
		}
		ops = append(ops, porcupine.Operation{ClientId: i, Input: step, Call: h.called, Return: h.got})
		step.give = false
		ops = append(ops, porcupine.Operation{ClientId: i, Input: step, Call: max(h.called, h.end(grace)), Return: h.unlocked})
	}
	return ops
}

// checkLinear fails when no order of all that was done, in agreement with the
// instants, is one in which a lock behaves as it should.
func checkLinear(holds []lockHold, grace time.Duration) error {
	const limit = time.Minute // it takes less than a second, unless something is wrong
	of := map[string][]lockHold{}
	for _, h := range holds {
		of[h.lock] = append(of[h.lock], h)
	}
	var errs []error
	for lock, holds := range of {
		ops := lockSteps(holds, grace)
		if result := porcupine.CheckOperationsTimeout(lockModel, ops, limit); result != porcupine.Ok {
			errs = append(errs, fmt.Errorf("%s: no lock takes these %d steps (%v): %s", lock, len(ops), result, explain(ops, limit)))
		}
	}
	return errors.Join(errs...)
}

// explain says how far the steps can be put in order.
func explain(ops []porcupine.Operation, limit time.Duration) string {
	_, info := porcupine.CheckOperationsVerbose(lockModel, ops, limit)
	var longest []porcupine.Operation
	for _, order := range info.PartialLinearizationsOperations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	state := lockModel.Init().(lockState)
	placed := map[lockStep]bool{}
	for _, op := range longest {
		_, state = state.step(op.Input.(lockStep))
		placed[op.Input.(lockStep)] = true
	}
	// The operation that had to be next: it was over first.
	next := porcupine.Operation{Return: never}
	for _, op := range ops {
		if !placed[op.Input.(lockStep)] && op.Return < next.Return {
			next = op
		}
	}
	return fmt.Sprintf("%d of them lead to %+v, and not on to %+v, which was over at %d", len(longest), state, next.Input, next.Return)
}

// Histories whose verdicts are known, one line for each hold. Both checks accept the
// histories of a correct lock; for each other one, the case names the checks that
// refuse it.
func TestLockHistory(t *testing.T) {
	t.Parallel()
	const grace = 3
	write := func(token uint64, called, got, stopped, unlocked int64) lockHold {
		return lockHold{lock: "x", token: token, called: called, got: got, trusted: stopped, stopped: stopped, unlocked: unlocked}
	}
	read := func(token uint64, called, got, stopped, unlocked int64) lockHold {
		h := write(token, called, got, stopped, unlocked)
		h.read = true
		return h
	}
	killed := func(h lockHold) lockHold {
		h.killed, h.unlocked = true, never
		return h
	}
	// The last of it that is known to be good, when it is not its end.
	starved := func(h lockHold, trusted int64) lockHold {
		h.trusted, h.unlocked = trusted, never
		return h
	}
	elsewhere := func(h lockHold) lockHold {
		h.lock = "y"
		return h
	}
	const overlap, order = "overlap", "order"
	for _, c := range []struct {
		name  string
		holds []lockHold
		wrong string // the checks that have to fail, separated by spaces
	}{
		{"nothing", nil, ""},
		{"one after the other", []lockHold{write(5, 10, 11, 20, 22), write(6, 12, 21, 30, 31)}, ""},
		{"granted while the unlock is in flight", []lockHold{write(5, 10, 11, 20, 29), write(6, 12, 21, 30, 31)}, ""},
		{"readers together", []lockHold{read(5, 10, 11, 30, 31), read(5, 10, 12, 20, 21), read(7, 13, 14, 40, 41), write(8, 12, 43, 44, 45)}, ""},
		{"a killed writer's successor", []lockHold{killed(write(5, 10, 11, 20, 0)), write(6, 12, 21, 30, 31)}, ""},
		{"many readers killed", []lockHold{killed(read(5, 10, 11, 20, 0)), killed(read(5, 10, 11, 25, 0)), write(6, 12, 26, 30, 31)}, ""},
		{"a call without an end", []lockHold{write(5, 10, 11, 20, 22), {lock: "x", called: 12, got: never, stopped: 15, unlocked: never, killed: true}, write(9, 12, 21, 30, 31)}, ""},
		{"starved for longer than the grace", []lockHold{starved(write(5, 10, 11, 50, 0), 20), write(6, 12, 23, 30, 31)}, ""},
		{"granted, and no longer trusted", []lockHold{starved(write(5, 10, 19, 50, 0), 0), write(6, 12, 15, 17, 18)}, ""},
		{"two locks", []lockHold{write(5, 10, 11, 20, 22), elsewhere(write(5, 12, 13, 30, 31))}, ""},

		{"two writers", []lockHold{write(5, 10, 11, 20, 22), write(6, 12, 19, 30, 31)}, overlap + " " + order},
		{"a writer within another's time", []lockHold{write(5, 10, 11, 40, 41), write(6, 12, 13, 14, 15), write(7, 12, 35, 36, 37)}, overlap + " " + order},
		{"a reader beside a writer", []lockHold{write(5, 10, 11, 20, 22), read(6, 12, 19, 30, 31)}, overlap + " " + order},
		{"a writer beside the second reader", []lockHold{read(5, 10, 11, 30, 31), read(5, 10, 12, 20, 21), write(6, 12, 25, 40, 41)}, overlap + " " + order},
		{"a writer beside one that will be killed", []lockHold{killed(write(5, 10, 11, 20, 0)), write(6, 12, 19, 30, 31)}, overlap + " " + order},
		{"starved, and not for the grace", []lockHold{starved(write(5, 10, 11, 50, 0), 20), write(6, 12, 22, 30, 31)}, overlap + " " + order},
		{"the same token twice", []lockHold{write(5, 10, 11, 20, 22), write(5, 12, 21, 30, 31)}, order},
		{"a reader with the writer's token", []lockHold{write(5, 10, 11, 20, 22), read(5, 12, 21, 30, 31)}, order},
		{"a writer with the readers' token", []lockHold{read(5, 10, 11, 20, 22), write(5, 12, 21, 30, 31)}, order},
		{"a token from before", []lockHold{write(6, 10, 11, 20, 22), write(5, 12, 21, 30, 31)}, order},
		{"a killed holder's token again", []lockHold{killed(write(5, 10, 11, 20, 0)), write(5, 12, 21, 30, 31)}, order},
	} {
		got := []string{}
		if checkOverlaps(c.holds, grace) != nil {
			got = append(got, overlap)
		}
		if checkLinear(c.holds, grace) != nil {
			got = append(got, order)
		}
		if seen := strings.Join(got, " "); seen != c.wrong {
			t.Errorf("%s: seen by %q, want %q", c.name, seen, c.wrong)
		}
	}
}

// The workers' output is parsed as they mean it.
func TestLockEvents(t *testing.T) {
	t.Parallel()
	holds, err := gatherHolds([]lockEvent{
		{What: lockCalled, Worker: 1, At: 10, Lock: "x", Read: true},
		{What: lockCalled, Worker: 2, At: 11, Lock: "x"},
		{What: lockCalled, Worker: 3, At: 12, Lock: "x"},
		{What: lockCalled, Worker: 1, Process: 1, At: 12, Lock: "x"},
		{What: lockGot, Worker: 1, At: 13, Token: 4, Trusted: true},
		{What: lockKept, Worker: 1, At: 14, Trusted: true},
		{What: lockUnlock, Worker: 1, At: 15, Trusted: true},
		{What: lockUnlocked, Worker: 1, At: 16},
		{What: lockFailed, Worker: 3, At: 16, Error: "no"},
		{What: lockGot, Worker: 2, At: 17, Token: 5, Trusted: true},
		{What: lockKilled, At: 18},
		{What: lockGot, Worker: 1, Process: 1, At: 20, Token: 6, Trusted: true},
		{What: lockUnlock, Worker: 1, Process: 1, At: 22},
		{What: lockUnlocked, Worker: 1, Process: 1, At: 23, Error: "lost"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []lockHold{
		{worker: 1, lock: "x", read: true, called: 10, got: 13, token: 4, trusted: 15, stopped: 15, unlocked: 16},
		{worker: 2, lock: "x", called: 11, got: 17, token: 5, trusted: 17, stopped: 18, unlocked: never, killed: true, hit: true},
		{worker: 3, lock: "x", called: 12, got: never, stopped: never, unlocked: never},
		{process: 1, worker: 1, lock: "x", called: 12, got: 20, token: 6, trusted: 20, stopped: 22, unlocked: never},
	}
	if !slices.Equal(holds, want) {
		t.Errorf("got\n%+v, want\n%+v", holds, want)
	}
	if _, err := gatherHolds([]lockEvent{{What: lockGot, Worker: 1}}); err == nil {
		t.Error("a lock that was not asked for was got")
	}
}

// The players, in one process and without kills: their histories are accepted for
// locks that work, and refused for locks that expire under their holders.
func TestLockPlayers(t *testing.T) {
	t.Parallel()
	const clients, workers = 4, 8
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		takes := make([]takeLock, clients)
		for i := range takes {
			client, err := locks.New(store, locks.WithTiming(lockTiming))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := client.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			takes[i] = lockOf(client)
		}
		holds := playInBubble(t, takes, workers)
		if err := checkOverlaps(holds, lockGrace(t)); err != nil {
			t.Error(err)
		}
		if err := checkLinear(holds, lockGrace(t)); err != nil {
			t.Error(err)
		}
		t.Logf("locks: %d", len(holds))
	})
	synctest.Test(t, func(t *testing.T) {
		broken := &leakyLocks{of: map[string]*leakyLock{}}
		holds := playInBubble(t, slices.Repeat([]takeLock{broken.take}, clients), workers)
		if err := checkOverlaps(holds, lockGrace(t)); err == nil {
			t.Error("the check did not see two holders of a lock that expires")
		}
		if err := checkLinear(holds, lockGrace(t)); err == nil {
			t.Error("a lock that runs out passed for one")
		}
		t.Logf("broken locks: %d", len(holds))
	})
}

// playInBubble has workers take locks for some time.
func playInBubble(t *testing.T, takes []takeLock, workers int) []lockHold {
	t.Helper()
	began := time.Now()
	var mu sync.Mutex
	var events []lockEvent
	var group sync.WaitGroup
	finish, stop := context.WithCancel(t.Context())
	for process, take := range takes {
		player := &lockPlayer{
			take: take,
			now:  func() int64 { return int64(time.Since(began)) + 1 },
			say: func(e lockEvent) error {
				mu.Lock()
				defer mu.Unlock()
				e.Process = process
				events = append(events, e)
				return nil
			},
			finish: finish,
			quiet:  finish,
		}
		for w := range workers {
			group.Go(func() {
				if err := player.work(w, workers, rand.New(rand.NewPCG(uint64(process), uint64(w)))); err != nil {
					t.Error(err)
				}
			})
		}
	}
	time.Sleep(3 * time.Second) //nolint:forbidigo // in a synctest bubble
	stop()
	group.Wait()
	holds, err := gatherHolds(events)
	if err != nil {
		t.Fatal(err)
	}
	return holds
}

// leakyLocks are what many services use: a row with an expiry that is not renewed,
// and which the next client takes once it has passed. Its holder is not told.
type leakyLocks struct {
	mu    sync.Mutex
	token uint64
	of    map[string]*leakyLock // by name: the newest
}

// leakyLock is one of them while it is held.
type leakyLock struct {
	locks   *leakyLocks
	name    string
	token   uint64
	expires time.Time
}

// take ignores whether the caller only reads: a correct lock may do so.
func (l *leakyLocks) take(ctx context.Context, name string, _ bool) (playedLock, error) {
	const expiry = 40 * time.Millisecond // between a usual hold and a long one
	for ctx.Err() == nil {
		l.mu.Lock()
		if held := l.of[name]; held == nil || time.Now().After(held.expires) {
			l.token++
			lock := &leakyLock{l, name, l.token, time.Now().Add(expiry)}
			l.of[name] = lock
			l.mu.Unlock()
			return lock, nil
		}
		l.mu.Unlock()
		idle(ctx, time.Millisecond)
	}
	return nil, ctx.Err()
}

func (l *leakyLock) Context() context.Context { return context.Background() }
func (l *leakyLock) Token() uint64            { return l.token }
func (l *leakyLock) Trusted() bool            { return true }

func (l *leakyLock) Unlock(context.Context) error {
	l.locks.mu.Lock()
	defer l.locks.mu.Unlock()
	if l.locks.of[l.name] == l {
		delete(l.locks.of, l.name)
	}
	return nil
}
