package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
)

// isNotifier reports whether a job tells of others.
func (e *entry) isNotifier() bool {
	_, is := e.job.Schedule.(jobs.NotifySchedule)
	return is
}

// count takes in how many notices notifiers had lately, and begins to read what they tell: no takeover waits for that.
func (t *term) count(sent map[string][]plan.Told) {
	read := map[string][]plan.Told{}
	for name, all := range sent {
		if t.followers.Count(name, all) && len(all) > 0 {
			read[name] = all
		}
	}
	if len(read) == 0 {
		return
	}
	v := t.env
	t.helpers.Go(func() {
		for name, all := range read {
			tells := v.tellOf(all)
			v.do(func(t *term) { t.followers.Recall(name, tells) })
		}
	})
}

// tellOf reads what notices tell, as far as they are there, until the term ends.
func (v *env) tellOf(all []plan.Told) map[jobs.Key]jobs.Notice {
	tells := map[jobs.Key]jobs.Notice{}
	for _, told := range all {
		key := told.Run
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

// readNotices reads how many notices each of the notifiers had lately, so that a limit holds
// over a takeover. Of one whose last run ended before that, and that has none open, there is
// nothing to read.
func (v *env) readNotices(ctx context.Context, of []*declared, snapshot jobs.Snapshot) (map[string][]plan.Told, error) {
	sent := map[string][]plan.Told{}
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
		err := v.retry(ctx, "count notices", func(ctx context.Context) (err error) {
			sent[job.Name], err = v.sentLately(ctx, job.Name, per, snapshot.Now)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return sent, nil
}

// sentLately is when the notices of a notifier were inserted, as far as they count, oldest
// first. The history is in the order of the ticks that they tell of, which may be any: those
// of a backfill are old.
func (v *env) sentLately(ctx context.Context, notifier string, per time.Duration, present time.Time) (sent []plan.Told, err error) {
	const page, pages = 1000, 50
	filter, now := jobs.Filter{Job: notifier, Limit: page}, time.Now()
	for range pages {
		records, err := v.db.Runs(ctx, v.holder.Group, filter)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if age := max(0, present.Sub(r.Claimed)); triggers.IsNotice(r.Trigger) && age < per {
				sent = append(sent, plan.Told{At: now.Add(-age), Run: r.Key})
			}
		}
		if len(records) < page {
			break
		}
		filter.Behind = records[page-1].Key
	}
	slices.SortFunc(sent, func(a, b plan.Told) int { return a.At.Compare(b.At) })
	return sent, nil
}

// recount calls f. In a session, it first counts the notices that all replicas have sent lately, if the end of a run may bring one.
func (t *term) recount(r *run, state jobs.State, f func()) {
	if t.role != serves || t.stage == stopped || state == jobs.Succeeded && !r.record.Failing || len(t.limited()) == 0 {
		f()
		return
	}
	t.outcomes.unwritten++ // the loop goes on until it is written
	t.recounts.ends = append(t.recounts.ends, f)
	t.countAgain()
}

// recounts are ends of runs that wait until the notices are counted.
type recounts struct {
	ends     []func()
	underWay bool
}

// limited are the notifiers of a session that have a limit.
func (t *term) limited() (all []*declared) {
	for _, e := range t.roll.order {
		if s, is := e.job.Schedule.(jobs.NotifySchedule); is {
			if _, _, limited := s.Limit(); limited {
				all = append(all, e.job)
			}
		}
	}
	return all
}

// countAgain counts the notices for the ends that wait, once the ledger has those that this replica has sent.
func (t *term) countAgain() {
	if t.recounts.underWay || len(t.recounts.ends) == 0 || t.followers.Untold() {
		return
	}
	t.recounts.underWay = true
	of, snapshot := t.limited(), jobs.Snapshot{Now: t.clock.Theirs(t.now())}
	for _, job := range of {
		snapshot.Open = append(snapshot.Open, jobs.Record{Key: jobs.Key{Job: job.Name}}) // so that all are read
	}
	t.beside(func(v *env) {
		sent, err := v.readNotices(v.ctx, of, snapshot)
		tells := map[string]map[jobs.Key]jobs.Notice{}
		for name, all := range sent {
			tells[name] = v.tellOf(all)
		}
		v.do(func(t *term) {
			for name, all := range sent {
				if err == nil {
					t.followers.Recount(name, all, tells[name])
				}
			}
			ends := t.recounts.ends
			t.recounts = recounts{}
			for _, f := range ends {
				t.outcomes.unwritten--
				f()
			}
		})
	})
}
