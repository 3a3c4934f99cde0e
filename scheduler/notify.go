package scheduler

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
	"github.com/cronlease/cronlease/store"
)

// A notifier gets its runs as a job after another one does: the ledger inserts a notice in
// the transaction that records what it tells of, a move or a claim. See pipeline.go.

// notify says whether a job is a notifier, and what it tells of.
func (e *entry) notify() (jobs.NotifySchedule, bool) {
	s, ok := e.job.Schedule.(jobs.NotifySchedule)
	return s, ok
}

// notices are what a term knows of its notifiers, and what it tells them.
type notices struct {
	*env
	telling map[jobs.NoticeEvent]telling
	budgets map[string]*budget
	untold  map[jobs.Key]func() // takes a notice back that the ledger has not answered for
}

// telling has the notifiers that tell of an event: of all jobs, and of some.
type telling struct {
	all   []*entry
	named map[string][]*entry
}

// know takes in the jobs that there are.
func (n *notices) know(order []*entry) {
	n.telling = map[jobs.NoticeEvent]telling{}
	for _, event := range []jobs.NoticeEvent{jobs.NoticeFailure, jobs.NoticeRecovery, jobs.NoticeMissed} {
		to := telling{named: map[string][]*entry{}}
		for _, e := range order {
			s, _ := e.notify()
			named, all := s.Jobs(event)
			if all {
				to.all = append(to.all, e)
			}
			for _, name := range named {
				to.named[name] = append(to.named[name], e)
			}
		}
		n.telling[event] = to
	}
}

// notifiers are those that tell of an event of a job.
func (n *notices) notifiers(of jobs.NoticeEvent, job string) []*entry {
	to := n.telling[of]
	return slices.Concat(to.all, to.named[job])
}

// ofEnd returns the notices of a run that comes to its end.
func (n *notices) ofEnd(x end) []store.Follower {
	r, to, why := x.run, x.move.To, x.move.Error
	if _, notifier := r.entry.notify(); notifier {
		return nil
	}
	is := jobs.Notice{
		Job: r.record.Job, Tick: r.record.Tick, Trigger: r.record.Trigger,
		State: to, Attempt: r.record.Attempt, Error: ledgerrows.CutError(why), Owner: r.record.Owner,
	}
	switch {
	case x.says == store.JobFails:
		is.Event = jobs.NoticeFailure
	case x.recovers:
		is.Event = jobs.NoticeRecovery
	case to == jobs.Skipped && why == plan.TooLate:
		is.Event, is.Missed = jobs.NoticeMissed, 1
	default:
		return nil
	}
	return n.tell(is)
}

// ofClaim returns the notices of ticks that a claim deals with.
func (n *notices) ofClaim(c store.Claim) []store.Follower {
	is := jobs.Notice{
		Event: jobs.NoticeMissed, Job: c.Job, Tick: c.Tick, State: c.State, Error: ledgerrows.CutError(c.Error), Owner: n.holder.Owner, Missed: c.Missed,
	}
	switch {
	case c.State == jobs.Skipped && plan.IsMissed(c.Error):
		is.Missed = 1 + c.Missed
	case c.State == jobs.Skipped || c.Missed == 0:
		return nil
	case c.State == jobs.Running:
		is.Attempt = 1
	}
	return n.tell(is)
}

// tell returns the runs that tell of an event, as far as the limits of their jobs allow.
func (n *notices) tell(is jobs.Notice) (all []store.Follower) {
	is.Group, is.Kind = n.holder.Group, triggers.KindOf(is.Trigger)
	now := time.Now()
	for _, e := range n.notifiers(is.Event, is.Job) {
		s, _ := e.notify()
		b := n.budgets[e.job.Name]
		if b == nil {
			b = &budget{}
			n.budgets[e.job.Name] = b
		}
		undo := func() {}
		if most, per, limited := s.Limit(); limited {
			var again bool
			if undo, again = b.take(told{at: now, job: is.Job, event: is.Event}, most, per); undo == nil {
				n.stream.Emit(event.NoticeLeftOut{
					Header: n.head(), Notifier: e.job.Name, Event: is.Event, Key: jobs.Key{Job: is.Job, Tick: is.Tick, Trigger: is.Trigger},
					Again: again, First: !again && b.first(now, per),
				})
				continue
			}
		}
		is.LeftOut, b.leftOut = b.leftOut, 0
		is.Text = is.Describe()
		args, _ := json.Marshal(is) // never fails
		// With the state: a tick that stands for missed ones may be too late itself, later on.
		what := string(is.Event) + " " + is.State.String()
		f := store.Follower{Key: jobs.Key{Job: e.job.Name, Tick: is.Tick, Trigger: triggers.Notice(what, is.Job, is.Trigger, n.holder.Token)}, Args: args}
		leftOut := is.LeftOut
		n.untold[f.Key] = func() {
			undo()
			b.leftOut += leftOut
		}
		all = append(all, f)
	}
	return all
}

// answered takes in whether the ledger has inserted notices.
func (n *notices) answered(followers []store.Follower, inserted bool) {
	for _, f := range followers {
		undo := n.untold[f.Key]
		delete(n.untold, f.Key)
		if undo != nil && !inserted {
			undo()
		}
	}
}

// keep is what is kept of the history of a job: of a notifier, at least what its limit counts.
func (e *entry) keep() jobs.History {
	h := e.job.History
	s, is := e.notify()
	if most, per, limited := s.Limit(); is && limited {
		if h.Keep > 0 {
			h.Keep = max(h.Keep, most)
		}
		if h.For > 0 {
			h.For = max(h.For, per)
		}
	}
	return h
}

// testNotice is what a notifier is told that was triggered without arguments.
func testNotice(run jobs.Run) json.RawMessage {
	n := jobs.Notice{
		Event: jobs.NoticeTest, Group: run.Group, Job: run.Job, Tick: run.Tick, Trigger: run.Trigger, Kind: triggers.KindOf(run.Trigger),
		Attempt: run.Attempt, Owner: run.Owner,
	}
	n.Text = n.Describe()
	args, _ := json.Marshal(n) // never fails
	return args
}
