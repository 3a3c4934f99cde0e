package scheduler

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler/internal/plan"
	"github.com/cronlease/cronlease/store"
)

// slots are the runs that this replica has room for.
type slots struct {
	most  int              // runs at a time; 0: any number
	taken int              // by runs in the phase running
	whole int              // runs in that phase that take none, since their shards do
	pools map[string]*pool // those without one have the pool of no name
	lined int              // how many runs have stood in line
}

// pool is what goes on of the runs of a pool, and what waits for it or for a slot.
type pool struct {
	taken  int         // by runs in the phase running
	begins int         // of how many of these the ledger is not known to have the start
	starts []time.Time // of the last [jobs.Pool].Per, oldest first
	again  time.Time   // when its line is looked at again; zero: at the next event
	line   []*run      // by priority, and first come first served
}

func (s *slots) pool(name string) *pool {
	p := s.pools[name]
	if p == nil {
		if s.pools == nil {
			s.pools = map[string]*pool{}
		}
		p = &pool{}
		s.pools[name] = p
	}
	return p
}

// begun takes in that the ledger has the start of a run in the phase running, which counts from then on: no earlier than the ledger says.
func (s *slots) begun(r *run, at time.Time) {
	if s.awaited(r) {
		s.began(r.entry.job.Pool, at)
	}
}

// awaited reports whether the start of a run was awaited, and awaits it no longer.
func (s *slots) awaited(r *run) bool {
	was := r.begins
	if was {
		r.begins = false
		s.pool(r.pool).begins--
	}
	return was
}

// began counts a run of a pool that began then.
func (s *slots) began(of jobs.Pool, at time.Time) {
	if of.Starts == 0 {
		return
	}
	p := s.pool(of.Name)
	i, _ := slices.BinarySearchFunc(p.starts, at, time.Time.Compare)
	p.starts = slices.Insert(p.starts, i, at)
}

// startsLeft is how many more runs of a pool may begin now, and if none may, when the next one may, once those that are
// about to have begun.
func (s *slots) startsLeft(of jobs.Pool, now time.Time) (left int, wait time.Duration) {
	if of.Starts == 0 {
		return math.MaxInt, 0
	}
	p := s.pool(of.Name)
	for len(p.starts) > 0 && now.Sub(p.starts[0]) >= of.Per {
		p.starts = p.starts[1:]
	}
	if left = of.Starts - len(p.starts) - p.begins; left > 0 {
		return left, 0
	}
	if n := len(p.starts) - of.Starts; n >= 0 {
		wait = of.Per - now.Sub(p.starts[n])
	}
	return 0, wait
}

// left is how many more runs may start.
func (s *slots) left() int {
	if s.most == 0 {
		return math.MaxInt
	}
	return max(0, s.most-s.taken)
}

func (s *slots) free() bool { return s.left() > 0 }

// lineUp has a run wait for its pool and a slot: in the place of a run of its job that was ended while it waited, or behind those of its
// priority. Otherwise a job whose ticks replace each other would never come to the front.
func (s *slots) lineUp(r *run) {
	p := s.pool(r.entry.job.Pool.Name)
	at := slices.IndexFunc(p.line, func(other *run) bool { return other.entry == r.entry && other.Phase() != plan.Ready })
	if at >= 0 {
		r.place, p.line[at] = p.line[at].place, r
		return
	}
	s.lined++
	r.place = s.lined
	at = len(p.line)
	for at > 0 && r.entry.job.Priority.Before(p.line[at-1].entry.job.Priority) {
		at--
	}
	p.line = slices.Insert(p.line, at, r)
}

// lineUpAgain lines the runs of a job up as its pool and its priority are now, each by its place in the line.
func (s *slots) lineUpAgain(e *entry, from jobs.Pool) {
	p := s.pool(from.Name)
	var its []*run
	p.line = slices.DeleteFunc(p.line, func(r *run) bool {
		if r.entry == e && r.Phase() == plan.Ready {
			its = append(its, r)
		}
		return r.entry == e
	})
	to := s.pool(e.job.Pool.Name)
	to.line = append(to.line, its...)
	slices.SortStableFunc(to.line, func(a, b *run) int {
		switch {
		case isBefore(a, b):
			return -1
		case isBefore(b, a):
			return 1
		}
		return 0
	})
}

