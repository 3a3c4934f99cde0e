package ledger

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// act does what is asked of a group, and records it, both as one transaction. Refusals are recorded, too.
func (l Ledger) act(ctx context.Context, group string, need Need, entry jobs.AuditEntry, do func(tx *Tx, entry *jobs.AuditEntry) (jobs.Result, error)) error {
	if err := store.CheckName("group", group); err != nil {
		return err
	}
	var answer error
	err := l.rows.Do(ctx, group, need, func(tx *Tx) {
		of := entry
		var result jobs.Result
		result, answer = do(tx, &of)
		tx.note(of, result)
	})
	return cmp.Or(err, answer)
}

// Pause implements [jobs.Control]. A group may be paused before its first job is known.
func (l Ledger) Pause(ctx context.Context, group, job string) error {
	return l.setPaused(ctx, group, job, jobs.ActionPause)
}

// Resume implements [jobs.Control].
func (l Ledger) Resume(ctx context.Context, group, job string) error {
	return l.setPaused(ctx, group, job, jobs.ActionResume)
}

// ResumeSkipping implements [jobs.Control].
func (l Ledger) ResumeSkipping(ctx context.Context, group, job string) error {
	return l.setPaused(ctx, group, job, jobs.ActionSkipping)
}

func (l Ledger) setPaused(ctx context.Context, group, job string, action jobs.Action) error {
	need := Need{Doing: string(action)}
	if job != "" {
		need.Jobs = []string{job}
	}
	entry := ledgerrows.Entry(ctx, action, jobs.Key{Job: job}, "")
	return l.act(ctx, group, need, entry, func(tx *Tx, _ *jobs.AuditEntry) (jobs.Result, error) {
		known, ok := tx.Jobs[job]
		paused, pauses := &known.Paused, &known.Pauses
		switch {
		case job == "":
			paused, pauses = &tx.Group.Paused, &tx.Group.Pauses
		case !ok:
			return jobs.Refused, ledgerrows.NoJob(group, job)
		}
		if *paused == (action == jobs.ActionPause) {
			return jobs.Unchanged, nil
		}
		*paused = !*paused
		*pauses = tx.after(*pauses, action)
		tx.Group.Changes++
		if job != "" {
			tx.putJob(job, known)
		}
		return jobs.Done, nil
	})
}

// SetSpread implements [store.Spreads].
func (l Ledger) SetSpread(ctx context.Context, group string, on bool) error {
	action := jobs.ActionGather
	if on {
		action = jobs.ActionSpread
	}
	entry := ledgerrows.Entry(ctx, action, jobs.Key{}, "")
	return l.act(ctx, group, Need{Doing: string(action)}, entry, func(tx *Tx, _ *jobs.AuditEntry) (jobs.Result, error) {
		if tx.Group.Opened.Spread == on {
			return jobs.Unchanged, nil
		}
		tx.Group.Opened.Spread = on
		tx.Group.Changes++
		return jobs.Done, nil
	})
}

// after are the pauses after an action that changes something.
func (tx *Tx) after(pauses []jobs.Pause, action jobs.Action) []jobs.Pause {
	pauses = slices.Clone(pauses)
	if action == jobs.ActionPause {
		pauses = append(pauses, jobs.Pause{Began: tx.Now})
		return pauses[max(0, len(pauses)-store.MaxPauses):]
	}
	last := &pauses[len(pauses)-1]
	if last.Ended = tx.Now; tx.Now.Before(last.Began) { // the clock was set back
		last.Ended = last.Began
	}
	if action == jobs.ActionSkipping {
		last.Began = time.Time{}
	}
	return pauses
}

// manualBelow is above all numbers that Trigger gives: those of the scheduler are larger.
const manualBelow = 1 << 51

// Trigger implements [jobs.Control]. After an error it may have asked for a run or not; Runs tells.
func (l Ledger) Trigger(ctx context.Context, group, job string, r jobs.Request) (key jobs.Key, err error) {
	asked := jobs.Key{Job: job, Tick: r.Tick, Trigger: r.Trigger}
	if err := cmp.Or(ledgerrows.CheckRequest(l.pkg, job, r), l.checkTriggers(asked, nil)); err != nil {
		return jobs.Key{}, err
	}
	entry := ledgerrows.Entry(ctx, ledgerrows.ActionOf(r), jobs.Key{Job: job}, r.Note)
	need := Need{Doing: "trigger", Jobs: []string{job}, Requests: job, At: r.Tick}
	err = l.act(ctx, group, need, entry, func(tx *Tx, entry *jobs.AuditEntry) (jobs.Result, error) {
		if _, ok := tx.Jobs[job]; !ok {
			return jobs.Refused, ledgerrows.NoJob(group, job)
		}
		if key = asked; key.Tick.IsZero() {
			key.Tick = tx.Now
		}
		if key = ledgerrows.Plain(key); key.Trigger == 0 {
			for k := range tx.Runs {
				if k.Trigger < manualBelow {
					key.Trigger = max(key.Trigger, k.Trigger)
				}
			}
			key.Trigger++
		}
		if _, ok := tx.Runs[key]; ok {
			entry.Key = key
			return jobs.Unchanged, nil
		}
		if tx.Open >= jobs.MaxOpen {
			return jobs.Refused, ledgerrows.ManyOpen(group, job)
		}
		entry.Key = key
		tx.putRun(Run{Args: slices.Clone(r.Args), Record: jobs.Record{
			Key: key, State: jobs.Waiting, Claimed: tx.Now, Due: tx.Now, HasArgs: r.Args != nil, Backfill: r.Backfill,
		}})
		tx.Group.Changes++
		return jobs.Done, nil
	})
	if err != nil {
		return jobs.Key{}, err
	}
	return key, nil
}

// Cancel implements [jobs.Control].
func (l Ledger) Cancel(ctx context.Context, group string, key jobs.Key) error {
	if ledgerrows.CheckKey("", key) != nil || l.checkTriggers(key, nil) != nil {
		return cmp.Or(ctx.Err(), ledgerrows.NoRun(group, key))
	}
	key = ledgerrows.Plain(key)
	entry := ledgerrows.Entry(ctx, jobs.ActionCancel, key, "")
	return l.act(ctx, group, Need{Doing: "cancel", Runs: []jobs.Key{key}}, entry, func(tx *Tx, _ *jobs.AuditEntry) (jobs.Result, error) {
		r, ok := tx.Runs[key]
		switch {
		case !ok || r.State.Over():
			return jobs.Refused, ledgerrows.NoRun(group, key)
		case r.CancelAsked:
			return jobs.Unchanged, nil
		}
		r.CancelAsked = true
		tx.putRun(r)
		tx.Group.Changes++
		return jobs.Done, nil
	})
}
