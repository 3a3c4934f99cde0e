package scheduler

import (
	"sync"
	"time"

	"github.com/cronlease/cronlease/scheduler/internal/plan"
)

// term is one term of this replica. Its loop owns everything in it, but for its env and the
// follower, which never change: alarms, answers of the ledger and ends of runs reach it as
// functions that it calls one after the other.
type term struct {
	*env
	helpers  sync.WaitGroup // what runs beside the loop
	follower follower
	timers   map[*time.Timer]struct{}
	every    time.Duration // between two sweeps
	newest   time.Time     // that the sweep has seen, or of a tick that was claimed
	waits    time.Time     // until when jobs start nothing, as was told: see tellAhead
	stage    stage

	roll      roll
	slots     slots
	wrote     *writer
	outcomes  outcomes
	followers plan.Followers
	skips     skips
	janitor   janitor
	waker     *clock
}

// beside runs f beside the loop. It ends with the term's context, or soon after.
func (t *term) beside(f func(*env)) { t.helpers.Go(func() { f(t.env) }) }

// after makes the loop call f after a while, unless the loop has ended by then.
func (t *term) after(wait time.Duration, f func()) {
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		t.do(func(t *term) {
			delete(t.timers, timer)
			f()
		})
	})
	t.timers[timer] = struct{}{}
}

func (t *term) stopTimers() {
	for timer := range t.timers {
		timer.Stop()
	}
}
