package scheduler

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/clocks"
	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/internal/stream"
	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/memory"
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
			trusted: func() bool { return true },
			holder:  store.Holder{Group: "g", Owner: "me", Token: 7}, log: zap.NewNop(), ctx: context.Background(), clock: tickclock.New(tickclock.Config{Own: clocks.Now}),
			stream: stream.New(zap.NewNop()), registry: &registry{}, inbox: make(chan func(*term)), closed: make(chan struct{}),
		},
		roll: roll{entries: map[string]*entry{}}, outcomes: outcomes{of: map[string]*standing{}}, timers: map[*time.Timer]struct{}{},
	}
	t.followers, t.janitor.roster = plan.NewFollowers(t.holder), roster.New(roster.Config{})
	t.wrote, t.reader = newWriter(t), newReader(t.env)
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

// looked ends a look at the ledger that waits to begin.
func (t *term) looked() {
	(<-t.reader.asks) <- false
	(<-t.inbox)(t)
}

func manualRun(n uint64) jobs.Record {
	return jobs.Record{Key: jobs.Key{Job: "job", Tick: noon, Trigger: n}, State: jobs.Waiting}
}

// A run that is over leaves nothing behind, whichever way it ended.
func TestNothingIsLeftOfARun(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]func(t *term, r *run){
		"its start is refused": func(t *term, r *run) { t.enqueue(r, 0); t.written(false); t.looked() },
		"its start is refused, since its end was asked for": func(t *term, r *run) {
			t.enqueue(r, 0)
			t.written(false)
			t.interrupt(r, jobs.ErrCancelled)
			t.looked()
			t.written(true)
		},
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
		"dropped in the backlog": func(t *term, r *run) {
			var rest plan.Seat
			r.entry.Shift(&rest, r.record, plan.Resting)
			t.hold(r, noon)
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
		if len(e.runs) > 0 || e.Room != (plan.Room{}) || term.slots.taken != 0 || len(e.blocked)+len(term.slots.pool("").line)+len(term.wrote.moves.Fresh()) > 0 {
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

// While the group is paused, a run of a backfill takes no room, though it waits for a slot; and one that is dropped does not
// stand in the way of the next.
func TestBackfillInAPauseTakesNoRoom(t *testing.T) {
	t.Parallel()
	term := bareTerm(jobs.Job{Name: "job", Schedule: jobs.Manual()})
	e := term.roll.entries["job"]
	term.roll.paused, term.slots.most, term.slots.taken = true, 1, 1
	r := term.take(e, manualRun(triggers.Backfill(noon)))
	term.hold(r, noon)
	if r.Phase() != plan.Held || len(e.backlog) != 1 {
		t.Errorf("it is in phase %v, and %d wait", r.Phase(), len(e.backlog))
	}
	term.interrupt(r, jobs.ErrCancelled)
	term.written(true)
	if len(e.backlog) > 0 {
		t.Error("it waits although it was dropped")
	}
}

// The ends of one job's runs go together, a hundred at a time, but all of them in the one statement that is left to them after the term.
func TestManyEndsGoTogether(t *testing.T) {
	t.Parallel()
	for over, want := range map[bool]int{false: endsAtOnce, true: 249} {
		term := bareTerm(jobs.Job{Name: "job", Schedule: jobs.Manual()})
		for n := range uint64(250) {
			r := term.take(term.roll.entries["job"], manualRun(n+1))
			term.record(r, move(r.record, jobs.Failed, "no"), 0, func(bool) {})
		}
		first := term.wrote.moves.TakeFresh()
		if over {
			term.wrote.cut()
		}
		first[0].done(first[0], []bool{true})
		if writes := term.wrote.moves.Fresh(); len(first) != 1 || len(first[0].moves) != 1 || len(writes) != 1 || len(writes[0].moves) != want {
			t.Errorf("over %t: first %d writes, then %d, the first of %d ends", over, len(first), len(writes), len(writes[0].moves))
		}
	}
}

// A history is pruned each hour and after many runs, and once a day where none ends; but not beside a young backfill.
func TestWhenAHistoryIsPruned(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ended       int
		after, keep time.Duration
		due         bool
	}{
		{0, 23 * time.Hour, 0, false},
		{0, 24 * time.Hour, 0, true},
		{1, time.Hour - 1, 0, false},
		{1, time.Hour, 0, true},
		{pruneEvery - 1, time.Minute, 0, false},
		{pruneEvery, time.Minute, 0, true},
		{pruneEvery, 2 * time.Hour, 3 * time.Hour, false},
	} {
		h := history{ended: test.ended, at: noon.Add(pruneAtLeast), atRest: noon.Add(pruneAtRest), keep: noon.Add(test.keep)}
		if due := h.isDue(noon.Add(test.after)); due != test.due {
			t.Errorf("%+v: due %t", test, due)
		}
	}
}

// A history is pruned batch by batch until nothing is left to delete. What fails is told, but not at the end of the term.
func TestPruneInBatches(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		deleted []int // by each batch; negative: it fails
		ended   bool
		lines   int
	}{
		"all":              {[]int{500, 500, 20, 0}, false, 0},
		"fails":            {[]int{500, -1}, false, 1},
		"the term is over": {[]int{500, -1}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term, batches := bareTerm(), 0
			ctx, cancel := context.WithCancel(t.Context())
			term.ctx, term.timing.AttemptTimeout = ctx, time.Minute
			term.janitor.archiveAt = time.Now().Add(time.Hour)
			core, logs := observer.New(zap.WarnLevel)
			term.pruneBeside(zap.New(core), "cannot prune", func(context.Context) (int, error) {
				n := test.deleted[batches]
				if batches++; n < 0 {
					return 0, errors.New("no")
				}
				return n, nil
			})
			answer := <-term.inbox
			if test.ended {
				cancel()
			}
			answer(term)
			cancel()
			if batches != len(test.deleted) || logs.Len() != test.lines || term.janitor.busy {
				t.Errorf("%d batches, %d lines, goes on %t", batches, logs.Len(), term.janitor.busy)
			}
		})
	}
}

