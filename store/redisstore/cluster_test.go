package redisstore_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/internal/redisserver"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/redisstore"
)

// A slot that moves takes everything of a store along. While it does, nothing is done, as a server that has only some
// of the keys would take the others for missing. When the server that has the slot dies, its replica goes on under
// another identity.
func TestCluster(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cluster, err := redisserver.StartCluster(ctx, shared.Program())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	var addrs []string
	clients := map[*redisserver.Server]*redis.Client{}
	for _, s := range cluster.Servers {
		addrs = append(addrs, s.Addr())
		clients[s] = redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
		defer clients[s].Close()
	}
	url := "redis+cluster://" + strings.Join(addrs, ",")
	watch, err := redisstore.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	if err := watch.Check(ctx); err != nil {
		t.Error(err)
	}
	for _, f := range watch.Examine(ctx, 0) {
		if f.Grade != store.Good && f.Check != "durability" && f.Check != "replication" {
			t.Errorf("%+v", f)
		}
	}
	w := newTerms(t)
	w.begin(url)
	w.begin(url)
	moved := 0
	for _, addr := range addrs { // two of them do not have the slot
		plain, err := redisstore.Open("redis://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		if f := plain.Examine(ctx, 0)[0]; f.Grade == store.Problem && strings.Contains(f.Cure, "write redis+cluster:// instead of redis://") {
			moved++
		}
		_ = plain.Close()
	}
	if moved != 2 {
		t.Errorf("redis:// to a server of a cluster: %d of 3 are refused with the cure", moved)
	}
	first := w.after(0, 2)
	before, err := watch.Read(ctx, "g")
	if err != nil {
		t.Fatal(err)
	}
	slot, err := clients[cluster.Servers[0]].ClusterKeySlot(ctx, redisstore.DefaultName).Result()
	if err != nil {
		t.Fatal(err)
	}
	from := cluster.Servers[slot*3/16384]
	to := cluster.Servers[(slot*3/16384+1)%3]
	m := mover{t: t, slot: slot, from: clients[from], to: clients[to]}
	m.fromID, m.toID = clusterID(t, from), clusterID(t, to)

	// A client of the caller, which is not known to be one of a cluster, follows the slot while it moves.
	follows := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	defer follows.Close()
	other, err := redisstore.New(struct{ redis.UniversalClient }{follows})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	m.begin()
	for name, s := range map[string]*redisstore.Store{"a store by URL": watch, "a store on a client": other} {
		if err := s.Prepare(ctx, "new", time.Minute); !errors.Is(err, lease.ErrNotReady) {
			t.Errorf("Prepare by %s while the slot moves: %v", name, err)
		}
		if _, err := s.Read(ctx, "g"); !errors.Is(err, lease.ErrNotReady) {
			t.Errorf("Read by %s while the slot moves: %v", name, err)
		}
	}
	moved = m.some(2) // and the others stay for now
	for name, s := range map[string]*redisstore.Store{"a store by URL": watch, "a store on a client": other} {
		if err := s.Prepare(ctx, "new", time.Minute); !errors.Is(err, lease.ErrNotReady) {
			t.Errorf("Prepare by %s when some keys have moved: %v", name, err)
		}
	}
	if n := m.count(m.to); n != moved {
		t.Errorf("%d keys where %d have moved to", n, moved)
	}
	m.end()
	await(t, "the store at the other server", func() bool { return watch.Prepare(ctx, "new", time.Minute) == nil })
	after, err := watch.Read(ctx, "g")
	if err != nil || after[0].Server == before[0].Server || after[0].Lease == nil || after[0].Lease.Token < first {
		t.Errorf("read %+v, %v, before %+v", after, err, before)
	}
	stale := before[0]
	stale.Lease, stale.Fence = after[0].Lease, after[0].Fence
	if _, err := watch.Acquire(ctx, store.Acquire{Read: stale, Owner: "late", Heartbeat: 1, TTL: failoverTTL}); !errors.Is(err, store.ErrChanged) {
		t.Errorf("Acquire with a reading of the other server: %v", err)
	}
	newest := w.after(first-1, 4)
	ran := w.count()

	if err := to.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	await(t, "the replica as a primary", func() bool {
		again, err := watch.Read(ctx, "g")
		return err == nil && again[0].Server != after[0].Server
	})
	await(t, "runs on the new primary", func() bool { return w.count() > ran+2 })
	if token := w.after(0, 1); token < newest {
		t.Errorf("token %d after token %d", token, newest)
	}
	t.Logf("runs go on %v after the server was killed, terms: %d", time.Since(killed).Round(10*time.Millisecond), len(w.runs))
}

func (w *terms) count() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range w.runs {
		n += of
	}
	return n
}

func clusterID(t *testing.T, s *redisserver.Server) string {
	t.Helper()
	id, err := s.ClusterID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// mover moves a slot from one server of a cluster to another one, as redis-cli does.
type mover struct {
	t            *testing.T
	slot         int64
	from, to     *redis.Client
	fromID, toID string
}

func (m *mover) do(c *redis.Client, command ...any) {
	m.t.Helper()
	if err := c.Do(m.t.Context(), command...).Err(); err != nil {
		m.t.Fatalf("%v: %v", command, err)
	}
}

func (m *mover) begin() {
	m.t.Helper()
	m.do(m.to, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.fromID)
	m.do(m.from, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.toID)
}

func (m *mover) keys(most int) []string {
	m.t.Helper()
	keys, err := m.from.ClusterGetKeysInSlot(m.t.Context(), int(m.slot), most).Result()
	if err != nil {
		m.t.Fatal(err)
	}
	return keys
}

func (m *mover) count(c *redis.Client) int {
	m.t.Helper()
	n, err := c.ClusterCountKeysInSlot(m.t.Context(), int(m.slot)).Result()
	if err != nil {
		m.t.Fatal(err)
	}
	return int(n)
}

// some moves so many keys, and returns how many there were.
func (m *mover) some(most int) int {
	m.t.Helper()
	keys := m.keys(most)
	if len(keys) == 0 {
		return 0
	}
	host, port, err := net.SplitHostPort(m.to.Options().Addr)
	if err != nil {
		m.t.Fatal(err)
	}
	command := []any{"MIGRATE", host, port, "", 0, 5000, "KEYS"}
	for _, key := range keys {
		command = append(command, key)
	}
	m.do(m.from, command...)
	return len(keys)
}

func (m *mover) end() {
	m.t.Helper()
	for n := m.some(100); n > 0; {
		n = m.some(100)
	}
	m.do(m.to, "CLUSTER", "SETSLOT", m.slot, "NODE", m.toID)
	m.do(m.from, "CLUSTER", "SETSLOT", m.slot, "NODE", m.toID)
}
