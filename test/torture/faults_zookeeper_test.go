package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/cronlease/cronlease/internal/zkserver"
)

// zookeeperFaults are those that only an ensemble of ZooKeeper has.
var zookeeperFaults = []fault{
	{name: "ensemble: leader SIGKILL", class: servers, do: killServers((*zookeeperDatabase).leader)},
	{name: "ensemble: no majority, SIGKILL", class: servers, do: killServers((*zookeeperDatabase).majority)},
	{name: "ensemble: all SIGKILL", class: servers, do: killServers(func(d *zookeeperDatabase, _ *rand.Rand) []*zkserver.Server { return d.servers })},
	{name: "ensemble: restarted one by one", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		bit := killed(r)
		for _, i := range random.Perm(len(r.zookeeper().servers)) {
			killServers(func(d *zookeeperDatabase, _ *rand.Rand) []*zkserver.Server { return d.servers[i : i+1] })(r, random)
		}
		return bit
	}},
	{name: "ensemble: a follower loses its data", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		d := r.zookeeper()
		server := d.follower(random)[0]
		d.each(server.Kill, server.Lose)
		r.rest(between(random, 0, r.ttl))
		d.begin(server)
		return func() bool { return true } // it has come back with nothing
	}},
	{name: "ensemble: leader SIGSTOP, SIGCONT", class: servers, do: pauseServers((*zookeeperDatabase).leader)},
	{name: "ensemble: no majority, SIGSTOP, SIGCONT", class: servers, do: pauseServers((*zookeeperDatabase).majority)},
	{name: "server: another one to the players", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		d := r.zookeeper()
		for range 1 + random.IntN(3) {
			d.set(zookeeperID, []byte(fmt.Sprint(random.Uint64())))
			r.rest(between(random, 0, r.ttl))
		}
		return func() bool { return true } // each transaction compares it
	}},
	{name: "lease row: rewound", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		bit, d := r.newTerm(), r.zookeeper()
		var was []byte
		d.try("read the lease", func() error {
			data, stat, err := d.admin.Get(zookeeperLease)
			if err != nil {
				return noNode(err)
			}
			was, err = renewedThen(data, stat)
			return err
		})
		r.rest(between(random, r.ttl/2, r.ttl))
		if was == nil {
			return bit // it was deleted just before
		}
		r.note(Rewound, "")
		d.set(zookeeperLease, was)
		r.rest(between(random, r.ttl/2, r.ttl)) // until its holder has found out
		return bit
	}},
	{name: "lease row: deleted", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		bit, d := r.newTerm(), r.zookeeper()
		d.remove(zookeeperLease)
		r.rest(between(random, r.ttl, 2*r.ttl)) // until its holder has found out
		return bit
	}},
	{name: "fence row: deleted", class: servers, do: func(r *round, random *rand.Rand) func() bool {
		bit, d := r.after(Trouble, Drain, Lead), r.zookeeper()
		d.try("read the fence", func() error {
			names, _, err := d.admin.Children(zookeeperFence)
			for _, name := range names {
				d.remove(zookeeperFence + "/" + name)
			}
			return noNode(err)
		})
		d.remove(zookeeperFence)
		r.rest(between(random, r.ttl, 2*r.ttl))
		return bit
	}},
	{name: "logins: no right to write", class: servers, do: deny(zookeeperClock)},
	{name: "logins: no right to the ledger", class: servers, do: deny(zookeeperLedger)},
	{name: "logins: no right to the lease", class: servers, do: deny(zookeeperLease)},
}

// killed says that players have noticed that servers were away.
func killed(r *round) (bit func() bool) { return r.after(Trouble, Drain, Lead) }

func killServers(which func(*zookeeperDatabase, *rand.Rand) []*zkserver.Server) func(*round, *rand.Rand) func() bool {
	return func(r *round, random *rand.Rand) func() bool {
		bit, d := killed(r), r.zookeeper()
		servers := which(d, random)
		for _, server := range servers {
			d.each(server.Kill)
		}
		r.rest(between(random, 0, 2*r.ttl))
		d.begin(servers...)
		return bit
	}
}

// pauseServers stops servers for as long as the others may take to notice, or not.
func pauseServers(which func(*zookeeperDatabase, *rand.Rand) []*zkserver.Server) func(*round, *rand.Rand) func() bool {
	return func(r *round, random *rand.Rand) func() bool {
		bit, d := killed(r), r.zookeeper()
		d.standStill(between(random, r.ttl/4, 4*r.ttl), which(d, random)...)
		return bit
	}
}

func (d *zookeeperDatabase) standStill(length time.Duration, servers ...*zkserver.Server) {
	for _, server := range servers {
		d.each(server.Pause)
	}
	d.round.rest(length)
	for _, server := range servers {
		d.each(server.Resume)
	}
	d.whole()
}

