package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/internal/subprocess"
	"github.com/cronlease/cronlease/internal/workertest"
)

// lockProcess is a player that runs.
type lockProcess struct {
	number int
	cmd    *exec.Cmd
	in     io.WriteCloser
	ended  chan struct{}
	err    error // after ended
}

// lockGame is the processes that play for the locks of one database.
type lockGame struct {
	t      *testing.T
	role   lockRole
	random *rand.Rand
	all    []*lockProcess // owned by the test's goroutine
	alive  []*lockProcess // likewise

	mu     sync.Mutex
	events []lockEvent
	more   chan struct{} // closed and replaced with each event
}

// start starts another process.
func (g *lockGame) start() *lockProcess {
	g.t.Helper()
	role := g.role
	role.Seed = g.random.Uint64()
	text, err := json.Marshal(role)
	if err != nil {
		g.t.Fatal(err)
	}
	p := &lockProcess{number: len(g.all), cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), lockPlayerVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		g.t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		g.t.Fatal(err)
	}
	if err := subprocess.Go(p.cmd, func() { g.live(p, out) }); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	g.all, g.alive = append(g.all, p), append(g.alive, p)
	return p
}

// live reads the process's events and waits for its end.
func (g *lockGame) live(p *lockProcess, out io.Reader) {
	defer close(p.ended)
	for lines := json.NewDecoder(out); ; {
		e := lockEvent{}
		if err := lines.Decode(&e); err != nil {
			if !errors.Is(err, io.EOF) {
				g.t.Errorf("process %d: %v", p.number, err)
			}
			break
		}
		e.Process = p.number
		g.record(e)
	}
	p.err = p.cmd.Wait()
}

func (g *lockGame) record(e lockEvent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events = append(g.events, e)
	close(g.more)
	g.more = make(chan struct{})
}

// wait returns once match has been true of an event that is recorded from now
// on.
func (g *lockGame) wait(what string, match func(lockEvent) bool) {
	g.t.Helper()
	deadline := time.After(workertest.Patience)
	g.mu.Lock()
	seen := len(g.events)
	g.mu.Unlock()
	for {
		g.mu.Lock()
		events, more := g.events[seen:], g.more
		seen = len(g.events)
		g.mu.Unlock()
		if slices.ContainsFunc(events, match) {
			return
		}
		select {
		case <-more:
		case <-deadline:
			g.t.Fatalf("not seen within %v: %s", workertest.Patience, what)
		}
	}
}

// moment is what a process does when it is killed.
type moment int

const (
	anything moment = iota
	holding         // a lock, for long
	waiting         // for a lock that another process holds for long
	moments
)

// kill kills one of the processes and returns when.
func (g *lockGame) kill(doing moment) int64 {
	g.t.Helper()
	at := g.random.IntN(len(g.alive))
	if doing != anything {
		type worker struct{ process, number int }
		kept := map[worker]int{}
		g.wait("a process that holds a lock for long", func(e lockEvent) bool {
			w := worker{e.Process, e.Worker}
			if e.What != lockKept {
				delete(kept, w)
				return false
			}
			kept[w]++
			victim := e.Process
			if doing == waiting {
				victim = g.waiter(e)
			}
			at = slices.IndexFunc(g.alive, func(p *lockProcess) bool { return p.number == victim })
			return kept[w] > usualSteps && at >= 0
		})
	}
	victim := g.alive[at]
	g.alive = slices.Delete(g.alive, at, at+1)
	killed := monotonic()
	if err := victim.cmd.Process.Kill(); err != nil {
		g.t.Fatal(err)
	}
	<-victim.ended
	g.record(lockEvent{What: lockKilled, Process: victim.number, At: killed})
	return killed
}

// waiter is a process that waits for the lock whose holder has just said that it
// keeps it; -1 when there is none.
func (g *lockGame) waiter(holder lockEvent) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	type worker struct{ process, number int }
	asked, waits := map[worker]string{}, map[worker]bool{}
	for _, e := range g.events {
		w := worker{e.Process, e.Worker}
		if e.What == lockCalled {
			asked[w] = e.Lock
		}
		waits[w] = e.What == lockCalled
	}
	for _, p := range g.alive {
		for number := range g.role.Workers {
			w := worker{p.number, number}
			if waits[w] && p.number != holder.Process && asked[w] == asked[worker{holder.Process, holder.Worker}] {
				return p.number
			}
		}
	}
	return -1
}

// Processes that take a mutex and a read-write lock are killed, again and again.
// No process holds a lock beside a writer; all observations can be put in an order
// in which the locks work and their tokens grow; and no waiter is forgotten.
// CRONLEASE_SEED replays the decisions.
func TestLocksOfKilledProcesses(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			playForLocks(t, lockRole{Kind: kind, DSN: dbtest.Fresh(t, kind).DSN, Workers: 16}, rounds.Of(t, int(moments)))
		})
	}
	t.Run(workertest.SQLite, func(t *testing.T) {
		t.Parallel()
		// It has one writer at a time for all that goes on.
		playForLocks(t, lockRole{Kind: workertest.SQLite, DSN: filepath.Join(t.TempDir(), "locks.db"), Workers: 4}, rounds.Of(t, int(moments)))
	})
}