// A tick that is claimed as skipped may have been claimed before, by a claim of this term that came late: then it is
// closed. One that the term has in hand comes to an end of its own, and those of other terms are theirs.
func TestSkippedTickThatCameLate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		claim  jobs.State
		stands store.Claimed
		inHand bool
		gained bool
		closed int
	}{
		"claimed":                 {jobs.Skipped, store.Claimed{Record: jobs.Record{State: jobs.Skipped, Token: 7}, Mine: true}, false, true, 0},
		"refused":                 {jobs.Skipped, store.Claimed{}, false, false, 0},
		"skipped, and came late":  {jobs.Skipped, store.Claimed{Record: jobs.Record{State: jobs.Running, Token: 7}}, false, true, 1},
		"started, and came late":  {jobs.Running, store.Claimed{Record: jobs.Record{State: jobs.Running, Token: 7}}, false, true, 0},
		"in hand":                 {jobs.Skipped, store.Claimed{Record: jobs.Record{State: jobs.Running, Token: 7}}, true, true, 0},
		"over":                    {jobs.Skipped, store.Claimed{Record: jobs.Record{State: jobs.Succeeded, Token: 7}}, false, false, 0},
		"claimed by another term": {jobs.Skipped, store.Claimed{Record: jobs.Record{State: jobs.Running, Token: 6}}, false, false, 0},
	} {
		term := bareTerm(jobs.Job{Name: "job", Schedule: jobs.Manual()})
		e := term.roll.entries["job"]
		test.stands.Key, test.stands.Owner = jobs.Key{Job: "job", Tick: noon}, term.holder.Owner
		if test.inHand {
			term.shift(term.take(e, test.stands.Record), plan.Running)
		}
		gained := term.gained(e, store.Claim{Key: test.stands.Key, State: test.claim, Error: plan.Missed}, test.stands)
		closed := term.wrote.moves.Fresh()
		if gained != test.gained || len(closed) != test.closed || test.closed > 0 && (closed[0].moves[0].To != jobs.Skipped || closed[0].moves[0].Error != plan.Missed) {
			t.Errorf("%s: gained %t, and writes %+v", name, gained, closed)
		}
	}
}

// What follows a run is taken up as soon as the ledger has it. That of a job which this term does not have any more is
// looked for: the job may be on its way back.
func TestFollowersAreTakenUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change        func(*term)
		taken, looked int
	}{
		"there":   {func(*term) {}, 1, 0},
		"removed": {func(t *term) { t.roll.entries["next"].Remove() }, 0, 1},
		"gone":    {func(t *term) { delete(t.roll.entries, "next") }, 0, 1},
		"stopped": {func(t *term) { t.stage = stopped }, 0, 0},
	} {
		term := bareTerm(jobs.Job{Name: "next", Schedule: jobs.After("job")})
		e := term.roll.entries["next"]
		test.change(term)
		term.followed(manualRun(1), []store.Follower{{Key: jobs.Key{Job: "next", Tick: noon, Trigger: 5}}})
		if len(e.runs) != test.taken || len(term.reader.look) != test.looked {
			t.Errorf("%s: %d runs are taken up, %d looks", name, len(e.runs), len(term.reader.look))
		}
	}
}

