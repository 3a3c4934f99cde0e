package scheduler

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/jobs"
)

// A term takes in changes of this replica's list of jobs one after the other, each in
// these steps:
//
//  1. relist, in the loop: removed jobs claim nothing any more, and jobs whose schedule
//     has changed claim nothing until the change is made. All other changes are made. That
//     much is done at once, also while an earlier change is being taken in.
//  2. tell, beside the loop: the ledger is told of new jobs and changed schedules.
//  3. the reader reads the ledger, as it does for every other change in it.
//  4. takeIn, in the loop: new jobs and changed schedules begin.
//  5. alarms.change, beside the loop: alarms. Then relist looks for the next change.
//
// A term that ends between any two of them leaves nothing undone: each replica has its
// own list, and declares what is not yet as the ledger has it when its term begins.

// relisted is a change of the list of jobs, as far as the ledger has to be told of it.
type relisted []*declared

// relist begins to take in what has changed in the list of jobs since it last did.
func (t *term) relist() {
	if t.stage.ends() {
		return
	}
	if t.role == assigns {
		t.borrow()
	}
	all := t.planned()
	now := t.now()
	wanted := make(map[string]bool, len(all))
	late := false // a schedule has to wait
	var tell relisted
	for _, d := range all {
		wanted[d.Name] = true
		switch e := t.roll.entries[d.Name]; {
		case e == nil || e.IsRemoved():
			tell = append(tell, d)
		case e.IsChanging(): // the ledger may have been told, though there was no answer
			tell = append(tell, d)
		case e.job == d:
		case e.job.text == d.text:
			t.list(e, d)
			t.freed(e)
			t.claimDue(e, now)
		default:
			e.Conclude(d.Schedule, now) // the schedule before rules up to now
			t.claimDue(e, now)
			if e.Hold(now).MayPass() {
				late = true
				continue
			}
			e.Change()
			tell = append(tell, d)
		}
	}
	t.roll.order = slices.DeleteFunc(t.roll.order, func(e *entry) bool {
		if !wanted[e.job.Name] {
			t.retire(e)
			t.leaveOut(e.job.Name)
		}
		return e.IsRemoved()
	})
	t.knowFollowers()
	if t.roll.relisting {
		return // relisted looks again
	}
	removed := t.roll.toTell()
	t.roll.relisting = len(tell)+len(removed) > 0 || late
	told := t.reader.relists
	switch {
	case len(tell)+len(removed) > 0:
		t.beside(func(v *env) {
			v.tellGone(removed)
			if len(tell) == 0 {
				v.do((*term).realarm)
			} else if err := v.tell(tell); err == nil {
				told <- tell
			} else {
				v.do((*term).relistAgain)
			}
		})
	case late:
		t.after(lateFor, t.relisted)
	}
}

// planned are the jobs of the term.
func (t *term) planned() []*declared {
	if t.role == assigns {
		return t.roll.list.planned()
	}
	return t.roll.list.jobs()
}

// list puts a job into the term's list, with a declaration that the ledger has.
func (t *term) list(e *entry, d *declared) {
	from := e.job
	e.list(d)
	if from.Pool.Name != d.Pool.Name || from.Priority != d.Priority {
		t.slots.lineUpAgain(e, from.Pool)
	}
}

// leaveOut notes that a job is not in the list any more.
func (t *term) leaveOut(name string) {
	t.roll.gone[name] = false
	t.janitor.strays = slices.DeleteFunc(t.janitor.strays, func(e *entry) bool { return e.job.Name == name })
	t.addStray(name, t.clock.Theirs(t.now()), time.Now())
}

