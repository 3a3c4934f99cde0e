package torture

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
)

// failovers are faults by which the sentinels promote a replica.
var failovers = []fault{
	{name: "failover: the primary killed", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		return r.sentinel().failover(func(old int) {
			r.sentinel().kill(old)
		}, func(old int) {
			r.rest(between(random, 0, r.ttl))
			r.sentinel().again(old)
		})
	}},
	{name: "failover: the primary stands still", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		return r.sentinel().failover(func(old int) {
			if err := r.sentinel().nodes[old].Pause(); err != nil {
				r.broken("%v", err)
			}
		}, func(old int) {
			r.rest(between(random, 0, r.ttl))
			if err := r.sentinel().nodes[old].Resume(); err != nil {
				r.broken("%v", err)
			}
			r.rest(between(random, 0, r.ttl/2)) // it takes itself for the primary
		})
	}},
	{name: "failover: the primary cut off from all but players", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		d := r.sentinel()
		// Its leader may hear nothing of the sentinels either.
		var deaf []*dbtest.Proxy
		if random.IntN(2) == 0 {
			deaf = r.leaderOrAny(random).proxies[len(d.nodes):]
		}
		return d.failover(func(old int) {
			for _, p := range append(slices.Clone(deaf), d.backs[old]) {
				p.BlackHole()
			}
		}, func(old int) {
			r.rest(between(random, 0, 3*r.ttl))
			for _, p := range append(slices.Clone(deaf), d.backs[old]) {
				p.Reset()
				p.Pass()
			}
		})
	}},
	{name: "failover: SENTINEL FAILOVER", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		d := r.sentinel()
		return d.failover(func(int) {
			d.await("a sentinel that begins a failover", func(ctx context.Context) bool {
				return d.watchers[random.IntN(len(d.watchers))].Failover(ctx, sentinelName).Err() == nil
			})
		}, func(int) {})
	}},
	{name: "failover: the last writes lost", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		d := r.sentinel()
		return d.failover(func(old int) {
			d.backs[old].Delay(between(random, r.ttl/10, r.ttl/2), dbtest.ToClient)
			r.rest(between(random, r.ttl/2, r.ttl))
			d.kill(old)
			d.backs[old].Reset() // with what is on its way
		}, func(old int) {
			d.backs[old].Pass()
			r.rest(between(random, 0, r.ttl/2))
			d.again(old)
		})
	}},
}

// sentinel is the database of a fault that only sentinels have.
func (r *round) sentinel() *sentinelDatabase { return r.database.(*sentinelDatabase) }

// failover breaks the primary, and mends it once another was promoted.
func (d *sentinelDatabase) failover(breaks, mends func(old int)) (bit func() bool) {
	old, begin := d.main(), time.Now()
	breaks(old)
	d.await("a failover", func(ctx context.Context) bool {
		for _, w := range d.watchers {
			if n := d.promoted(ctx, w); n >= 0 && n != old {
				return true
			}
		}
		return false
	})
	mends(old)
	d.stable(begin)
	is := d.main() != old
	return func() bool { return is }
}

// faults are those of one server, after which the sentinels may have promoted a replica, and failovers.
func (d *sentinelDatabase) faults() []fault {
	all := slices.Clone(redisFaults)
	for i, f := range all {
		all[i].do = func(r *round, random *rand.Rand) func() bool {
			begin := time.Now()
			defer d.stable(begin)
			return f.do(r, random)
		}
	}
	return append(all, failovers...)
}

func (d *sentinelDatabase) some(*rand.Rand) int { return d.main() }

// start starts a node again, which was the primary, and is a replica if another one was promoted.
func (d *sentinelDatabase) start(node int) {
	begin := time.Now()
	d.again(node)
	d.stable(begin)
}

// again starts a node, which forgets what it was.
func (d *sentinelDatabase) again(node int) {
	d.redisDatabase.start(node)
	d.announce(node)
}

func (d *sentinelDatabase) pause(node int, length time.Duration) {
	begin := time.Now()
	d.redisDatabase.pause(node, length)
	d.stable(begin)
}
