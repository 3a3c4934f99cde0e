package scheduler

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
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
	untold  map[jobs.Key]int // notices that the ledger has not answered for, with what they say was left out
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

// count takes in how many notices notifiers had lately.
func (n *notices) count(budgets map[string]*budget) {
	for name, b := range budgets {
		if n.budgets[name] == nil { // otherwise this term has counted itself
			n.budgets[name] = b
		}
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
	case to == jobs.Skipped && why == tooLate:
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
	case c.State == jobs.Skipped && (c.Error == missed || c.Error == tooLate):
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
		if most, per, limited := s.Limit(); limited {
			if ok, again := b.take(told{now, is.Job, is.Event}, most, per); !ok {
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
		n.untold[f.Key] = is.LeftOut
		all = append(all, f)
	}
	return all
}

// answered takes in whether the ledger has inserted notices of a job.
func (n *notices) answered(job string, followers []store.Follower, inserted bool) {
	for _, f := range followers {
		if leftOut, ok := n.untold[f.Key]; ok {
			delete(n.untold, f.Key)
			if b := n.budgets[f.Job]; !inserted && b != nil {
				b.giveBack(job, leftOut)
			}
		}
	}
}

// budget is how many notices a notifier may still have. The term's loop owns it.
type budget struct {
	sent    []told          // the newest notices that count, oldest first
	failing map[string]told // of each job whose failure is the last that was told of it, and not its recovery
	leftOut int             // since the last one
	logged  time.Time       // when the log last said so
}

// told is a notice that was sent. Of one that an earlier term sent, only the instant is known.
type told struct {
	at    time.Time
	job   string
	event jobs.NoticeEvent
}

// take counts a notice if its notifier may have it. again says that the notifier was told
// the same of the job before.
//
// The limit is for all jobs together, so no job may use it up for the others:
//   - News takes what there is of the limit: that a job fails, works again, or misses ticks.
//   - A repeat is told at intervals, and leaves a quarter of the limit for news.
//   - A job that fails and works in turn gets a quarter of the limit.
//   - The recovery from a failure that was told is always told, so that nobody believes that the
//     job still fails, and does not count.
func (b *budget) take(n told, most int, per time.Duration) (ok, again bool) {
	if n.event == jobs.NoticeRecovery && !b.failing[n.job].at.IsZero() {
		delete(b.failing, n.job)
		return true, false
	}
	b.sent = slices.DeleteFunc(b.sent, func(x told) bool { return n.at.Sub(x.at) >= per })
	share, last, of := max(2, most/4), b.failing[n.job], 0
	for _, x := range b.sent {
		if x.job == n.job {
			if of++; x.event == n.event && n.event != jobs.NoticeFailure {
				last = x
			}
		}
	}
	again = last.event == n.event && n.at.Sub(last.at) < per
	switch {
	case len(b.sent) >= most:
	case again:
		ok = n.at.Sub(last.at) >= per/time.Duration(share) && len(b.sent) < most-most/4
	default:
		ok = of < share
	}
	if !ok {
		b.leftOut++
		return false, again
	}
	b.sent = append(b.sent, n)
	if n.event == jobs.NoticeFailure {
		if b.failing == nil {
			b.failing = map[string]told{}
		}
		b.failing[n.job] = n
	}
	return true, again
}

// giveBack takes back a notice that was not inserted: the newest one of the job.
func (b *budget) giveBack(job string, leftOut int) {
	for i, x := range slices.Backward(b.sent) {
		if x.job == job {
			b.sent = slices.Delete(b.sent, i, i+1)
			break
		}
	}
	delete(b.failing, job)
	b.leftOut += leftOut
}

// first reports whether this is the first notice that is left out for as long as the limit
// counts.
func (b *budget) first(now time.Time, per time.Duration) bool {
	if !b.logged.IsZero() && now.Sub(b.logged) < per {
		return false
	}
	b.logged = now
	return true
}

// readBudgets reads how many notices each of the notifiers had lately, so that a limit holds
// over a takeover. known is when a run of each last ended, and open what it has left: with
// neither, there is nothing to read.
func (v *env) readBudgets(ctx context.Context, of []*declared, snapshot jobs.Snapshot) (map[string]*budget, error) {
	budgets := map[string]*budget{}
	open := map[string]bool{}
	for _, r := range snapshot.Open {
		open[r.Job] = true
	}
	for _, job := range of {
		s, is := job.Schedule.(jobs.NotifySchedule)
		_, per, limited := s.Limit()
		if !is || !limited || !open[job.Name] && snapshot.Now.Sub(snapshot.Jobs[job.Name].Finished) >= per {
			continue
		}
		b := &budget{}
		err := v.retry(ctx, "count notices", func(ctx context.Context) (err error) {
			b.sent, err = v.sentLately(ctx, job.Name, per, snapshot.Now)
			return err
		})
		if err != nil {
			return nil, err
		}
		budgets[job.Name] = b
	}
	return budgets, nil
}

// sentLately is when the notices of a notifier were inserted, as far as they count, oldest
// first. The history is in the order of the ticks that they tell of, which may be any: those
// of a backfill are old.
func (v *env) sentLately(ctx context.Context, notifier string, per time.Duration, present time.Time) (sent []told, err error) {
	const page, pages = 1000, 50
	filter, now := jobs.Filter{Job: notifier, Limit: page}, time.Now()
	for range pages {
		records, err := v.db.Runs(ctx, v.holder.Group, filter)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if age := max(0, present.Sub(r.Claimed)); triggers.IsNotice(r.Trigger) && age < per {
				sent = append(sent, told{at: now.Add(-age)})
			}
		}
		if len(records) < page {
			break
		}
		filter.Behind = records[page-1].Key
	}
	slices.SortFunc(sent, func(a, b told) int { return a.at.Compare(b.at) })
	return sent, nil
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
