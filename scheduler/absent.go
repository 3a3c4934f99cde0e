package scheduler

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
	"github.com/cronlease/cronlease/store"
)

// anyBack reports whether a job of the term comes back after a long absence.
func (r *roll) anyBack(snapshot jobs.Snapshot) bool {
	for name, known := range snapshot.Jobs {
		if r.entries[name] != nil && plan.LongAbsent(known, snapshot.Now) {
			return true
		}
	}
	return false
}

// welcome deals with what jobs have left behind that come back after a long absence,
// before they are declared, which ends the absence: so a term that ends in between
// leaves the rest to the next one. Their ticks of the absence are recorded as skipped,
// and so are earlier ones that no term has dealt with. Runs from before it that wait are
// closed. After a short absence, and always by the ledger of a store without
// [store.Replicas], a job goes on as after a gap without a leader.
func (d *declaring) welcome(ctx context.Context, all []*declared, was jobs.Snapshot) error {
	var claims []store.Claim
	ticks := 0
	returned := map[string]jobs.Known{}
	var names []string
	for _, job := range all {
		known := was.Jobs[job.Name]
		if !plan.LongAbsent(known, was.Now) {
			continue
		}
		returned[job.Name], names = known, append(names, job.Name)
		d.back[job.Name] = true
		if claim, ok := plan.Absence(job.Job, d.clock.Known(known), d.now()); ok {
			claims = append(claims, claim)
			ticks += 1 + claim.Missed
		}
	}
	if len(returned) == 0 {
		return nil
	}
	var moves []store.Move
	stands := keeper.HeldOf(d.ctx).PreviousStands() > 0 // see term.leave
	for _, r := range was.Open {
		known, ok := returned[r.Job]
		if !ok {
			continue
		}
		if to, why, closed := plan.Leftover(r, known, stands); closed {
			m := move(r, to, why)
			if to == jobs.Interrupted {
				m.Verdict = plan.VerdictOf(store.JobFails, r)
			}
			moves = append(moves, m)
		}
	}
	h := d.holder
	h.Server = was.Server
	if len(moves) > 0 {
		if _, err := d.db.Move(ctx, h, moves); err != nil {
			return fmt.Errorf("close runs of jobs that come back: %w", err)
		}
	}
	if len(claims) > 0 {
		if _, err := d.db.Claim(ctx, h, d.id, claims); err != nil {
			return fmt.Errorf("skip the ticks of jobs that come back: %w", err)
		}
	}
	d.log.Info("jobs come back after a long absence, and start from now", zap.Int("count", len(names)), listed("jobs", names),
		zap.Int("ticks_skipped", ticks), zap.Int("runs_closed", len(moves)))
	return nil
}

// missing notes which jobs of the ledger this term does not have.
func (t *term) missing(ctx context.Context, snapshot jobs.Snapshot) error {
	var names []string
	for name, known := range snapshot.Jobs {
		if t.roll.entries[name] == nil && known.Gone.IsZero() {
			names = append(names, name)
		}
	}
	for _, name := range names {
		t.roll.gone[name] = true
	}
	return t.gone(ctx, names)
}

// regain notes that this term has a job again. If it has told the ledger that the job is
// gone, that statement may be carried out late, after the job was declared. So the term
// looks soon, and as long as it lasts often enough that no absence seems long.
func (t *term) regain(name string) {
	if _, gone := t.roll.gone[name]; t.roll.regained || !gone {
		return
	}
	t.roll.regained = true
	t.after(time.Minute, t.lookForGone)
}

func (t *term) lookForGone() {
	t.reader.soon()
	t.after(jobs.LongAbsence/2, t.lookForGone)
}

// denyGone declares jobs of this term anew that the ledger has as gone.
func (t *term) denyGone(snapshot jobs.Snapshot) {
	var gone []*declared
	for _, e := range t.roll.order {
		if known := snapshot.Jobs[e.job.Name]; !known.Gone.IsZero() && !e.IsRemoved() && !e.IsChanging() {
			gone = append(gone, e.job)
		}
	}
	if len(gone) == 0 || t.roll.relisting || t.stage.ends() {
		return
	}
	t.roll.relisting = true // and no change of the list meanwhile
	again := newDeclaring(t.env).differing(gone, snapshot, gap{})
	t.beside(func(v *env) {
		ctx, cancel := context.WithTimeout(v.ctx, v.timing.AttemptTimeout)
		defer cancel()
		if err := v.db.Declare(ctx, v.holder, again); err != nil && v.ctx.Err() == nil {
			v.log.Warn("the ledger has jobs as gone that this term has, and does not take that back yet", zap.Error(err))
		}
		v.do((*term).relisted)
	})
}

// gone tells the ledger that this term does not have jobs.
func (v *env) gone(ctx context.Context, names []string) error {
	db, ok := v.db.(store.Replicas)
	if !ok || len(names) == 0 {
		return nil
	}
	if err := db.Gone(ctx, v.holder, names); err != nil {
		return fmt.Errorf("note that jobs are gone: %w", err)
	}
	return nil
}
