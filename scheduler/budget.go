package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
)

// budget is how many notices a notifier may still have. The term's loop owns it.
type budget struct {
	sent    []told          // the newest notices that count, oldest first
	failing map[string]told // of each job whose failure is the last that was told of it, and not its recovery
	leftOut int             // since the last one
	logged  time.Time       // when the log last said so
}

// told is a notice that was sent.
type told struct {
	at    time.Time
	job   string // empty: an earlier term has sent it, and what it tells is not read yet
	event jobs.NoticeEvent
	run   jobs.Key // of the notifier, if an earlier term has sent it
}

// take counts a notice, and returns what takes it back, or nil if its notifier must not have it.
// again says that the notifier was told the same of the job before.
//
// The limit is for all jobs together, so no job may use it up for the others:
//   - News takes what there is of the limit: that a job fails, works again, or misses ticks.
//   - A repeat is told at intervals, and leaves a quarter of the limit for news.
//   - A job that fails and works in turn gets a quarter of the limit.
//   - The recovery from a failure that was told is always told, so that nobody believes that the
//     job still fails, and does not count.
func (b *budget) take(n told, most int, per time.Duration) (undo func(), again bool) {
	last, failing := b.failing[n.job]
	if n.event == jobs.NoticeRecovery && failing {
		delete(b.failing, n.job)
		return func() { b.failing[n.job] = last }, false
	}
	b.sent = slices.DeleteFunc(b.sent, func(x told) bool { return n.at.Sub(x.at) >= per })
	share, of := max(2, most/4), 0
	for _, x := range b.sent {
		if x.job == n.job {
			if of++; x.event == n.event && n.event != jobs.NoticeFailure {
				last = x
			}
		}
	}
	again = last.event == n.event && n.at.Sub(last.at) < per
	ok := len(b.sent) < most
	if again {
		ok = n.at.Sub(last.at) >= per/time.Duration(share) && len(b.sent) < most-most/4
	} else {
		ok = ok && of < share
	}
	if !ok {
		b.leftOut++
		return nil, again
	}
	b.sent = append(b.sent, n)
	if n.event == jobs.NoticeFailure {
		b.fails(n)
	}
	return func() {
		b.sent = slices.DeleteFunc(b.sent, func(x told) bool { return x == n })
		if b.failing[n.job] == n {
			delete(b.failing, n.job)
		}
	}, again
}

func (b *budget) fails(n told) {
	if b.failing == nil {
		b.failing = map[string]told{}
	}
	b.failing[n.job] = n
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

// recall takes in what notices of an earlier term tell. Its recoveries from failures that were told do not
// count any more.
func (b *budget) recall(tells map[jobs.Key]jobs.Notice) {
	before := b.sent
	b.sent = nil
	for _, x := range before {
		if is, ok := tells[x.run]; ok && x.job == "" {
			x.job, x.event = is.Job, is.Event
		}
		_, failing := b.failing[x.job]
		switch {
		case x.event == jobs.NoticeFailure:
			b.fails(x)
		case x.event == jobs.NoticeRecovery && failing:
			delete(b.failing, x.job)
			continue
		}
		b.sent = append(b.sent, x)
	}
}

// count takes in how many notices notifiers had lately, and begins to read what they tell: no takeover waits for that.
func (t *term) count(budgets map[string]*budget) {
	read := map[string][]jobs.Key{}
	for name, b := range budgets {
		if t.notices.budgets[name] != nil {
			continue // this term has counted itself
		}
		t.notices.budgets[name] = b
		for _, x := range b.sent {
			read[name] = append(read[name], x.run)
		}
	}
	if len(read) == 0 {
		return
	}
	v := t.env
	t.helpers.Go(func() {
		for name, runs := range read {
			tells := v.tellOf(runs)
			v.do(func(t *term) {
				if b := t.notices.budgets[name]; b != nil {
					b.recall(tells)
				}
			})
		}
	})
}

// tellOf reads what notices tell, as far as they are there, until the term ends.
func (v *env) tellOf(runs []jobs.Key) map[jobs.Key]jobs.Notice {
	tells := map[jobs.Key]jobs.Notice{}
	for _, key := range runs {
		var args json.RawMessage
		err := v.retry(v.ctx, "read a notice", func(ctx context.Context) (err error) {
			if args, err = v.db.Args(ctx, v.holder.Group, key); errors.Is(err, jobs.ErrNoRun) {
				err = nil // it was pruned
			}
			return err
		})
		if err != nil {
			break
		}
		var is jobs.Notice
		if json.Unmarshal(args, &is) == nil {
			tells[key] = is
		}
	}
	return tells
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
				sent = append(sent, told{at: now.Add(-age), run: r.Key})
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