func playForLocks(t *testing.T, role lockRole, kills int) {
	t.Helper()
	const processes = 4
	seed := rounds.Seed(t)
	t.Logf("CRONLEASE_SEED=%d", seed)
	store, err := role.open()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(store.Migrate(t.Context()), store.Close()); err != nil {
		t.Fatal(err)
	}

	g := &lockGame{t: t, role: role, random: rand.New(rand.NewPCG(seed, 0)), more: make(chan struct{})}
	for range processes {
		g.start()
	}
	var last int64
	// A process may have let go by the time that the kill reaches it.
	for i := 0; i < kills || !g.hasHitHolder() && i < 10*kills; i++ {
		idle(t.Context(), time.Duration(500+g.random.IntN(1700))*time.Millisecond)
		last = g.kill(moment(i) % moments)
		g.start()
	}
	g.beQuiet()
	g.waitForEach(last)
	g.finish()

	holds, err := gatherHolds(g.events)
	if err != nil {
		t.Fatal(err)
	}
	grace := lockGrace(t)
	if err := checkOverlaps(holds, grace); err != nil {
		t.Error(err)
	}
	began := time.Now()
	if err := checkLinear(holds, grace); err != nil {
		t.Error(err)
	}
	t.Logf("the order was found in %v", time.Since(began))
	checkWaits(t, holds, last)
	checkFaults(t, holds, g.events)
}

// hasHitHolder reports whether a process was killed while it held a lock.
func (g *lockGame) hasHitHolder() bool {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	holds, err := gatherHolds(g.events)
	if err != nil {
		g.t.Fatal(err)
	}
	return slices.ContainsFunc(holds, func(h lockHold) bool { return h.hit })
}

// beQuiet asks all processes to hold no lock for long.
func (g *lockGame) beQuiet() {
	g.t.Helper()
	for _, p := range g.alive {
		if _, err := fmt.Fprintln(p.in); err != nil {
			g.t.Fatal(err)
		}
	}
}

// waitForEach returns once every worker of the live processes was granted a lock
// after the instant.
func (g *lockGame) waitForEach(after int64) {
	g.t.Helper()
	type worker struct{ process, number int }
	missing := map[worker]bool{}
	for _, p := range g.alive {
		for w := range g.role.Workers {
			missing[worker{p.number, w}] = true
		}
	}
	g.wait("every worker with a lock", func(e lockEvent) bool {
		if e.What == lockGot && e.At > after {
			delete(missing, worker{e.Process, e.Worker})
		}
		return len(missing) == 0
	})
}

// finish ends all processes, once every waiter has had the lock.
func (g *lockGame) finish() {
	g.t.Helper()
	for _, p := range g.alive {
		_ = p.in.Close()
	}
	deadline := time.After(workertest.Patience)
	for _, p := range g.alive {
		select {
		case <-p.ended:
			if p.err != nil {
				g.t.Errorf("process %d: %v", p.number, p.err)
			}
		case <-deadline:
			g.t.Fatalf("process %d has not ended within %v: a call waits still", p.number, workertest.Patience)
		}
	}
}

// checkWaits fails when a waiter got a lock much later than the last kill, or than
// it asked for it, or never. A crashed holder costs a TTL, then each waiter in the
// queue holds the lock for a while, and each ring that is lost would cost a second.
func checkWaits(t *testing.T, holds []lockHold, last int64) {
	t.Helper()
	most := lockTiming.TTL + 14*time.Second // with a line of 48 on a busy machine
	var waits []time.Duration
	for _, h := range holds {
		switch {
		case h.killed:
		case h.got == never:
			t.Errorf("%s: a call of worker %d.%d was not answered", h.lock, h.process, h.worker)
		case h.got > last:
			waits = append(waits, time.Duration(h.got-max(h.called, last)))
		}
	}
	slices.Sort(waits)
	longest := waits[len(waits)-1]
	t.Logf("%d locks after the last kill, after %v (median) and %v at most", len(waits), waits[len(waits)/2], longest)
	if longest > most {
		t.Errorf("a call waited for %v after the last kill, more than %v", longest, most)
	}
}

// checkFaults counts what happened, and fails when it was not what the test is
// for.
func checkFaults(t *testing.T, holds []lockHold, events []lockEvent) {
	t.Helper()
	counts := map[string]int{}
	var slowest time.Duration
	for _, h := range holds {
		if h.got == never {
			if h.killed {
				counts["killed waiting"]++
			}
			continue
		}
		counts[h.lock+" locks"]++
		if h.read {
			counts["by readers"]++
		}
		if !h.hit {
			continue
		}
		counts["killed holding"]++
		next := lockHold{got: never}
		for _, o := range holds {
			if o.lock == h.lock && o.got > h.stopped && o.got < next.got && (!o.read || !h.read) && o.process != h.process {
				next = o
			}
		}
		if next.got == never {
			continue
		}
		counts["taken over"]++
		if next.called < h.stopped && !slices.ContainsFunc(events, func(e lockEvent) bool {
			return e.What == lockKilled && e.At > h.stopped && e.At < next.got
		}) {
			slowest = max(slowest, time.Duration(next.got-h.stopped))
		}
	}
	failures := map[string]int{}
	for _, e := range events {
		if e.What == lockKilled {
			counts["kills"]++
		}
		if e.Error != "" {
			failures[e.What+": "+e.Error]++
		}
		if strings.Contains(e.Error, "changed by another program") {
			t.Errorf("process %d: %s, although no other program changes rows", e.Process, e.Error)
		}
	}
	t.Logf("%v; taken over after %v at most by waiters while no other process was killed; refused or lost: %v", counts, slowest, failures)
	for _, want := range []string{mutexName + " locks", rwMutexName + " locks", "by readers", "killed holding", "killed waiting", "taken over"} {
		if counts[want] == 0 {
			t.Errorf("%q never happened", want)
		}
	}
}
