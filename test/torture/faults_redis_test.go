package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// redisFaults are those that only a server of Redis has.
var redisFaults = []fault{
	{name: "server: a replica for a while", class: servers, on: isLone, do: func(r *round, random *rand.Rand) func() bool {
		bit := r.complained("readonly", "it is a replica")
		return r.redis().set(random, bit, []any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"})
	}},
	{name: "server: too few replicas", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		return r.redis().configure(random, r.complained("noreplicas"), "min-replicas-to-write", strconv.Itoa(len(r.redis().nodes)), strconv.Itoa(r.redis().replicas))
	}},
	{name: "server: out of memory", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		return r.redis().configure(random, r.complained("oom"), "maxmemory", "1", "0")
	}},
	{name: "server: maxclients spent", class: servers, on: isLone, do: func(r *round, random *rand.Rand) func() bool {
		d := r.redis()
		before := d.says("stats", "rejected_connections")
		d.try("CONFIG", "SET", "maxclients", "1")
		d.killConnections()
		r.rest(between(random, r.ttl/4, 2*r.ttl))
		after := d.says("stats", "rejected_connections")
		d.try("CONFIG", "SET", "maxclients", "10000")
		return func() bool { return after != before }
	}},
	{name: "server: CLIENT KILL", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		killed := 0
		for range 1 + random.IntN(4) {
			killed += r.redis().killConnections()
			r.rest(between(random, 0, r.ttl/10))
		}
		return func() bool { return killed > 0 }
	}},
	{name: "server: CLIENT PAUSE WRITE", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		bit := r.after(Trouble, Drain, Lead)
		return r.redis().set(random, bit, []any{"CLIENT", "PAUSE", "60000", "WRITE"}, []any{"CLIENT", "UNPAUSE"})
	}},
	{name: "server: a script that does not end", class: servers, on: isLone, do: func(r *round, random *rand.Rand) func() bool {
		d, bit := r.redis(), r.complained("busy")
		ended := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			ended <- d.admin().WithTimeout(patience).Eval(ctx, "while true do end", nil).Err()
		}()
		r.rest(between(random, r.ttl/4, 2*r.ttl))
		d.try("SCRIPT", "KILL")
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "killed by user") {
			r.broken("the script ended by itself: %v", err)
		}
		return bit
	}},
	{name: "server: SCRIPT FLUSH", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		d := r.redis()
		before := d.says("errorstats", "errorstat_NOSCRIPT")
		for range 1 + random.IntN(4) {
			d.try("SCRIPT", "FLUSH")
			r.rest(between(random, 0, r.ttl))
		}
		return func() bool { return d.says("errorstats", "errorstat_NOSCRIPT") != before }
	}},
	{name: "lease row: rewound", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		bit, d := r.newTerm(), r.redis()
		was, err := d.redisRow(redisLease)
		if err != nil {
			return bit // it was deleted just before
		}
		r.rest(between(random, r.ttl/2, r.ttl))
		r.note(Rewound, "")
		args := []any{"EVAL", "redis.call('DEL', KEYS[1]) return redis.call('HSET', KEYS[1], unpack(ARGV))", "1", redisLease}
		for name, value := range was {
			args = append(args, name, value)
		}
		d.try(args...)
		r.rest(between(random, r.ttl/2, r.ttl)) // until its holder has found out
		return bit
	}},
	{name: "lease row: deleted", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		bit := r.newTerm()
		r.redis().try("DEL", redisLease)
		r.rest(between(random, r.ttl, 2*r.ttl)) // until its holder has found out
		return bit
	}},
	{name: "logins: user off", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		return r.redis().deny(random, "off", func() string { return "on" })
	}},
	{name: "logins: no rights", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		return r.redis().deny(random, "-@all", func() string { return strings.TrimPrefix(redisRights, "~* &* ") })
	}},
	{name: "logins: another password, for a while", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		d := r.redis()
		return d.deny(random, "resetpass >another", func() string { return "resetpass >" + d.password })
	}},
	{name: "logins: another password, for good", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		d := r.redis()
		d.password = fmt.Sprintf("password-%d", random.Uint64())
		return d.deny(random, "resetpass >"+d.password, func() string {
			r.tellPassword(d.file, d.password)
			return "on"
		})
	}},
}

func (d *redisDatabase) some(*rand.Rand) int { return 0 }

func (d *redisDatabase) kill(node int) {
	if err := d.nodes[node].Kill(); err != nil {
		d.round.broken("%v", err)
	}
}

func (d *redisDatabase) stop(node int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := d.nodes[node].Stop(ctx); err != nil {
		d.round.broken("%v", err)
	}
}

func (d *redisDatabase) start(node int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := d.nodes[node].Start(ctx); err != nil {
		d.round.broken("%v", err)
	}
}

func (d *redisDatabase) pause(node int, length time.Duration) {
	if err := d.nodes[node].Pause(); err != nil {
		d.round.broken("%v", err)
	}
	d.round.rest(length)
	if err := d.nodes[node].Resume(); err != nil {
		d.round.broken("%v", err)
	}
}

// set has the server execute a command that breaks something, and after a while the one that mends it.
func (d *redisDatabase) set(random *rand.Rand, bit func() bool, breaks, mends []any) func() bool {
	d.try(breaks...)
	d.round.rest(between(random, d.round.ttl/4, 2*d.round.ttl))
	d.try(mends...)
	return bit
}

func (d *redisDatabase) configure(random *rand.Rand, bit func() bool, setting, to, back string) func() bool {
	return d.set(random, bit, []any{"CONFIG", "SET", setting, to}, []any{"CONFIG", "SET", setting, back})
}

// deny changes the players' user, so that the server refuses them, until it is as it should be again.
func (d *redisDatabase) deny(random *rand.Rand, change string, back func() string) func() bool {
	bit := d.round.complained("wrongpass", "noauth", "noperm")
	d.change(change)
	d.killConnections()
	d.round.rest(between(random, d.round.ttl/2, 3*d.round.ttl))
	d.change(back())
	d.round.wasDenied()
	return bit
}

// change changes the players' user on each server, in the file too from which it has it after a restart.
func (d *redisDatabase) change(rules string) {
	args := []any{"ACL", "SETUSER", "player"}
	for rule := range strings.FieldsSeq(rules) {
		args = append(args, rule)
	}
	for _, admin := range d.admins {
		d.tryOn(admin, args...)
		d.tryOn(admin, "ACL", "SAVE")
	}
}

// says is what the server says of itself.
func (d *redisDatabase) says(section, name string) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	is, err := d.admin().InfoMap(ctx, section).Result()
	if err != nil {
		d.round.broken("INFO %s: %v", section, err)
	}
	for _, of := range is {
		if value, ok := of[name]; ok {
			return value
		}
	}
	return ""
}
