package torture

import (
	"math/rand/v2"
	"time"
)

// clockFaults set the database's clock for good, or clocks hours apart for a while, of which the players allow seconds.
var clockFaults = []fault{
	{name: "server: clock forward", class: servers, on: hasClock, may: (*round).mayStepForGood, do: func(r *round, random *rand.Rand) func() bool {
		return r.stepClock(random, between(random, time.Second, 6*time.Hour))
	}},
	{name: "server: clock back", class: servers, on: alone, may: (*round).mayStepForGood, do: func(r *round, random *rand.Rand) func() bool {
		return r.stepClock(random, -between(random, time.Second, 6*time.Hour))
	}},
	{name: "clocks: the database's hours off", class: servers, on: alone, may: (*round).mayStepForAWhile, do: func(r *round, random *rand.Rand) func() bool {
		bit, by := r.complained("differ too much"), hoursOff(random)
		r.step()
		r.database.clock().moveClock(by)
		r.note(Apart, "")
		// Every follower has to see each step by itself, also one that was paused or cut off meanwhile.
		r.rest(between(random, 4*r.ttl, 5*r.ttl))
		r.note(Together, "")
		r.database.clock().moveClock(-by)
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

// hasClock says that the database's clock can be set.
func hasClock(d database) bool { return d.clock() != nil }

// alone says that it can, and that there is no replica, which could be promoted with a clock behind a lost token.
func alone(d database) bool { return hasClock(d) && !d.isPair() }

// stepClock sets the clock of the nodes by that much: of all of them, since several that take writes have to agree. It has
// an effect if a later heartbeat shows it.
func (r *round) stepClock(random *rand.Rand, by time.Duration) (bit func() bool) {
	r.step()
	before, err := r.database.clock().heartbeat()
	if err != nil {
		return func() bool { return false }
	}
	begin := time.Now()
	r.database.clock().moveClock(by)
	r.note(Stepped, by.String())
	r.rest(between(random, 0, r.ttl/2))
	return func() bool {
		after, err := r.database.clock().heartbeat()
		if err != nil {
			return false // its row was deleted just before
		}
		// What has passed since cannot explain it.
		shift := after.Sub(before) - time.Since(begin)
		return shift.Abs() > by.Abs()/2
	}
}
