package torture

import (
	"math/rand/v2"
)

// releaseFaults are what a deployment and its surroundings do to a process.
var releaseFaults = []fault{
	{name: "leader: another schedule", do: func(r *round, random *rand.Rand) func() bool {
		s := r.leaderOrAny(random)
		s.odd = !s.odd
		bit := r.ticksOf("text", s.odd)
		if random.IntN(2) == 0 {
			s.terminate()
		} else {
			s.kill()
		}
		r.rest(between(random, 0, r.ttl))
		s.restart()
		return bit
	}},
	{name: "all players: another schedule", do: func(r *round, random *rand.Rand) func() bool {
		odd := !r.slots[0].odd
		bit := r.ticksOf("text", odd)
		for _, s := range r.slots {
			s.odd = odd
			s.terminate()
		}
		r.rest(between(random, 0, 3*r.ttl))
		for _, s := range r.slots {
			s.restart()
		}
		return bit
	}},
	{name: "leader: log blocked", do: func(r *round, random *rand.Rand) func() bool {
		return r.mute(random, r.leaderOrAny(random))
	}},
	{name: "all players: log blocked", do: func(r *round, random *rand.Rand) func() bool {
		return r.mute(random, r.slots...)
	}},
}

// ticksOf says whether a run of an odd second of the job, or an even one, has begun when it is asked, or another term has.
func (r *round) ticksOf(job string, odd bool) (bit func() bool) {
	mark := r.mark()
	return func() bool {
		return r.since(mark, func(e Event) bool {
			return e.Kind == Lead || e.Kind == Run && e.Job == job && isOdd(e.Tick) == odd
		})
	}
}

// mute blocks the players' log output for a while.
func (r *round) mute(random *rand.Rand, slots ...*slot) (bit func() bool) {
	bit = r.after(Mute)
	for _, s := range slots {
		if p := s.now(); p != nil {
			p.order(Order{Mute: true})
			defer p.order(Order{})
		}
	}
	r.rest(between(random, r.ttl, 4*r.ttl))
	return bit
}
