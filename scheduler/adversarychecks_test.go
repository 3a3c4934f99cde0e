package scheduler_test

import (
	"fmt"
	"time"

	"github.com/cronlease/cronlease/internal/triggers"
	"github.com/cronlease/cronlease/jobs"
)

// check holds what a game has left against what is promised.
func (a *adversary) check() {
	snapshot, err := a.Load(a.Context())
	check(a.T, err)
	a.checkAlarms(snapshot)
	for _, v := range a.jobs {
		records := a.records(v.Name)
		if after, is := v.Schedule.(jobs.AfterSchedule); is {
			a.checkFollowers(v, records, a.records(after.Job()))
		} else {
			a.checkTicks(v, snapshot, records)
		}
		a.checkOpen(v, snapshot, records)
		if v.Shards > 0 {
			a.checkShards(v, records)
		} else {
			a.checkRuns(v)
		}
	}
	for _, b := range a.fills {
		a.checkBackfill(b, snapshot)
	}
}

// checkAlarms: nobody restored the ledger, and no failover lost anything.
func (a *adversary) checkAlarms(snapshot jobs.Snapshot) {
	if snapshot.Paused {
		a.Error("the group is paused")
	}
	audit, err := a.Audit(a.Context(), jobs.AuditFilter{Limit: 10_000})
	check(a.T, err)
	for _, x := range audit {
		if x.Action == jobs.ActionPause && x.Job == "" && x.Via == jobs.ViaScheduler {
			a.Errorf("a scheduler paused the group: %+v", x)
		}
	}
	for _, x := range a.lost {
		a.Errorf("a scheduler missed writes: %+v", x)
	}
}

// checkTicks: each tick up to the newest that was dealt with has its row, or a later row counts it,
// and no tick is overdue.
func (a *adversary) checkTicks(v victim, snapshot jobs.Snapshot, records []jobs.Record) {
	known, schedule := snapshot.Jobs[v.Name], v.Schedule
	after := known.ScheduleSince
	if len(v.texts) > 0 { // all texts have the same ticks
		after = known.Since
	}
	if relative, is := schedule.(jobs.Relative); is {
		first := known
		first.Cursor = time.Time{}
		schedule, after = relative.From(first), after.Add(-1)
	}
	tick := schedule.Next(after)
	for _, r := range records {
		if r.Trigger != 0 {
			continue
		}
		stands := 0
		for ; !tick.After(r.Tick); tick = schedule.Next(tick) {
			stands++
		}
		if stands != 1+r.Missed {
			a.Errorf("%s: the row of %v (%v, %s) says that it missed %d ticks, and stands for %d", v.Name, r.Tick.Sub(a.begin), r.State, r.Error, r.Missed, stands)
			break
		}
	}
	if !tick.After(known.Cursor) {
		a.Errorf("%s: no row stands for %v, but the ledger has dealt with all up to %v", v.Name, tick.Sub(a.begin), known.Cursor.Sub(a.begin))
	}
	if tick.Before(snapshot.Now.Add(-2*time.Minute)) && !known.Paused {
		a.Errorf("%s: the tick of %v is overdue", v.Name, tick.Sub(a.begin))
	}
}

// checkOpen: no run is forgotten.
func (a *adversary) checkOpen(v victim, snapshot jobs.Snapshot, records []jobs.Record) {
	for _, r := range records {
		if !v.crowded && !r.State.Over() && r.Tick.Before(snapshot.Now.Add(-20*time.Minute)) && !snapshot.Jobs[v.Name].Paused {
			a.Errorf("%s: still open: %+v", v.Name, r)
			return
		}
	}
}

// checkRuns: no attempt begins twice, none too often, none after a cancel request has returned, and none while another one
// goes on that may not.
func (a *adversary) checkRuns(v victim) {
	type attempt struct {
		jobs.Key
		n int
	}
	began, attempts := map[attempt]bool{}, map[jobs.Key]int{}
	runs := a.runs(v.Name)
	ended := make([]time.Duration, len(runs))
	for i, r := range runs {
		this := attempt{r.Key(), r.Attempt}
		if began[this] {
			a.Errorf("%s: began twice: %+v", v.Name, r)
		}
		began[this] = true
		if attempts[r.Key()]++; v.Recover == jobs.RecoverSkip && attempts[r.Key()] > max(1, v.Retry.Attempts) {
			a.Errorf("%s: one attempt too many: %+v", v.Name, r)
		}
		if n, asked := a.asked[r.Key()]; asked && r.Attempt > n {
			a.Errorf("%s: it began after its cancel request had returned: %+v", v.Name, r)
		}
		if r.Trigger == 0 && r.Args != nil {
			a.Errorf("%s: a tick with arguments: %+v", v.Name, r)
		}
		ended[i] = endOf(r, a.killed)
		for j := range i {
			o := &runs[j]
			if a.spread && (o.Token == r.Token || v.Overlap != jobs.OverlapAllow && o.Token > r.Token) {
				a.Errorf("%s: the token of %+v is not greater than that of %+v", v.Name, r, *o)
			}
			if o.began < r.began && r.began < ended[j] && (o.Owner != r.Owner && !a.spread || v.Overlap != jobs.OverlapAllow) {
				a.Errorf("%s: %+v began during %+v", v.Name, r, *o)
			}
		}
	}
}

