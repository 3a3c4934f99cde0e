package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
)

var errWork = errors.New("no luck")

// work is a run in progress. When it begins:
//
//   - its attempt has never been run, and is what the ledger says;
//   - its term is the group's present one, and trusted;
//   - no other run of the job is alive, unless the job allows that, and its
//     replica has no more runs than slots.
type work struct {
	jobs.Run
	replica *replica
	ctx     context.Context
	of      string // the lease that it runs under: the group's, or its replica's session
	term    uint64 // the token of that
	began   time.Time
	stood   bool // its process stood still meanwhile; guarded by w.mu
}

// do is what a job does: nothing for a while, then something that the fence
// guards. It stops within the grace.
func (r *replica) do(ctx context.Context, job jobs.Job, run jobs.Run) error {
	x := &work{Run: run, replica: r, ctx: ctx, of: group, term: run.Token, began: time.Now()}
	if r.mode {
		held := lease.Holds(ctx)
		x.of, x.term = store.SessionGroup(r.Owner()), held[len(held)-1].Token
	}
	r.w.begins(x)
	defer r.w.ends(x)
	h := rand.New(rand.NewPCG(uint64(run.Tick.UnixMicro()), uint64(run.Attempt)))
	took := time.Duration(h.Int64N(int64(r.release.work[job.Name])))
	if run.Attempt > 1 {
		took /= 8
	}
	stopping := grace - time.Millisecond
	if h.IntN(2) == 0 {
		stopping = time.Duration(h.Int64N(int64(grace)))
	}
	err := wait(ctx, took)
	r.host.await()
	if err != nil {
		select {
		case <-time.After(stopping):
		case <-r.killed:
			return err
		}
		r.host.await()
	}
	if r.link.dead.Load() {
		return errLink
	}
	r.w.effect(x)
	if err != nil {
		return err
	}
	switch h.IntN(12) {
	case 0, 1, 2:
		return errWork
	case 3:
		return jobs.Permanent(errWork)
	case 4:
		panic("boom")
	}
	return nil
}

func (w *world) begins(x *work) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.works[x] = struct{}{}
	w.counts["run"]++
	w.note("%s runs %v under %d, attempt %d", by(x.Owner), x.Key(), x.term, x.Attempt)
	r, holder := x.replica, w.terms(x.of).holder
	if r.dead {
		return
	}
	x.stood = r.justWoke()
	if x.term != holder.Token && w.absent(r, x.of, x.term) && !r.thawed.IsZero() {
		w.counts["began after a freeze"]++
		x.stood = true
		return // it cannot know
	}
	attempt := fmt.Sprint(x.Key(), x.Attempt)
	if w.rows.attempts[attempt] && !w.rows.excused[x.Key()] {
		w.failf("%s runs twice", attempt)
	}
	w.rows.attempts[attempt] = true
	row, ok := w.rows.rows[x.Key()]
	if !w.rows.excused[x.Key()] && (!ok || row.state != jobs.Running || row.attempt != x.Attempt || row.owner != x.Owner || row.token != x.term) {
		w.failf("%v runs under %d, attempt %d, but its row is %+v", x.Key(), x.term, x.Attempt, row)
	}
	if owner, _, _ := strings.Cut(row.only, "="); owner != "" && x.Owner != owner {
		w.failf("%v begins on %s, and is for %s", x.Key(), by(x.Owner), row.only)
	}
	// After an early takeover a run may begin that was claimed before: its job is left
	// alone.
	cut := x.of == group && time.Since(w.cut) < 3*ttl
	if (x.term != holder.Token || x.Owner != holder.Owner) && !w.rows.excused[x.Key()] && !cut {
		w.failf("%v begins under %d of %s, while %s holds %q under %d", x.Key(), x.term, by(x.Owner), by(holder.Owner), x.of, holder.Token)
	}
	if over, ok := r.over[x.term]; ok && x.of == group && time.Since(over) > 0 {
		w.failf("%v begins %v after its term", x.Key(), time.Since(over))
	}
	if since := time.Since(w.terms(x.of).renewed[x.term]); since > trustMost && r.thawed.IsZero() {
		w.failf("%v begins %v after the last heartbeat", x.Key(), since)
	}
	newest, beside := w.rows.fencing[x.Job], row.job.Overlap.Beside()
	if x.of != group && x.Token <= newest.token && !w.rows.excused[x.Key()] && (x.Token == newest.token || x.Shards == 0 && !beside && !newest.beside) {
		w.failf("%v begins under token %d, after one of its job under %+v", x.Key(), x.Token, newest)
	}
	if x.Token > newest.token {
		w.rows.fencing[x.Job] = begun{x.Token, beside}
	}
	ofJob, ofReplica, besideOne := 0, 0, false
	for y := range w.works {
		if y.stood || y.replica.dead || w.rows.excused[y.Key()] {
			continue
		}
		if y.Job == x.Job {
			ofJob++
			besideOne = besideOne || w.rows.rows[y.Key()].job.Overlap.Beside() // another leader may have had the job so
		}
		if y.replica == r {
			ofReplica++
		}
		isOther := !y.Tick.Equal(x.Tick) || x.Trigger-uint64(x.Shard) != y.Trigger-uint64(y.Shard)
		beside := row.job.Overlap.Beside() || w.rows.rows[y.Key()].job.Overlap.Beside()
		if x.Shards > 0 && y.Job == x.Job && isOther && !beside && !w.rows.excused[x.Key()] {
			w.failf("%v begins while %v runs, a shard of another run: both under %v", x.Key(), y.Key(), row.job.Overlap)
		}
	}
	if ofReplica > slots {
		w.failf("%d runs on a replica", ofReplica)
	}
	if j := row.job; ofJob > 1 && x.Shards == 0 && !w.rows.excused[x.Key()] && (!besideOne || j.Overlap.Beside() && j.Limit > 0 && ofJob > j.Limit) {
		w.failf("%d runs of %v at a time, under %v", ofJob, x.Job, j.Overlap)
	}
}

func (w *world) ends(x *work) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.works, x)
	cause := context.Cause(x.ctx)
	switch {
	case cause == nil || x.replica.dead:
	case errors.Is(cause, election.ErrLost):
		w.counts["run ended: lost"]++
	case errors.Is(cause, election.ErrStopped):
		w.counts["run ended: stopped"]++
	case errors.Is(cause, election.ErrResigned):
		w.counts["run ended: resigned"]++
	case errors.Is(cause, election.ErrStuck) && !w.peace:
		w.counts["run ended: stuck"]++
	case errors.Is(cause, scheduler.ErrSkew) && !w.peace && w.limit > 0:
		w.counts["run ended: clocks disagree"]++
	case errors.Is(cause, jobs.ErrTimeout), errors.Is(cause, jobs.ErrCancelled), errors.Is(cause, jobs.ErrReplacedByTick):
		w.counts["run ended for itself"]++
	default:
		w.failf("the context of %v ended with %v", x.Key(), cause)
	}
}
