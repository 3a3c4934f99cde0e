package torture

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/lease"
)

// class is where a fault strikes. Two faults of different classes may strike at the same time.
type class int

const (
	processes class = iota
	network
	servers
)

// fault is a kind of fault.
type fault struct {
	name  string
	class class
	on    func(database) bool // whether there can be this fault; nil: always
	may   func(*round) bool   // whether it may happen now; nil: always
	// do injects the fault, lets it last, and heals it. What it returns is asked once a leader is back: whether the
	// fault had an effect.
	do func(*round, *rand.Rand) (bit func() bool)
}

// between is a random duration.
func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)+1))
}

// faults are all kinds, those of the database included.
func faults(d database) []fault {
	return slices.Concat(processFaults, networkFaults(), serverFaults, d.faults(), jobFaults, clockFaults, releaseFaults)
}

// deck is all kinds that there can be on the database and that were asked for, in random order.
func deck(d database, random *rand.Rand) []fault {
	all := slices.DeleteFunc(faults(d), func(f fault) bool {
		return f.on != nil && !f.on(d) || !wanted.MatchString(f.name)
	})
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// oneServerLeads says that the players use one server at a time, which can show them whether the leader is connected.
func oneServerLeads(d database) bool { return !d.isGalera() }

// any is a slot at random.
func (r *round) any(random *rand.Rand) *slot { return r.slots[random.IntN(len(r.slots))] }

// leaderOrAny returns the leader's slot, or any slot without a leader.
func (r *round) leaderOrAny(random *rand.Rand) *slot {
	if s := r.leader(); s != nil {
		return s
	}
	return r.any(random)
}

// follower is a slot that is not the leader's.
func (r *round) follower(random *rand.Rand) *slot {
	leader := r.leader()
	for {
		if s := r.any(random); s != leader {
			return s
		}
	}
}

// after returns whether something of these kinds has happened after now, when it is asked.
func (r *round) after(kinds ...Kind) (bit func() bool) {
	mark := r.mark()
	return func() bool {
		return r.since(mark, func(e Event) bool { return slices.Contains(kinds, e.Kind) })
	}
}

// early is after, for a lease that was taken early. In ZooKeeper that often takes as long as the lease: a session ends
// after half a TTL, and then the runs of the leader get time to stop.
func (r *round) early() (bit func() bool) {
	if _, is := r.database.(*zookeeperDatabase); is {
		return r.after(Early, Lead)
	}
	return r.after(Early)
}

// complained is after, for troubles with one of the texts in them.
func (r *round) complained(texts ...string) (bit func() bool) {
	mark := r.mark()
	return func() bool {
		return r.since(mark, func(e Event) bool {
			return slices.ContainsFunc(texts, func(text string) bool {
				return e.Text != "" && strings.Contains(strings.ToLower(e.Text), text)
			})
		})
	}
}

var processFaults = []fault{
	{name: "leader: SIGKILL", do: func(r *round, random *rand.Rand) func() bool {
		bit := r.after(Lead)
		s := r.leaderOrAny(random)
		s.kill()
		r.rest(between(random, 0, r.ttl/2))
		s.restart()
		return bit
	}},
	{name: crash, on: oneServerLeads, do: func(r *round, random *rand.Rand) func() bool {
		// By then a leader whose connection was cut has found out, which it does within 4 TTL, and all players have met it. Those
		// whose login was refused stay away longer.
		for begin := time.Now(); ; {
			refused := r.complained(lease.ErrDenied.Error())
			r.rest(6*r.ttl + between(random, 0, r.ttl))
			if !refused() {
				break
			}
			if time.Since(begin) > patience {
				r.broken("logins are still refused after %v", patience)
				break
			}
		}
		bit := r.early()
		s := r.leaderOrAny(random)
		s.kill()
		r.rest(2 * r.ttl)
		s.restart()
		return bit
	}},
	{name: "follower: SIGKILL", do: func(r *round, random *rand.Rand) func() bool {
		bit := r.after(Up)
		s := r.follower(random)
		s.kill()
		r.rest(between(random, 0, r.ttl/2))
		s.restart()
		return bit
	}},
	{name: "all players: SIGKILL", do: func(r *round, random *rand.Rand) func() bool {
		bit := r.after(Lead)
		for _, s := range r.slots {
			s.kill()
		}
		r.rest(between(random, 0, r.ttl/2))
		for _, s := range r.slots {
			s.restart()
		}
		return bit
	}},
	{name: "leader: SIGSTOP, SIGCONT", do: func(r *round, random *rand.Rand) func() bool {
		bit := r.after(Drain, Lead)
		return pauseFor(r, between(random, r.ttl/4, 3*r.ttl), bit, r.leaderOrAny(random))
	}},
	{name: "follower: SIGSTOP, SIGCONT", do: func(r *round, random *rand.Rand) func() bool {
		bit := r.after(Starved)
		return pauseFor(r, between(random, r.ttl/4, 3*r.ttl), bit, r.follower(random))
	}},
	{name: "all players: SIGSTOP, SIGCONT", do: func(r *round, random *rand.Rand) func() bool {
		bit := r.after(Drain, Lead)
		return pauseFor(r, between(random, r.ttl/4, 2*r.ttl), bit, r.slots...)
	}},
	{name: "leader: SIGTERM", do: func(r *round, random *rand.Rand) func() bool {
		bit := r.after(Lead)
		s := r.leaderOrAny(random)
		s.terminate()
		s.restart()
		return bit
	}},
}

func pauseFor(r *round, d time.Duration, bit func() bool, victims ...*slot) func() bool {
	for _, s := range victims {
		if p := s.now(); p != nil {
			r.pause(p)
			defer r.resume(p)
		}
	}
	r.rest(d)
	return bit
}

// networkFaults break the links of the leader, of a follower, or of all players.
func networkFaults() []fault {
	toServer, toClient := dbtest.ToServer, dbtest.ToClient
	hole := func(directions ...dbtest.Direction) func(*round, *rand.Rand) func() bool {
		return func(r *round, random *rand.Rand) func() bool {
			bit := r.after(Trouble, Drain, Lead)
			return onLinks(r, random, bit, func(p *dbtest.Proxy) { p.BlackHole(directions...) })
		}
	}
	slow := func(direction dbtest.Direction) func(*round, *rand.Rand) func() bool {
		return func(r *round, random *rand.Rand) func() bool {
			bit, by := r.after(Trouble, Drain, Lead), between(random, r.ttl/20, r.ttl)
			return onLinks(r, random, bit, func(p *dbtest.Proxy) { p.Delay(by, direction) })
		}
	}
	return []fault{
		{name: "network: black hole to the server", class: network, do: hole(toServer)},
		{name: "network: black hole to the client", class: network, do: hole(toClient)},
		{name: "network: black hole", class: network, do: hole()},
		{name: "network: delay to the server", class: network, do: slow(toServer)},
		{name: "network: delay to the client", class: network, do: slow(toClient)},
		{name: "network: refused", class: network, do: func(r *round, random *rand.Rand) func() bool {
			bit := r.after(Trouble, Drain, Lead)
			return onLinks(r, random, bit, func(p *dbtest.Proxy) { p.Refuse(); p.Reset() })
		}},
		{name: "network: reset", class: network, do: func(r *round, random *rand.Rand) func() bool {
			cut := 0
			for range 1 + random.IntN(5) {
				for _, s := range victims(r, random) {
					for _, p := range s.proxies {
						cut += p.Reset()
					}
				}
				r.rest(between(random, 0, r.ttl/10))
			}
			return func() bool { return cut > 0 }
		}},
		{name: "network: leader cut off, its connection killed", class: network, on: oneServerLeads, do: func(r *round, random *rand.Rand) func() bool {
			r.rest(between(random, r.ttl, 2*r.ttl)) // so that others meet it
			bit, s := r.early(), r.leaderOrAny(random)
			for _, p := range s.proxies {
				p.BlackHole()
			}
			r.database.cutLeader()
			r.rest(between(random, r.ttl/2, 2*r.ttl))
			for _, p := range s.proxies {
				p.Pass()
			}
			return bit
		}},
		{name: "network: lost request", class: network, do: lose((*dbtest.Proxy).DropRequest)},
		{name: "network: lost reply", class: network, do: lose((*dbtest.Proxy).DropReply)},
	}
}

// victims are the leader, mostly, or a follower, or all.
func victims(r *round, random *rand.Rand) []*slot {
	switch random.IntN(5) {
	case 0:
		return r.slots
	case 1:
		return []*slot{r.follower(random)}
	default:
		return []*slot{r.leaderOrAny(random)}
	}
}

// onLinks breaks links for a while. What was held back is delivered late, or lost.
func onLinks(r *round, random *rand.Rand, bit func() bool, breakIt func(*dbtest.Proxy)) func() bool {
	hurt := victims(r, random)
	for _, s := range hurt {
		for _, p := range s.proxies {
			breakIt(p)
		}
	}
	r.rest(between(random, r.ttl/4, 2*r.ttl))
	lost := random.IntN(2) == 0
	for _, s := range hurt {
		for _, p := range s.proxies {
			if lost {
				p.Reset()
			}
			p.Pass()
		}
	}
	return bit
}

// lose loses several messages of the leader, one after the other: those of the protocol's own statements, and others.
func lose(one func(*dbtest.Proxy, string) <-chan struct{}) func(*round, *rand.Rand) func() bool {
	return func(r *round, random *rand.Rand) func() bool {
		lost, texts := 0, r.database.texts()
		for range 1 + random.IntN(4) {
			s, text := r.leaderOrAny(random), texts[random.IntN(len(texts))]
			hit, stop := make(chan struct{}, len(s.proxies)), make(chan struct{})
			for _, p := range s.proxies {
				done := one(p, text)
				go func() {
					select {
					case <-done:
						hit <- struct{}{}
					case <-stop:
					}
				}()
			}
			select {
			case <-hit:
				lost++
			case <-time.After(r.ttl):
			}
			close(stop)
			for _, p := range s.proxies {
				p.Pass()
			}
		}
		return func() bool { return lost > 0 }
	}
}