func (d *zookeeperDatabase) some(random *rand.Rand) int { return random.IntN(len(d.servers)) }

func (d *zookeeperDatabase) kill(node int) { d.each(d.servers[node].Kill) }

// stop is kill: ZooKeeper has no other end.
func (d *zookeeperDatabase) stop(node int) { d.kill(node) }

func (d *zookeeperDatabase) start(node int) { d.begin(d.servers[node]) }

func (d *zookeeperDatabase) pause(node int, length time.Duration) {
	d.standStill(length, d.servers[node])
}

// each does what must work.
func (d *zookeeperDatabase) each(steps ...func() error) {
	for _, step := range steps {
		if err := step(); err != nil {
			d.round.broken("%v", err)
		}
	}
}

// begin starts servers again, and returns when the ensemble is whole.
func (d *zookeeperDatabase) begin(servers ...*zkserver.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, server := range servers {
		if err := server.Start(ctx); err != nil {
			d.round.broken("%v", err)
		}
	}
	d.whole()
}

// whole waits until all servers serve. One that does not find the others again, as after a SIGKILL between two of the
// files that say how far it is, takes a person elsewhere: it begins anew without its data, which the others have.
func (d *zookeeperDatabase) whole() {
	replaced := false
	for begun := time.Now(); ; d.round.rest(50 * time.Millisecond) {
		modes, away := d.modes()
		switch waited := time.Since(begun); {
		case len(away) == 0 && modes["leader"] == 1:
			return
		case waited > patience:
			d.round.broken("the servers of the ensemble do not find each other: %v", modes)
			return
		case waited > patience/2 && len(away) == 1 && !replaced:
			replaced = true
			_ = away[0].Kill() // it may have ended by itself
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			d.each(away[0].Lose, func() error { return away[0].Start(ctx) })
			cancel()
		}
	}
}

// modes counts what the servers do, and returns those that neither lead nor follow.
func (d *zookeeperDatabase) modes() (modes map[string]int, away []*zkserver.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	modes = map[string]int{}
	for _, server := range d.servers {
		mode := server.Mode(ctx)
		if modes[mode]++; mode != "leader" && mode != "follower" {
			away = append(away, server)
		}
	}
	return modes, away
}

// inOrder has the leader of the ensemble first, if there is one, and the others in any order.
func (d *zookeeperDatabase) inOrder(random *rand.Rand) []*zkserver.Server {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var all []*zkserver.Server
	for _, i := range random.Perm(len(d.servers)) {
		if d.servers[i].Mode(ctx) == "leader" {
			all = append([]*zkserver.Server{d.servers[i]}, all...)
		} else {
			all = append(all, d.servers[i])
		}
	}
	return all
}

func (d *zookeeperDatabase) leader(random *rand.Rand) []*zkserver.Server {
	return d.inOrder(random)[:1]
}

func (d *zookeeperDatabase) follower(random *rand.Rand) []*zkserver.Server {
	return d.inOrder(random)[1:2]
}

// majority is two of three, of which one may be the leader.
func (d *zookeeperDatabase) majority(random *rand.Rand) []*zkserver.Server {
	first := random.IntN(2)
	return d.inOrder(random)[first : first+2]
}

// set writes a node behind the players' backs, and remove deletes one.
func (d *zookeeperDatabase) set(path string, data []byte) {
	d.try("set "+path, func() error {
		_, err := d.admin.Set(path, data, -1)
		return noNode(err)
	})
}

func (d *zookeeperDatabase) remove(path string) {
	d.try("delete "+path, func() error { return noNode(d.admin.Delete(path, -1)) })
}

// noNode is the error, unless that says that the node is not there.
func noNode(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// renewedThen is the data of a lease that was renewed when its node was written, and not when it is written again.
func renewedThen(data []byte, stat *zk.Stat) ([]byte, error) {
	var row map[string]json.RawMessage
	if err := json.Unmarshal(data, &row); err != nil {
		return nil, err
	}
	if _, is := row["renewed"]; !is {
		row["renewed"] = strconv.AppendInt(nil, time.UnixMilli(stat.Mtime).UnixMicro(), 10)
	}
	return json.Marshal(row)
}

// deny takes the players' rights to a node away, all but that to read, and gives them back after a while.
func deny(path string) func(*round, *rand.Rand) func() bool {
	return func(r *round, random *rand.Rand) func() bool {
		d, bit := r.zookeeper(), r.complained("not authenticated")
		change := func(perms int32) {
			d.try("set the ACL of "+path, func() error {
				_, err := d.admin.SetACL(path, zk.DigestACL(perms, "player", "first"), -1)
				return noNode(err)
			})
		}
		change(zk.PermRead)
		r.rest(between(random, r.ttl/2, 3*r.ttl))
		change(zk.PermAll)
		r.wasDenied()
		return bit
	}
}
