package plan

import (
	"encoding/json"
	"iter"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Followers decides which runs follow others: those of jobs after another one, of notifiers, and of
// backfills. The ledger inserts them in the transaction that records what they follow, a move or a claim.
type Followers struct {
	holder   store.Holder
	children map[string][]string // the jobs that follow a job
	telling  map[jobs.NoticeEvent]telling
	budgets  map[string]*budget
	untold   map[jobs.Key]func() // takes a notice back that the ledger has not answered for
}

// telling has the notifiers that tell of an event: of all jobs, and of some.
type telling struct {
	all   []notifier
	named map[string][]notifier
}

type notifier struct {
	name string
	as   jobs.NotifySchedule
}

// LeftOut is a notice that a limit leaves out.
type LeftOut struct {
	Notifier string
	Event    jobs.NoticeEvent
	Key      jobs.Key // of what it would tell
	Again    bool     // the notifier was told the same of the job before
	First    bool     // for as long as the limit counts
}

// NewFollowers returns those of a term that knows no job yet.
func NewFollowers(holder store.Holder) Followers {
	return Followers{holder: holder, budgets: map[string]*budget{}, untold: map[jobs.Key]func(){}}
}

// Know takes in the jobs that there are.
func (f *Followers) Know(all iter.Seq[*jobs.Job]) {
	f.children, f.telling = map[string][]string{}, map[jobs.NoticeEvent]telling{}
	for job := range all {
		switch s := job.Schedule.(type) {
		case jobs.AfterSchedule:
			f.children[s.Job()] = append(f.children[s.Job()], job.Name)
		case jobs.NotifySchedule:
			f.knowNotifier(notifier{job.Name, s})
		}
	}
}

func (f *Followers) knowNotifier(n notifier) {
	for _, event := range []jobs.NoticeEvent{jobs.NoticeFailure, jobs.NoticeRecovery, jobs.NoticeMissed} {
		to := f.telling[event]
		if to.named == nil {
			to.named = map[string][]notifier{}
		}
		named, all := n.as.Jobs(event)
		if all {
			to.all = append(to.all, n)
		}
		for _, name := range named {
			to.named[name] = append(to.named[name], n)
		}
		f.telling[event] = to
	}
}

// Of are the jobs that follow a job, and those that tell of it.
func (f *Followers) Of(job string) []string { return slices.Concat(f.children[job], f.Telling(job)) }

// Telling are the jobs that tell of the ends of a job.
func (f *Followers) Telling(job string) (names []string) {
	for _, event := range []jobs.NoticeEvent{jobs.NoticeFailure, jobs.NoticeRecovery} {
		for _, n := range f.notifiers(event, job) {
			names = append(names, n.name)
		}
	}
	return names
}

// notifiers are those that tell of an event of a job.
func (f *Followers) notifiers(of jobs.NoticeEvent, job string) []notifier {
	to := f.telling[of]
	return slices.Concat(to.all, to.named[job])
}

// OfEnd returns the runs that follow a run that comes to an end: those of jobs after its job, if it has
// succeeded, the notices of its end, and the next one of its backfill, unless that was cancelled with it. isNotifier
// says that its job tells of others: nothing tells of it.
func (f *Followers) OfEnd(e RunEnd, isNotifier bool, now time.Time) (all []store.Follower, left []LeftOut) {
	if !e.To.Over() {
		return nil, nil
	}
	k := e.Record.Key
	if e.To == jobs.Succeeded {
		for _, name := range f.children[k.Job] {
			all = append(all, store.Follower{Key: jobs.Key{Job: name, Tick: k.Tick, Trigger: triggers.After(k.Job, k.Trigger, f.holder.Token)}})
		}
	}
	if !isNotifier {
		var notices []store.Follower
		notices, left = f.noticesOfEnd(e, now)
		all = append(all, notices...)
	}
	next, every, ok := e.Record.NextOfBackfill()
	if ok && !e.Cancelled {
		k.Tick = next
		all = append(all, store.Follower{Key: k, Delay: max(0, every-e.Took), Backfill: e.Record.Backfill})
	}
	return all, left
}

func (f *Followers) noticesOfEnd(e RunEnd, now time.Time) ([]store.Follower, []LeftOut) {
	r := e.Record
	is := jobs.Notice{
		Job: r.Job, Tick: r.Tick, Trigger: r.Trigger, State: e.To, Attempt: r.Attempt, Error: ledgerrows.CutError(e.Why), Owner: r.Owner,
	}
	switch {
	case e.says() == store.JobFails:
		is.Event = jobs.NoticeFailure
	case e.Recovers:
		is.Event = jobs.NoticeRecovery
	case e.To == jobs.Skipped && IsMissed(e.Why):
		is.Event, is.Missed = jobs.NoticeMissed, 1
	default:
		return nil, nil
	}
	return f.tell(is, now)
}

// OfClaim returns the notices of ticks that a claim deals with.
func (f *Followers) OfClaim(c store.Claim, now time.Time) ([]store.Follower, []LeftOut) {
	is := jobs.Notice{
		Event: jobs.NoticeMissed, Job: c.Job, Tick: c.Tick, State: c.State, Error: ledgerrows.CutError(c.Error), Owner: f.holder.Owner, Missed: c.Missed,
	}
	switch {
	case c.State == jobs.Skipped && IsMissed(c.Error):
		is.Missed = 1 + c.Missed
	case c.State == jobs.Skipped || c.Missed == 0:
		return nil, nil
	case c.State == jobs.Running:
		is.Attempt = 1
	}
	return f.tell(is, now)
}

// tell returns the runs that tell of an event, as far as the limits of their jobs allow.
func (f *Followers) tell(is jobs.Notice, now time.Time) (all []store.Follower, left []LeftOut) {
	is.Group, is.Kind = f.holder.Group, triggers.KindOf(is.Trigger)
	if _, n := triggers.ShardOf(is.Trigger); n > 0 { // what becomes of it is told of its job's run
		return nil, nil
	}
	for _, to := range f.notifiers(is.Event, is.Job) {
		b := f.budgets[to.name]
		if b == nil {
			b = &budget{}
			f.budgets[to.name] = b
		}
		undo := func() {}
		if most, per, limited := to.as.Limit(); limited {
			var again bool
			if undo, again = b.take(Told{At: now, job: is.Job, event: is.Event}, most, per); undo == nil {
				left = append(left, LeftOut{
					Notifier: to.name, Event: is.Event, Key: jobs.Key{Job: is.Job, Tick: is.Tick, Trigger: is.Trigger},
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
		run := store.Follower{Key: jobs.Key{Job: to.name, Tick: is.Tick, Trigger: triggers.Notice(what, is.Job, is.Trigger, f.holder.Token)}, Args: args}
		leftOut := is.LeftOut
		f.untold[run.Key] = func() {
			undo()
			b.leftOut += leftOut
		}
		all = append(all, run)
	}
	return all, left
}

// Untold reports whether the ledger has not answered yet for notices.
func (f *Followers) Untold() bool { return len(f.untold) > 0 }

// Answered takes in whether the ledger has inserted runs that follow.
func (f *Followers) Answered(all []store.Follower, inserted bool) {
	for _, run := range all {
		undo := f.untold[run.Key]
		delete(f.untold, run.Key)
		if undo != nil && !inserted {
			undo()
		}
	}
}

// Count takes in which notices a notifier had lately, of earlier terms. It reports false where this term
// has counted itself.
func (f *Followers) Count(notifier string, sent []Told) bool {
	if f.budgets[notifier] != nil {
		return false
	}
	f.budgets[notifier] = &budget{sent: sent}
	return true
}

// Recount takes in which notices a notifier had lately, of all replicas, and what they tell.
func (f *Followers) Recount(notifier string, sent []Told, tells map[jobs.Key]jobs.Notice) {
	b := &budget{sent: sent}
	if was := f.budgets[notifier]; was != nil {
		b.leftOut, b.logged = was.leftOut, was.logged
	}
	f.budgets[notifier] = b
	b.recall(tells)
}

// Recall takes in what notices of earlier terms tell.
func (f *Followers) Recall(notifier string, tells map[jobs.Key]jobs.Notice) {
	if b := f.budgets[notifier]; b != nil {
		b.recall(tells)
	}
}

// Keep is what is kept of the history of a job: of a notifier, at least what its limit counts.
func Keep(job *jobs.Job) jobs.History {
	h := job.History
	s, is := job.Schedule.(jobs.NotifySchedule)
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
