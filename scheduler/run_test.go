package scheduler

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/clocks"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/internal/stream"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
	"github.com/cronlease/cronlease/scheduler/internal/roster"
	"github.com/cronlease/cronlease/scheduler/internal/tickclock"
	"github.com/cronlease/cronlease/store"
)

var noon = time.Date(2026, time.March, 28, 12, 0, 0, 0, time.UTC)

// bareTerm is a term without a loop: what it writes stays in wrote.
func bareTerm(declared ...jobs.Job) *term {
	t := &term{
		env: &env{
			holder: store.Holder{Group: "g", Owner: "me", Token: 7}, log: zap.NewNop(), ctx: context.Background(), clock: tickclock.New(tickclock.Config{Own: clocks.Now}),
			stream: stream.New(zap.NewNop()), registry: &registry{}, inbox: make(chan func(*term)), closed: make(chan struct{}),
		},
		roll: roll{entries: map[string]*entry{}}, outcomes: outcomes{of: map[string]*standing{}}, timers: map[*time.Timer]struct{}{},
	}
	t.followers, t.janitor.roster = plan.NewFollowers(t.holder), roster.New(roster.Config{})
	t.wrote = newWriter(t)
	for _, job := range declared {
		e := newEntry("g", declare(job, false))
		t.roll.entries[job.Name], t.roll.order = e, append(t.roll.order, e)
	}
	return t
}

// written answers the moves that are to be written, and returns what they were.
func (t *term) written(done bool) (moves []jobs.State) {
	for _, w := range t.wrote.moves.TakeFresh() {
		moves = append(moves, w.moves[0].To)
		w.done(w, []bool{done})
	}
	return moves
}

func manualRun(n uint64) jobs.Record {
	return jobs.Record{Key: jobs.Key{Job: "job", Tick: noon, Trigger: n}, State: jobs.Waiting}
}

// A run that is over leaves nothing behind, whichever way it ended.
func TestNothingIsLeftOfARun(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]func(t *term, r *run){
		"its start is refused": func(t *term, r *run) { t.enqueue(r, 0); t.written(false) },
		"dropped while it waits for its time": func(t *term, r *run) {
			t.enqueue(r, time.Hour)
			t.interrupt(r, jobs.ErrCancelled)
			t.written(true)
		},
		"dropped while it waits for room": func(t *term, r *run) {
			var rest plan.Seat
			r.entry.Shift(&rest, r.record, plan.Resting)
			t.enqueue(r, 0)
			t.interrupt(r, jobs.ErrCancelled)
			r.entry.Shift(&rest, r.record, plan.Gone)
			t.freed(r.entry)
			t.written(true)
		},
		"dropped while it waits for a slot": func(t *term, r *run) {
			t.slots.most, t.slots.taken = 1, 1
			t.enqueue(r, 0)
			t.interrupt(r, jobs.ErrCancelled)
			t.slots.taken = 0
			t.freed(r.entry)
			t.written(true)
		},
		"dropped while its start is written": func(t *term, r *run) {
			t.enqueue(r, 0)
			t.interrupt(r, jobs.ErrCancelled)
			t.written(true)
			t.written(true)
		},
		"another term has the claim": func(t *term, r *run) {
			t.shift(r, plan.Running)
			t.claimed(r.entry, plan.Claims{Rows: []store.Claim{{Key: r.record.Key, State: jobs.Running}}}, []store.Claimed{{}}, nil)
		},
		"the claim has no answer": func(t *term, r *run) {
			t.shift(r, plan.Parking)
			t.claimed(r.entry, plan.Claims{Rows: []store.Claim{{Key: r.record.Key, State: jobs.Waiting}}}, nil, errTermOver)
		},
	} {
		term := bareTerm(jobs.Job{Name: "job", Schedule: jobs.Manual()})
		e := term.roll.entries["job"]
		way(term, term.take(e, manualRun(1)))
		if len(e.runs) > 0 || e.Room != (plan.Room{}) || term.slots.taken != 0 || len(e.blocked)+len(term.slots.ready)+len(term.wrote.moves.Fresh()) > 0 {
			t.Errorf("%s: %d runs, counts %v, %d running, %d to write", name, len(e.runs), e.Room, term.slots.taken, len(term.wrote.moves.Fresh()))
		}
	}
}

// A snapshot that is older than what the term has done since does no harm.
func TestStaleSnapshot(t *testing.T) {
	t.Parallel()
	term := bareTerm(jobs.Job{Name: "job", Schedule: jobs.Manual(), Overlap: jobs.OverlapAllow})
	snapshot := jobs.Snapshot{Open: []jobs.Record{manualRun(1)}}
	term.apply(snapshot)
	term.apply(snapshot)
	if moves := term.wrote.moves.Fresh(); len(moves) != 1 || moves[0].moves[0].To != jobs.Running {
		t.Fatalf("%+v", moves)
	}
	ended := manualRun(2)
	ended.State, ended.Owner, ended.Token, ended.Attempt = jobs.Running, "me", 7, 1
	term.apply(jobs.Snapshot{Open: []jobs.Record{ended}})
	// It may also be one that is not in hand. It is closed, if it is still as the
	// snapshot has it, and keeps no room until the ledger has answered.
	if moves := term.wrote.moves.Fresh(); len(moves) != 2 || moves[1].moves[0].To != jobs.Interrupted || moves[1].moves[0].Attempt != 1 {
		t.Errorf("a run of this term that is not in hand: %+v", moves)
	}
	if e := term.roll.entries["job"]; e.Busy() != 1 {
		t.Errorf("a run that is being closed keeps room: %v", e.Room)
	}
	term.stage = stopped
	ended.Owner, ended.Token = "another", 6
	term.apply(jobs.Snapshot{Open: []jobs.Record{ended}})
	if moves := term.wrote.moves.Fresh(); len(moves) != 2 {
		t.Errorf("after the term: %+v", moves)
	}
}

