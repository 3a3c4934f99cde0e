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
	read := map[string][]jobs.Key{}
	for name, all := range sent {
		if !t.followers.Count(name, all) {
			continue
		}
		for _, x := range all {
			read[name] = append(read[name], x.Run)
		}
	}
	if len(read) == 0 {
		return
	}
	v := t.env
	t.helpers.Go(func() {
		for name, runs := range read {
			tells := v.tellOf(runs)
			v.do(func(t *term) { t.followers.Recall(name, tells) })
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
