package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/redisserver"
	"github.com/cronlease/cronlease/store/redisstore"
)

// Settings that docs/stores.md asks for. A primary that is cut off takes writes for up to a second more than the lag,
// and has stopped when the sentinels promote another.
const (
	sentinelLag  = time.Second
	sentinelDown = 3 * time.Second
)

// sentinelName is the name of the primary.
const sentinelName = "main"

// sentinelDatabase is a primary with two replicas, and three sentinels. Servers and sentinels reach a server through a
// proxy of its own, its back door, by which it can be cut off from all but the players. What sentinels tell the players
// is where each one's own proxies are.
type sentinelDatabase struct {
	*redisDatabase
	backs     []*dbtest.Proxy // one for each node
	sentinels []*redisserver.Server
	watchers  []*redis.SentinelClient
	fronts    []*dbtest.Proxy // of the player that is being made: those of the nodes, then those of the sentinels

	samples sync.Mutex // guards what follows
	seen    []sample
	shut    time.Time // when the primary was first seen to take no writes, since it was last seen to take some; zero: not yet
}

// sample is how far the history of a primary had come, at the least: whatever it has acknowledged before is within.
type sample struct {
	at      time.Time // before it was asked
	history string
	offset  int64
}

func newSentinelDatabase(t testing.TB, r *round) *sentinelDatabase {
	t.Helper()
	const servers = 3
	lag := strconv.Itoa(int(sentinelLag / time.Second))
	d := &sentinelDatabase{redisDatabase: newRedisDatabase(t, r, servers, "--min-replicas-to-write", "1", "--min-replicas-max-lag", lag)}
	d.replicas = 1
	for _, node := range d.nodes {
		d.backs = append(d.backs, dbtest.NewRedisProxy(t, node.Addr()))
	}
	for n := range d.nodes {
		d.announce(n)
	}
	for n := range d.nodes[1:] {
		d.follow(n+1, 0)
	}
	for range 3 {
		s := redisserver.NewSentinel(d.nodes[0].Program(), sentinelName, d.backs[0].Addr(), 2, sentinelDown)
		startRedis(t, s)
		watcher := redis.NewSentinelClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
		t.Cleanup(func() { _ = watcher.Close() })
		d.sentinels, d.watchers = append(d.sentinels, s), append(d.watchers, watcher)
	}
	d.await("sentinels that know all", func(ctx context.Context) bool {
		return !slices.ContainsFunc(d.watchers, func(w *redis.SentinelClient) bool {
			is, err := w.Master(ctx, sentinelName).Result()
			return err != nil || is["num-slaves"] != "2" || is["num-other-sentinels"] != "2"
		})
	})
	d.stable(time.Now())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { d.sample(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	return d
}

// announce has a node tell where its back door is. The client may not know yet that it runs again.
func (d *sentinelDatabase) announce(node int) {
	host, port, _ := net.SplitHostPort(d.backs[node].Addr())
	d.await("a node that runs", func(ctx context.Context) bool {
		return errors.Join(d.admins[node].ConfigSet(ctx, "replica-announce-ip", host).Err(), d.admins[node].ConfigSet(ctx, "replica-announce-port", port).Err()) == nil
	})
}

// follow makes a node a replica of another.
func (d *sentinelDatabase) follow(node, primary int) {
	host, port, _ := net.SplitHostPort(d.backs[primary].Addr())
	d.tryOn(d.admins[node], "REPLICAOF", host, port)
}

func (d *sentinelDatabase) addrs(int) []string {
	var all []string
	for _, s := range append(slices.Clone(d.nodes), d.sentinels...) {
		all = append(all, s.Addr())
	}
	return all
}

func (d *sentinelDatabase) proxy(t testing.TB, addr string) *dbtest.Proxy {
	p := dbtest.NewRedisProxy(t, addr)
	d.fronts = append(d.fronts, p)
	return p
}

// dsn is called when all proxies of a player are there, and lets those of the sentinels tell of the others.
func (d *sentinelDatabase) dsn(addrs []string) string {
	nodes, sentinels := d.fronts[:len(d.nodes)], d.fronts[len(d.nodes):]
	port := func(addr string) string {
		_, port, _ := net.SplitHostPort(addr)
		return port
	}
	for _, s := range sentinels {
		tell := func(of, front string) {
			s.ReplaceReplies("\r\n"+port(of)+"\r\n", "\r\n"+port(front)+"\r\n")
			s.ReplaceReplies(" 127.0.0.1 "+port(of), " 127.0.0.1 "+port(front))
		}
		for n := range nodes {
			tell(d.backs[n].Addr(), nodes[n].Addr())
		}
		for n := range sentinels {
			tell(d.sentinels[n].Addr(), sentinels[n].Addr())
		}
	}
	d.fronts = nil
	return "redis+sentinel://player@" + strings.Join(addrs[len(d.nodes):], ",") + "/" + sentinelName + "/0?password_file=" + d.file
}

func (d *sentinelDatabase) open(*rand.Rand) (operated, error) {
	var all []string
	for _, s := range d.sentinels {
		all = append(all, s.Addr())
	}
	return redisstore.Open("redis+sentinel://" + strings.Join(all, ",") + "/" + sentinelName)
}

func (d *sentinelDatabase) read(ctx context.Context) ([]Row, []Effect, error) {
	d.stable(time.Now()) // nothing has happened since the last fault, unless the machine is too busy
	return d.redisDatabase.read(ctx)
}

// await waits until something is so.
func (d *sentinelDatabase) await(what string, is func(context.Context) bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for !is(ctx) {
		if ctx.Err() != nil {
			d.round.broken("not seen: %s", what)
			return
		}
		d.round.rest(50 * time.Millisecond)
	}
}

// promoted is the place of the node that a sentinel takes for the primary; -1 if it does not answer.
func (d *sentinelDatabase) promoted(ctx context.Context, watcher *redis.SentinelClient) int {
	addr, err := watcher.GetMasterAddrByName(ctx, sentinelName).Result()
	if err != nil {
		return -1
	}
	return slices.IndexFunc(d.backs, func(p *dbtest.Proxy) bool { return p.Addr() == net.JoinHostPort(addr[0], addr[1]) })
}

// replication is what a server says of it.
func replication(ctx context.Context, client *redis.Client) (map[string]string, error) {
	is, err := client.InfoMap(ctx, "replication").Result()
	return is["Replication"], err
}

// stable returns once all sentinels agree on the primary and the other nodes replicate it. If that is another one than
// before, it notes what was lost: from the last moment of which the new primary is known to have all, or else from the
// beginning of the fault, until the one before took no more writes.
func (d *sentinelDatabase) stable(fault time.Time) {
	primary, is := -1, map[string]string(nil)
	d.await("one primary", func(ctx context.Context) (agreed bool) {
		primary = d.promoted(ctx, d.watchers[0])
		for _, w := range d.watchers {
			said, err := w.Master(ctx, sentinelName).Result()
			if err != nil || said["flags"] != "master" || d.promoted(ctx, w) != primary {
				return false
			}
		}
		if primary < 0 {
			return false
		}
		var err error
		is, err = replication(ctx, d.admins[primary])
		return err == nil && is["role"] == "master"
	})
	if primary < 0 {
		return
	}
	for n := range d.nodes {
		if n == primary {
			continue
		}
		d.await("replicas that follow", func(ctx context.Context) bool {
			replica, err := replication(ctx, d.admins[n])
			if err != nil {
				return false
			}
			_, port, _ := net.SplitHostPort(d.backs[primary].Addr())
			if replica["role"] == "master" || replica["master_port"] != port {
				d.follow(n, primary)
				return false
			}
			return replica["master_link_status"] == "up"
		})
	}
	d.await("a primary that takes writes", func(ctx context.Context) bool {
		return d.admins[primary].Incr(ctx, "marker").Err() == nil
	})
	if primary == d.main() {
		return
	}
	from, to := d.lost(is, fault)
	d.mu.Lock()
	d.primary = primary
	d.mu.Unlock()
	d.round.record(Event{At: from.UnixNano(), Kind: Forget, Text: fmt.Sprintf("node %d was promoted", primary+1)})
	d.round.record(Event{At: to.UnixNano(), Kind: Forgot})
}

// lost is from when to when writes were taken that a new primary may lack: from the last sample that it had when it was promoted.
func (d *sentinelDatabase) lost(is map[string]string, fault time.Time) (from, to time.Time) {
	d.samples.Lock()
	defer d.samples.Unlock()
	from, to = fault, time.Now()
	if end, err := strconv.ParseInt(is["second_repl_offset"], 10, 64); err == nil {
		for _, s := range slices.Backward(d.seen) {
			if s.history == is["master_replid2"] && s.offset < end {
				from = s.at
				break
			}
		}
	}
	if d.shut.After(from) {
		to = d.shut
	}
	d.seen, d.shut = nil, time.Time{}
	return from, to
}

// sample notes how far the primary is, until ctx ends.
func (d *sentinelDatabase) sample(ctx context.Context) {
	probes := make([]*redis.Client, len(d.nodes))
	for n, node := range d.nodes { // a server that is gone is known at the first try
		probes[n] = redis.NewClient(&redis.Options{Addr: node.Addr(), MaxRetries: -1, DialerRetries: 1, PoolSize: 1000, ContextTimeoutEnabled: true})
		defer probes[n].Close()
	}
	for ctx.Err() == nil {
		at := time.Now()
		limited, cancel := context.WithTimeout(ctx, sentinelLag)
		is, err := replication(limited, probes[d.main()])
		cancel()
		offset, _ := strconv.ParseInt(is["master_repl_offset"], 10, 64)
		takes := is["role"] == "master" && is["min_slaves_good_slaves"] != "0"
		d.samples.Lock()
		switch {
		case err == nil && takes:
			d.seen = append(d.seen, sample{at, is["master_replid"], offset})
			d.shut = time.Time{}
		case d.shut.IsZero() && (err == nil || errors.Is(err, syscall.ECONNREFUSED)):
			d.shut = time.Now()
		}
		d.samples.Unlock()
		d.round.rest(20 * time.Millisecond)
	}
}