// Nothing of a term is left to wake up after it.
func TestTimersEndWithTheTerm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(*testing.T) {
		term := bareTerm()
		term.after(time.Hour, func() {})
		term.stopTimers()
		time.Sleep(2 * time.Hour)
		synctest.Wait() // it would wait for the loop, and the bubble could not end
	})
}

// The histories are pruned one after the other, and a busy job does not keep the
// others from it.
func TestPruneGoesRound(t *testing.T) {
	t.Parallel()
	job := func(name string) jobs.Job { return jobs.Job{Name: name, Schedule: jobs.Manual()} }
	term := bareTerm(job("a"), job("b"), job("c"))
	term.db, term.timing.AttemptTimeout = memdb.New(), time.Minute
	for i := range 7 {
		for _, e := range term.roll.order {
			e.history = history{ended: pruneEvery, at: time.Now().Add(time.Hour), atRest: time.Now().Add(time.Hour)}
		}
		term.prune()
		term.prune()
		if want := (i + 1) % 3; term.janitor.last != want || term.roll.order[want].history.ended != 0 {
			t.Errorf("turn %d: pruned %d", i, term.janitor.last)
		}
		for _, e := range term.roll.order {
			e.history.ended = 0
		}
		(<-term.inbox)(term)
		term.helpers.Wait()
	}
}

// A notifier that is removed while a tick is missed is told of none that is missed later.
func TestARemovedNotifierIsToldNothing(t *testing.T) {
	t.Parallel()
	a := jobs.Job{Name: "a", Schedule: jobs.Every(time.Minute), CatchUp: jobs.CatchUp{Deadline: time.Second}, Do: func(context.Context, jobs.Run) error { return nil }}
	term := bareTerm(a, jobs.Job{Name: "tell", Schedule: jobs.OnMissed("a")})
	term.knowFollowers()
	term.roll.list, term.roll.gone = newList(), map[string]bool{}
	if err := term.roll.list.add([]jobs.Job{a}); err != nil {
		t.Fatal(err)
	}
	r := term.take(term.roll.entries["a"], jobs.Record{Key: jobs.Key{Job: "a", Tick: noon}, State: jobs.Waiting})
	term.shift(r, plan.Ready)
	term.slots.ready = append(term.slots.ready, r)
	term.relist()
	close(term.closed)
	term.helpers.Wait()
	if moves := term.wrote.moves.Fresh(); len(moves) != 1 || len(moves[0].moves[0].Then) != 1 {
		t.Errorf("during the change, %+v is written", moves)
	}
	if to, _ := term.followers.OfClaim(store.Claim{Key: r.record.Key, State: jobs.Skipped, Error: plan.Missed}, time.Now()); len(to) > 0 {
		t.Errorf("after the change, %q is told", to[0].Job)
	}
}

// A row that is set aside while the replica drains starts nothing in the slot that it gives back.
func TestSetAsideInADrainStartsNothing(t *testing.T) {
	t.Parallel()
	for _, claims := range []bool{true, false} {
		job := func(name string) jobs.Job { return jobs.Job{Name: name, Schedule: jobs.Manual()} }
		term := bareTerm(job("job"), job("other"))
		term.slots.most = 1
		e := term.roll.entries["job"]
		r := term.take(e, manualRun(1))
		term.enqueue(r, 0) // takes the slot
		waits := manualRun(2)
		waits.Job = "other"
		term.enqueue(term.take(term.roll.entries["other"], waits), 0)
		start := term.wrote.moves.TakeFresh()
		term.stage = draining
		if claims {
			term.standAside(e, plan.Claims{Rows: []store.Claim{{Key: r.record.Key, State: jobs.Running}}})
		} else {
			start[0].aside(start[0])
		}
		if moves := term.wrote.moves.Fresh(); len(start) != 1 || len(moves) > 0 || term.slots.taken != 0 {
			t.Errorf("claims %v: %d starts, then %+v is written, and %d slots are taken", claims, len(start), moves, term.slots.taken)
		}
	}
}

// Whether a row that was set aside has been taken is not known until it has an answer: until then no other run of the job
// may be in its place.
func TestSetAsideKeepsItsRoom(t *testing.T) {
	t.Parallel()
	for _, claims := range []bool{true, false} {
		term := bareTerm(jobs.Job{Name: "job", Schedule: jobs.Manual()})
		e := term.roll.entries["job"]
		r := term.take(e, manualRun(1))
		term.enqueue(r, 0)
		term.enqueue(term.take(e, manualRun(2)), 0)
		start := term.wrote.moves.TakeFresh()
		if claims {
			term.standAside(e, plan.Claims{Rows: []store.Claim{{Key: r.record.Key, State: jobs.Running}}})
		} else {
			start[0].aside(start[0])
		}
		if moves := term.wrote.moves.Fresh(); len(start) != 1 || len(moves) > 0 {
			t.Errorf("claims %v: %d starts, then %+v is written", claims, len(start), moves)
		}
	}
}
