package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
)

// leave leaves a run alone that an earlier term may still be doing, and reports
// whether it does. A term whose lease was taken before its time was up
// ([keeper.Candidate.Suspect]) can start no run any more, but one that goes on is only
// cancelled when its process learns of that, or by the trust deadline at the latest.
// Until then its job starts nothing, and its row stays open: if this term ends
// meanwhile, the next one has to leave it alone, too.
func (t *term) leave(e *entry, record jobs.Record) bool {
	if record.State != jobs.Running || record.Token == t.holder.Token {
		return false
	}
	stands := keeper.HeldOf(t.ctx).PreviousStands()
	if stands == 0 {
		return false
	}
	if e.left == nil {
		e.left = map[jobs.Key]jobs.Record{}
		t.log.Warn("a run of an earlier term may still go on: its job waits for it",
			zap.String("job", record.Job), zap.Time("tick", record.Tick), zap.String("by", record.Owner), zap.Duration("for", stands))
		t.after(stands, func() { t.takeUp(e) })
	}
	e.left[record.Key] = record
	return true
}

// takeUp deals with the runs that were left alone, once none of them goes on.
func (t *term) takeUp(e *entry) {
	if t.stage >= draining || e.removed {
		return // they are the next leader's
	}
	if stands := keeper.HeldOf(t.ctx).PreviousStands(); stands > 0 {
		t.after(stands, func() { t.takeUp(e) })
		return
	}
	left := slices.SortedFunc(maps.Values(e.left), func(a, b jobs.Record) int {
		return cmp.Or(a.Tick.Compare(b.Tick), cmp.Compare(a.Trigger, b.Trigger))
	})
	later := e.blocked
	e.left, e.blocked = nil, nil
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
