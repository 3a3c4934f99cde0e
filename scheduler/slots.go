package scheduler

import (
	"math"
	"slices"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
)

// slots are the runs that this replica has room for.
type slots struct {
	most  int            // runs at a time; 0: any number
	taken int            // by runs in the phase running
	pools map[string]int // how many runs each pool has in that phase
	ready []*run         // what waits for one, by priority, and first come first served
}

// left is how many more runs may start.
func (s *slots) left() int {
	if s.most == 0 {
		return math.MaxInt
	}
	return max(0, s.most-s.taken)
}

func (s *slots) free() bool { return s.left() > 0 }

// lineUp has a run wait for a slot: in the place of a run of its job that was ended while it waited, or behind those of its
// priority. Otherwise a job whose ticks replace each other would never come to the front.
func (s *slots) lineUp(r *run) {
	at := slices.IndexFunc(s.ready, func(other *run) bool { return other.entry == r.entry && other.Phase() != plan.Ready })
	if at >= 0 {
		s.ready[at] = r
		return
	}
	at = len(s.ready)
	for at > 0 && r.entry.job.Priority.Before(s.ready[at-1].entry.job.Priority) {
		at--
	}
	s.ready = slices.Insert(s.ready, at, r)
}

// shift counts a run that moves to another phase; here says that this replica has its slot.
func (s *slots) shift(r *run, to plan.Phase, here bool) {
	if here && r.Phase() == plan.Running {
		s.taken--
	}
	if here && to == plan.Running {
		s.taken++
	}
	if r.pool != "" {
		s.pools[r.pool]--
	}
	if r.pool = ""; to == plan.Running {
		r.pool = r.entry.job.Pool.Name
	}
	if r.pool != "" {
		s.pools[r.pool]++
	}
}

// poolLeft is how many more runs the pool of a job lets start.
func (t *term) poolLeft(e *entry) int {
	pool := e.job.Pool
	if pool.Name == "" || t.role == serves { // the leader has seen to it
		return math.MaxInt
	}
	taken := t.slots.pools[pool.Name]
	if keeper.HeldOf(t.ctx).PreviousStands() > 0 {
		for _, other := range t.roll.entries {
			if other.job.Pool.Name == pool.Name {
				taken += other.LeftAlone()
			}
		}
	}
	return max(0, pool.Limit-taken)
}