// next is the pool whose line has the run that is to start next, of those that may; nil: none has.
func (s *slots) next(may func(*pool) bool) (first *pool) {
	for _, p := range s.pools {
		for len(p.line) > 0 && p.line[0].Phase() != plan.Ready {
			p.line = p.line[1:]
		}
		if len(p.line) > 0 && may(p) && (first == nil || isBefore(p.line[0], first.line[0])) {
			first = p
		}
	}
	return first
}

// isBefore reports whether a run that waits for a slot gets one before another.
func isBefore(a, b *run) bool {
	pa, pb := a.entry.job.Priority, b.entry.job.Priority
	return pa.Before(pb) || !pb.Before(pa) && a.place < b.place
}

// shift counts a run that moves to another phase; here says that this replica has its slot.
func (s *slots) shift(r *run, to plan.Phase, here bool) {
	count := &s.taken
	if r.shards != "" {
		count, here = &s.whole, true
	}
	if here && r.Phase() == plan.Running {
		*count--
	}
	if here && to == plan.Running {
		*count++
	}
	if to != plan.Running {
		s.awaited(r)
	}
	if r.pool != "" {
		s.pool(r.pool).taken--
	}
	was := r.Phase()
	if r.pool = ""; to == plan.Running {
		r.pool = r.entry.job.Pool.Name
	}
	if r.pool != "" {
		s.pool(r.pool).taken++
		if was != plan.Running {
			r.begins = true
			s.pool(r.pool).begins++
		}
	}
}

// poolLeft is how many more runs the pool of a job lets start.
func (t *term) poolLeft(e *entry) int {
	pool := e.job.Pool
	if pool.Name == "" || t.role == serves { // the leader has seen to it
		return math.MaxInt
	}
	taken := t.slots.pool(pool.Name).taken
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

// readStarts counts the attempts of pools that began before this term, so that a limit of starts holds over a takeover. A run with several
// counts as if all had begun with the last. Of runs that are over the newest are read, until one of them began before the time that counts.
func (t *term) readStarts(ctx context.Context, snapshot jobs.Snapshot) error {
	var names []string
	for _, e := range t.roll.order {
		if e.job.Pool.Starts > 0 && snapshot.Now.Sub(snapshot.Jobs[e.job.Name].Started) < e.job.Pool.Per {
			names = append(names, e.job.Name)
		}
	}
	count := func(r jobs.Record) {
		e, ago := t.roll.entries[r.Job], max(0, snapshot.Now.Sub(r.Started))
		if e == nil || r.Started.IsZero() || ago >= e.job.Pool.Per {
			return
		}
		for range max(1, r.Begun()) {
			t.slots.began(e.job.Pool, time.Now().Add(-ago))
		}
	}
	for _, r := range snapshot.Open {
		count(r)
	}
	const few, most = 8, 1000 // runs of each job
	for limit := few; len(names) > 0; limit = most {
		var more []string
		for some := range slices.Chunk(names, jobs.MaxOf*few/limit) {
			var newest map[string][]jobs.Record
			err := t.retry(ctx, "count starts", func(ctx context.Context) (err error) {
				newest, err = newestRuns(ctx, t.db, t.holder.Group, jobs.Newest{Jobs: some, Over: true, Limit: limit})
				return err
			})
			if err != nil {
				return err
			}
			for _, name := range some {
				runs := newest[name]
				if limit < most && len(runs) == limit && !slices.ContainsFunc(runs, func(r jobs.Record) bool {
					return !r.Started.IsZero() && snapshot.Now.Sub(r.Started) >= t.roll.entries[name].job.Pool.Per
				}) {
					more = append(more, name)
					continue
				}
				for _, r := range runs {
					count(r)
				}
			}
		}
		names = more
	}
	return nil
}

// newestRuns reads the newest runs of some jobs.
func newestRuns(ctx context.Context, db store.Jobs, group string, of jobs.Newest) (newest map[string][]jobs.Record, err error) {
	if archive, ok := db.(store.Archive); ok {
		return archive.Newest(ctx, group, of)
	}
	newest = map[string][]jobs.Record{}
	for _, name := range of.Jobs {
		runs, err := db.Runs(ctx, group, jobs.Filter{Job: name, Limit: of.Limit})
		if err != nil {
			return nil, err
		}
		newest[name] = slices.DeleteFunc(runs, func(r jobs.Record) bool { return !r.State.Over() })
	}
	return newest, nil
}
