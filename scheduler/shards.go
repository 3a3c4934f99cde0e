package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// A job with shards ([jobs.Job].Shards), or one that runs everywhere where runs are spread ([jobs.Job].Everywhere), is
// two jobs in a term. A run of the one that was declared, the whole, is the leader's, in either mode: its start inserts
// the runs of its shards in the same transaction, and its attempt waits for their ends. The shards are runs of the
// other job, as any others. When the whole is cut off with its term, the next leader's attempt goes on waiting for the
// same shards.

// lacksReplicas reports whether no replica can have a shard of a run that is to begin on each.
func (r *run) lacksReplicas() bool {
	shards := r.entry.job.shards
	return shards != nil && shards.onEach && r.record.Shards == 0 && len(r.entry.each) == 0
}

// divide has a run begin with its shards, unless it has begun with some already. It returns why the run is not to begin at all.
func (r *run) divide(start *store.Move) (why string) {
	if r.record.Shards > 0 {
		return ""
	}
	n := r.entry.job.Shards
	if r.entry.job.shards.onEach {
		n, r.record.Each = len(r.entry.each), strings.Join(r.entry.each, " ")
	}
	if n > jobs.MaxShards {
		return fmt.Sprintf("%d replicas can have it: a job runs everywhere on %d at most", n, jobs.MaxShards)
	}
	r.record.Shards = n
	for i := range n {
		start.Then = append(start.Then, store.Follower{Key: jobs.Key{Job: r.entry.job.shards.Name, Tick: r.record.Tick, Trigger: triggers.Shard(r.record.Trigger, i, n)}})
	}
	return ""
}

// isFor reports whether a run is for one replica alone, and for which session: a shard of a run that began when its job
// ran everywhere, whatever the job is divided into by now. The session is unknown while the run that the shard is a part of
// is not in hand.
func (t *term) isFor(r *run) (to store.Assignee, is bool) {
	i, n := triggers.ShardOf(r.record.Trigger)
	if n == 0 {
		return to, false
	}
	whole := t.roll.entries[strings.TrimSuffix(r.record.Job, jobs.ShardsOf(""))]
	if whole == nil {
		return to, r.entry.job.onEach
	}
	for _, w := range whole.runs {
		if !w.record.Tick.Equal(r.record.Tick) || !triggers.IsShardOf(r.record.Trigger, w.record.Trigger) {
			continue
		}
		if all := strings.Fields(w.record.Each); i < len(all) {
			owner, token, _ := strings.Cut(all[i], "=")
			to.Owner = owner
			to.Token, _ = strconv.ParseUint(token, 10, 64)
		}
		return to, to.Owner != ""
	}
	return to, r.entry.job.onEach
}

// join waits until the shards of a run have ended, and says whether each has succeeded. When ctx ends and the term does not, the run
// was cancelled: then they are, too.
func (v *env) join(ctx context.Context, whole jobs.Record, shards string) error {
	const soonest, latest = 20 * time.Millisecond, 2 * time.Second
	began, cancelled := time.Now(), ctx.Done()
	var why error
	for {
		p, err := v.shardsOf(whole, shards)
		if err != nil {
			return err
		}
		if len(p.open) == 0 {
			return cmp.Or(why, jobs.Permanent(p.err(whole)))
		}
		lacks := v.lacks(shards) // then none of them is in this term's hand, and those that wait are not to start any more
		if lacks || why != nil {
			v.cancelAll(p.open)
		}
		if lacks && !slices.ContainsFunc(p.open, v.mode.mayHave) {
			return jobs.Permanent(fmt.Errorf("%d of the %d shards of %s have not ended, and the job has none any more", len(p.open), p.of, whole.Job))
		}
		again := time.NewTimer(min(max(time.Since(began)/10, soonest), latest))
		select {
		case <-again.C:
		case <-cancelled:
			why, cancelled = context.Cause(ctx), nil
		case <-v.ctx.Done():
		}
		again.Stop()
		if v.ctx.Err() != nil {
			return context.Cause(v.ctx)
		}
	}
}

// lacks reports whether the term has no such job, and nothing of it in hand.
func (v *env) lacks(job string) (is bool) {
	answer := make(chan bool, 1)
	v.do(func(t *term) { answer <- t.roll.entries[job] == nil })
	select {
	case is = <-answer:
	case <-v.closed:
	}
	return is
}

// cancelAll asks for the end of runs, once each.
func (v *env) cancelAll(runs []jobs.Record) {
	for _, r := range runs {
		if !r.CancelAsked {
			_ = v.cancel(r.Key) // the next reading shows its end
		}
	}
}

// parts is how far the shards of a run are.
type parts struct {
	open   []jobs.Record
	kept   int // how many the ledger has
	of     int
	failed []jobs.Record
}

func (v *env) shardsOf(whole jobs.Record, shards string) (p parts, err error) {
	const most = 100 * jobs.MaxShards // of one tick
	var records []jobs.Record
	err = v.retry(v.ctx, "read shards", func(ctx context.Context) (err error) {
		records, err = v.db.Runs(ctx, v.holder.Group, jobs.Filter{Job: shards, Since: whole.Tick, Until: whole.Tick.Add(time.Microsecond), Limit: most})
		return err
	})
	for _, r := range records {
		if !triggers.IsShardOf(r.Trigger, whole.Trigger) {
			continue
		}
		p.kept++
		_, p.of = triggers.ShardOf(r.Trigger)
		switch {
		case r.State == jobs.Waiting && r.CancelAsked: // it never starts
			r.State = jobs.Cancelled
			p.failed = append(p.failed, r)
		case !r.State.Over():
			p.open = append(p.open, r)
		case r.State == jobs.Skipped && whole.Each != "": // its replica was gone
		case r.State != jobs.Succeeded:
			p.failed = append(p.failed, r)
		}
	}
	return p, err
}

// err says which shards have not succeeded.
func (p parts) err(whole jobs.Record) error {
	switch {
	case p.kept < max(p.of, 1):
		return fmt.Errorf("scheduler: the ledger keeps %d of the %d shards of %s: its history is too short", p.kept, p.of, whole.Job)
	case len(p.failed) == 0:
		return nil
	}
	first := p.failed[len(p.failed)-1]
	i, _ := triggers.ShardOf(first.Trigger)
	return fmt.Errorf("%d of %d shards have not succeeded: shard %d: %v: %s", len(p.failed), p.of, i, first.State, first.Error)
}
