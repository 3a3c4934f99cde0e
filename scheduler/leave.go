package scheduler

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
)

// leave leaves a run alone that an earlier term may still be doing, whose lease was taken before
// its time was up ([keeper.Candidate.Suspect]).
func (t *term) leave(e *entry, record jobs.Record) {
	if !e.LeaveAlone(record) {
		return
	}
	stands := keeper.HeldOf(t.ctx).PreviousStands()
	t.log.Warn("a run of an earlier term may still go on: its job waits for it",
		zap.String("job", record.Job), zap.Time("tick", record.Tick), zap.String("by", record.Owner), zap.Duration("for", stands))
	t.after(stands, func() { t.takeUp(e) })
}

// takeUp deals with the runs that were left alone, once none of them goes on.
func (t *term) takeUp(e *entry) {
	if t.stage >= draining || e.IsRemoved() {
		return // they are the next leader's
	}
	if stands := keeper.HeldOf(t.ctx).PreviousStands(); stands > 0 {
		t.after(stands, func() { t.takeUp(e) })
		return
	}
	left, later := e.TakeUp(), e.blocked
	e.blocked = nil
	for _, record := range left {
		t.found(e, record, time.Time{})
	}
	e.blocked = append(e.blocked, later...)
	t.freed(e)
	t.claimDue(e, t.now())
}

// settle lets the lease be released if no run of an earlier term is open.
func (t *term) settle(open []jobs.Record) {
	if !slices.ContainsFunc(open, func(r jobs.Record) bool { return r.State == jobs.Running && r.Token != t.holder.Token }) {
		keeper.HeldOf(t.ctx).Settle()
	}
}