// checkShards: a run that has begun has its shards, each once, and is over when they are. None begins twice, or while a run
// before it goes on.
func (a *adversary) checkShards(v victim, records []jobs.Record) {
	shards := v
	shards.Name, shards.Overlap, shards.PauseAfter = jobs.ShardsOf(v.Name), jobs.OverlapAllow, 0
	a.checkRuns(shards)
	left := map[jobs.Key]jobs.Record{}
	for _, r := range a.records(shards.Name) {
		left[r.Key] = r
	}
	for _, whole := range records {
		worked, n := 0, 0
		for i := range v.Shards {
			key := jobs.Key{Job: shards.Name, Tick: whole.Tick, Trigger: triggers.Shard(whole.Trigger, i, v.Shards)}
			r, is := left[key]
			delete(left, key)
			if is {
				n++
			}
			if r.State == jobs.Succeeded {
				worked++
			}
			late := r.CancelAsked && (r.State == jobs.Waiting || r.State == jobs.Cancelled) // it did not begin, and is closed by a later leader
			if whole.State.Over() && is && !late && (!r.State.Over() || r.Finished.After(whole.Finished)) {
				a.Errorf("%s: %+v\n\tis over before its shard\n\t%+v", v.Name, whole, r)
			}
		}
		begun := whole.Attempt > whole.Unbegun
		if begun && n != v.Shards || !begun && n > 0 {
			a.Errorf("%s: %d shards of %+v", v.Name, n, whole)
		}
		if whole.State == jobs.Succeeded && worked != v.Shards || whole.State == jobs.Failed && worked == v.Shards {
			a.Errorf("%s: %d of %d shards have succeeded, and it is %+v", v.Name, worked, v.Shards, whole)
		}
	}
	for _, r := range left {
		a.Errorf("%s: a shard of no run: %+v", v.Name, r)
	}
	if v.Overlap == jobs.OverlapAllow {
		return
	}
	runs := a.runs(shards.Name)
	for _, r := range runs {
		for _, o := range runs {
			isOther := !o.Tick.Equal(r.Tick) || o.Trigger-uint64(o.Shard) != r.Trigger-uint64(r.Shard)
			if isOther && o.began < r.began && r.began < endOf(o, a.killed) {
				a.Errorf("%s: %+v began during %+v", v.Name, r, o)
			}
		}
	}
}

// checkFollowers: each success has one follower. The last ones may be on their way.
func (a *adversary) checkFollowers(v victim, records, before []jobs.Record) {
	succeeded := 0
	for _, r := range before {
		if r.State == jobs.Succeeded {
			succeeded++
		}
	}
	if missing := succeeded - len(records); missing < 0 || missing > 3 {
		a.Errorf("%s: %d runs after %d successes", v.Name, len(records), succeeded)
	}
}

// checkBackfill: all its ticks have rows, unless it was cancelled or its job never gets to them.
func (a *adversary) checkBackfill(b backfill, snapshot jobs.Snapshot) {
	ticks, open := map[time.Time]bool{}, false
	var rows string
	for _, r := range a.records(b.job) {
		if r.Trigger == b.ID {
			ticks[r.Tick] = true
			open = open || !r.State.Over()
			rows += fmt.Sprintf("\n\t%+v", r)
		}
	}
	waits := open && snapshot.Jobs[b.job].Paused
	for _, v := range a.jobs {
		waits = waits || v.Name == b.job && v.crowded
	}
	if !b.cancelled && !waits && len(ticks) != len(b.Ticks) {
		a.Errorf("backfill %d of %s has %d of %d ticks:%s", b.ID, b.job, len(ticks), len(b.Ticks), rows)
	}
}