// toTell takes the jobs of which the ledger was not told that they are gone.
func (r *roll) toTell() (names []string) {
	for name, told := range r.gone {
		if !told {
			r.gone[name] = true
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// relisted ends a change, and looks for the next one.
func (t *term) relisted() {
	t.roll.relisting = false
	t.relist()
}

// lateFor is how long a changed schedule waits for the ticks of the one before.
const lateFor = 20 * time.Millisecond

// tellGone tells the ledger which jobs were removed, once: if that fails, the next
// term does it.
func (v *env) tellGone(names []string) {
	ctx, cancel := context.WithTimeout(v.ctx, v.timing.AttemptTimeout)
	defer cancel()
	if err := v.gone(ctx, names); err != nil && v.ctx.Err() == nil {
		v.log.Warn("the ledger is not told which jobs were removed", zap.Error(err), listed("jobs", names))
	}
}

// relistAgain begins again with a change that the ledger could not be told of, or
// with what has become of it since.
func (t *term) relistAgain() { t.after(time.Second, t.relisted) }

// retire removes a job from the term. What runs goes on, and what waits is left to
// the next term that has the job, which may be this one.
func (t *term) retire(e *entry) {
	e.Remove()
	e.blocked, e.backlog = nil, nil
	for _, r := range e.runs {
		if r.Phase().Pending() {
			t.letGo(r)
		}
	}
	t.retired(e)
}

// has reports whether a snapshot shows the ledger as it is after it was told.
func (c relisted) has(s jobs.Snapshot) bool {
	for _, d := range c {
		if known, ok := s.Jobs[d.Name]; !ok || known.Schedule != d.text {
			return false
		}
	}
	return true
}

// takeIn begins with what the ledger was told of.
func (t *term) takeIn(changed relisted, snapshot jobs.Snapshot) {
	if t.stage.ends() {
		return
	}
	if !changed.has(snapshot) {
		t.relistAgain()
		return
	}
	now := map[string]*declared{}
	for _, d := range t.planned() {
		now[d.Name] = d
	}
	for _, d := range changed {
		switch is := now[d.Name]; {
		case is == nil:
			t.leaveOut(d.Name)
			continue
		case is.text != d.text:
			continue // the schedule has changed again: relist tells of it
		default:
			d = is
		}
		t.regain(d.Name)
		e := t.roll.entries[d.Name]
		if e == nil {
			e = newEntry(t.holder.Group, d)
			t.roll.entries[d.Name] = e
			t.roll.order = append(t.roll.order, e)
			e.history = newHistory(time.Now())
			t.know(e, snapshot)
			t.countAll(e)
			continue
		}
		if e.IsRemoved() { // and something of it is still under way
			t.roll.order = append(t.roll.order, e)
		}
		t.list(e, d)
		t.know(e, snapshot)
	}
	t.knowFollowers()
	t.realarm()
}

// realarm brings the alarms in line with the jobs, and then ends the change.
func (t *term) realarm() {
	add, remove := t.roll.setAlarms()
	a := t.alarms
	t.beside(func(v *env) {
		if err := a.change(add, remove); err != nil {
			v.log.Error("an alarm cannot be set: the ticks of its jobs are up to a second late", zap.Error(err))
		}
		v.do((*term).relisted)
	})
}

// know takes in what the ledger knows of a job. What this term has done itself since
// that was read counts, too.
func (t *term) know(e *entry, snapshot jobs.Snapshot) {
	isNew := e.Known().Since.IsZero()
	known := t.clock.Known(snapshot.Jobs[e.job.Name])
	e.knowFencing(known.Started, 0)
	if e.Learn(known, t.now(), t.clock.Most) {
		t.log.Warn("a schedule that would rule from the future on, written under a wrong clock, rules from now on",
			zap.String("job", e.job.Name), zap.Time("since", known.ScheduleSince))
	}
	if isNew {
		t.countFirst(e, snapshot.Pauses[e.job.Name])
		t.rest(e, jobs.Record{}, e.Locked(snapshot.Now))
	}
}

// relistOwn takes in what has changed in the list of jobs, in a session: the ledger is told by the leader.
func (t *term) relistOwn() {
	wanted := map[string]bool{}
	for _, d := range t.roll.list.jobs() {
		wanted[d.Name] = true
		if e := t.roll.entries[d.Name]; e != nil {
			if e.IsRemoved() {
				t.roll.order = append(t.roll.order, e)
			}
			t.list(e, d)
			continue
		}
		e := newEntry(t.holder.Group, d)
		e.history = newHistory(time.Now())
		t.roll.entries[d.Name] = e
		t.roll.order = append(t.roll.order, e)
	}
	t.roll.order = slices.DeleteFunc(t.roll.order, func(e *entry) bool {
		if !wanted[e.job.Name] {
			t.retire(e)
		}
		return e.IsRemoved()
	})
	t.knowFollowers()
	t.reader.soon()
}
