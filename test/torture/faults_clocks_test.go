package torture

import (
	"math/rand/v2"
	"time"
)

// clockFaults set clocks hours apart for a while, of which the players allow seconds.
var clockFaults = []fault{
	{name: "clocks: the database's hours off", class: servers, on: alone, may: (*round).mayStepForAWhile, do: func(r *round, random *rand.Rand) func() bool {
		bit, by := r.complained("differ too much"), hoursOff(random)
		r.step()
		r.database.moveClock(by)
		r.note(Apart, "")
		// Every follower has to see each step by itself, also one that was paused or cut off meanwhile.
		r.rest(between(random, 4*r.ttl, 5*r.ttl))
		r.note(Together, "")
		r.database.moveClock(-by)
		r.step()
		return bit
	}},
	{name: "clocks: a player's hours off", may: func(r *round) bool { return r.maxSkew > 0 }, do: func(r *round, random *rand.Rand) func() bool {
		bit, by := r.complained("differ too much"), hoursOff(random)
		p := r.leaderOrAny(random).now()
		if p == nil {
			return bit
		}
		p.order(Order{Wrong: by})
		r.record(Event{At: time.Now().UnixNano(), Worker: p.worker, Kind: Apart})
		r.rest(between(random, r.ttl, 4*r.ttl))
		r.record(Event{At: time.Now().UnixNano(), Worker: p.worker, Kind: Together})
		p.order(Order{})
		return bit
	}},
}

// hoursOff is by how much a clock is wrong.
func hoursOff(random *rand.Rand) time.Duration {
	by := between(random, time.Hour, 6*time.Hour)
	if random.IntN(2) == 0 {
		return -by
	}
	return by
}