// One line tells that ticks have run which are still to come.
func TestTicksAheadAreTold(t *testing.T) {
	t.Parallel()
	for ahead, lines := range map[time.Duration]int{0: 0, plan.OnTime: 0, plan.OnTime + 1: 1, time.Hour: 1} {
		term := bareTerm(jobs.Job{Name: "job", Schedule: jobs.Every(time.Minute)})
		core, logs := observer.New(zap.WarnLevel)
		term.log = zap.New(core)
		e := term.roll.entries["job"]
		e.Cursor = plan.NewCursor(&e.job.Job, jobs.Known{Cursor: noon.Add(ahead)})
		term.tellAhead(noon)
		term.tellAhead(noon)
		if logs.Len() != lines {
			t.Errorf("%v ahead: %d lines, want %d", ahead, logs.Len(), lines)
		}
	}
}

// A job that was removed is forgotten once nothing of it is under way, unless another one has its name by then.
func TestARemovedJobIsForgotten(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*term, *entry)
		left   int
	}{
		"removed":       {func(_ *term, e *entry) { e.Remove() }, 0},
		"still there":   {func(*term, *entry) {}, 1},
		"a run goes on": {func(t *term, e *entry) { t.take(e, manualRun(1)); e.Remove() }, 1},
		"another one":   {func(t *term, e *entry) { e.Remove(); t.roll.entries["job"] = newEntry("g", e.job) }, 1},
	} {
		term := bareTerm(jobs.Job{Name: "job", Schedule: jobs.Manual()})
		e := term.roll.entries["job"]
		test.change(term, e)
		term.retired(e)
		if len(term.roll.entries) != test.left {
			t.Errorf("%s: %d jobs are left, want %d", name, len(term.roll.entries), test.left)
		}
	}
}

// A job that leaves the list again and again is noted once among those whose history is left to prune, beside the others.
func TestRemovedJobsAreNotedOnce(t *testing.T) {
	t.Parallel()
	term := bareTerm()
	term.roll.gone = map[string]bool{}
	for _, name := range []string{"a", "b", "a", "c", "b"} {
		term.leaveOut(name)
	}
	var noted []string
	for _, e := range term.janitor.strays {
		noted = append(noted, e.job.Name)
	}
	if slices.Sort(noted); !slices.Equal(noted, []string{"a", "b", "c"}) {
		t.Errorf("noted are %q", noted)
	}
}

// A notifier that is removed while a tick is missed is told of none that is missed later.
func TestARemovedNotifierIsToldNothing(t *testing.T) {
	t.Parallel()
	a := jobs.Job{Name: "a", Schedule: jobs.Every(time.Minute), CatchUp: jobs.CatchUp{Deadline: time.Second}, Do: func(context.Context, jobs.Run) error { return nil }}
	term := bareTerm(a, jobs.Job{Name: "tell", Schedule: jobs.OnMissed("a")})
	term.knowFollowers()
	term.roll.list, term.roll.gone = newList(false), map[string]bool{}
	if err := term.roll.list.add([]jobs.Job{a}); err != nil {
		t.Fatal(err)
	}
	r := term.take(term.roll.entries["a"], jobs.Record{Key: jobs.Key{Job: "a", Tick: noon}, State: jobs.Waiting})
	term.shift(r, plan.Ready)
	term.slots.lineUp(r)
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

// A reading that was sent before a doubt was there leaves it as it is: the next one ends the term.
func TestDoubtIsNotRenewed(t *testing.T) {
	t.Parallel()
	term := bareTerm(jobs.Job{Name: "job", Schedule: jobs.Every(time.Minute)})
	term.memory = memory.New(time.Minute, time.Second, false)
	var ended error
	term.cut = func(err error) { ended = err }
	known := jobs.Known{Since: noon, Cursor: noon.Add(time.Hour)}
	term.roll.entries["job"].Learn(known, noon.Add(2*time.Hour), time.Minute)
	known.Cursor = noon
	snapshot := jobs.Snapshot{Now: noon.Add(2 * time.Hour), Jobs: map[string]jobs.Known{"job": known}}
	before := time.Now()
	term.met(snapshot, before)
	after := time.Now()
	term.met(snapshot, before)
	if ended != nil {
		t.Fatal(ended)
	}
	term.met(snapshot, after)
	if !errors.Is(ended, election.ErrLost) {
		t.Errorf("after two readings that lack a tick, the term ended with %v", ended)
	}
}
