package scheduler

import (
	"slices"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
	"github.com/cronlease/cronlease/store"
)

// The ledger inserts the runs that follow a move or a claim in the same transaction: those of jobs after another
// one with the move that records its success, and notices with both. The term takes them up when the
// statement has its answer. If that never comes, a later term finds them in the ledger, waiting.

// knowFollowers takes in the jobs that there are, as far as they follow others.
func (t *term) knowFollowers() {
	t.reader.deep.Store(slices.ContainsFunc(t.roll.order, func(e *entry) bool { return e.job.PauseAfter > 0 || e.isNotifier() }))
	t.followers.Know(func(yield func(*jobs.Job) bool) {
		for _, e := range t.roll.order {
			if !yield(&e.job.Job) {
				return
			}
		}
	})
}

// answered takes in what has become of followers: whether the ledger has inserted them.
func (t *term) answered(of jobs.Record, followers []store.Follower, inserted bool) {
	t.followers.Answered(followers, inserted)
	t.countAgain()
	if inserted && t.role != serves { // then the leader finds them
		t.followed(of, followers)
	}
}

// followed takes up what the ledger has inserted with a move of a run, or with a claim.
func (t *term) followed(of jobs.Record, followers []store.Follower) {
	keeps := t.holder.Keeps(jobs.Waiting, store.Assignee{})
	for _, f := range followers {
		e := t.roll.entries[f.Job]
		if e == nil || e.IsRemoved() {
			t.reader.soon() // it is found by the term that has the job: maybe by this one, which takes it back just now
			continue
		}
		if e.runs[f.Key] != nil || t.stage == stopped {
			continue
		}
		now := t.now()
		t.found(e, jobs.Record{
			Key: f.Key, State: jobs.Waiting, Owner: keeps.Owner, Token: keeps.Token, HasArgs: of.HasArgs || f.Args != nil, Backfill: f.Backfill,
			Claimed: t.clock.Theirs(now), Due: now.Add(f.Delay),
		}, now)
	}
}

// lineUp puts a run of a job after another one at the end of the job's line, unless it
// came in a pause or the line is full.
func (t *term) lineUp(r *run) {
	if why := r.entry.LineUp(t.clock.Ours(r.record.Claimed), t.roll.pauses); why != "" {
		t.close(r, jobs.Skipped, why)
	} else {
		t.enqueue(r, 0)
	}
}

// leftOut tells of the notices that limits leave out, and returns the runs that follow.
func (t *term) leftOut(all []store.Follower, left []plan.LeftOut) []store.Follower {
	for _, x := range left {
		t.stream.Emit(event.NoticeLeftOut{Header: t.head(), Notifier: x.Notifier, Event: x.Event, Key: x.Key, Again: x.Again, First: x.First})
	}
	return all
}
