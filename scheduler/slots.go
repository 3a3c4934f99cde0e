package scheduler

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
)

// slots are the runs that this replica has room for.
type slots struct {
	most  int            // runs at a time; 0: any number
	taken int            // by runs in the phase running
	whole int            // runs in that phase that take none, since their shards do
	pools map[string]int // how many runs each pool has in that phase
	ready []*run         // what waits for one, by priority, and first come first served
	rates map[string]*rate
}

// rate is when runs of a pool began, in the last [jobs.Pool].Per.
type rate struct {
	starts []time.Time // oldest first
	waits  bool        // for the oldest to be over
}

// began counts runs of a pool that begin now.
func (s *slots) began(p jobs.Pool, at ...time.Time) {
	if p.Starts == 0 {
		return
	}
	if s.rates[p.Name] == nil {
		s.rates[p.Name] = &rate{}
	}
	r := s.rates[p.Name]
	r.starts = append(r.starts, at...)
	slices.SortFunc(r.starts, time.Time.Compare)
}

// startsLeft is how many more runs of a pool may begin now, and if none may, when the next one may.
func (s *slots) startsLeft(p jobs.Pool, now time.Time) (left int, wait time.Duration) {
	r := s.rates[p.Name]
	if p.Starts == 0 || r == nil {
		return cmp.Or(p.Starts, math.MaxInt), 0
	}
	r.starts = slices.DeleteFunc(r.starts, func(at time.Time) bool { return now.Sub(at) >= p.Per })
	if n := len(r.starts) - p.Starts; n >= 0 {
		return 0, p.Per - now.Sub(r.starts[n])
	}
	return p.Starts - len(r.starts), 0
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
	count := &s.taken
	if r.shards != nil {
		count, here = &s.whole, true
	}
	if here && r.Phase() == plan.Running {
		*count--
	}
	if here && to == plan.Running {
		*count++
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
	left := math.MaxInt
	if pool.Limit > 0 {
		left = max(0, pool.Limit-taken)
	}
	starts, _ := t.slots.startsLeft(pool, time.Now())
	return min(left, starts)
}

// readStarts counts the runs of pools that began before this term, so that a limit of starts holds over a takeover.
func (t *term) readStarts(ctx context.Context) error {
	const most = 1000 // of each job
	for _, e := range t.roll.order {
		p := e.job.Pool
		if p.Starts == 0 || t.role == serves {
			continue
		}
		var records []jobs.Record
		err := t.retry(ctx, "count starts", func(ctx context.Context) (err error) {
			records, err = t.db.Runs(ctx, t.holder.Group, jobs.Filter{Job: e.job.Name, Limit: most})
			return err
		})
		if err != nil {
			return err
		}
		for _, r := range records {
			if ago := t.clock.Theirs(t.now()).Sub(r.Started); !r.Started.IsZero() && ago < p.Per {
				t.slots.began(p, time.Now().Add(-max(0, ago)))
			}
		}
	}
	return nil
}
