package redisstore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/internal/redisserver"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// start starts a private server.
func start(t testing.TB, args ...string) *redisserver.Server {
	t.Helper()
	program, err := redisserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	server := redisserver.New(program, args...)
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func (b *bench) grades() map[string]store.Grade {
	grades := map[string]store.Grade{}
	for _, f := range b.Examine(b.Context(), 0) {
		b.Logf("%s %s: %s (%s)", f.Check, f.Grade, f.Text, f.Cure)
		grades[f.Check] = f.Grade
	}
	return grades
}

// A server that is started again has another identity, and everything that it has acknowledged.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	server := start(t, "--appendfsync", "always")
	b := newBench(t, server.Addr())
	ctx := t.Context()
	r := b.run(at(1))
	was := loaded(b)
	reading, err := b.Read(ctx, "group")
	b.ok(err)
	if g := b.grades(); g["server"] != store.Good || g["durability"] != store.Good || g["replication"] != store.Good {
		t.Errorf("grades of a durable server: %v", g)
	}
	b.ok(server.Kill())
	if _, err := b.Claim(ctx, b.h, store.ClaimID{3}, []store.Claim{{Key: at(2), State: jobs.Running}}); err == nil || errors.Is(err, store.ErrReplaced) {
		t.Errorf("Claim on a server that is down: %v", err)
	}
	b.ok(server.Start(ctx))
	is := loaded(b)
	if is.Server == was.Server || len(is.Open) != 1 || is.Open[0] != r || is.Jobs["report"] != was.Jobs["report"] {
		t.Errorf("after the restart: %+v, before %+v", is, was)
	}
	if _, err := b.Acquire(ctx, store.Acquire{Read: reading[0], Owner: "bob", Heartbeat: 2, TTL: time.Minute}); !errors.Is(err, store.ErrChanged) {
		t.Errorf("Acquire with a reading of before the restart: %v", err)
	}
	b.move(moveOf(r, jobs.Succeeded))
}

// A server that has lost its data gives tokens that grow all the same, and a term of before can write nothing.
func TestDataIsLost(t *testing.T) {
	t.Parallel()
	server := start(t, "--appendonly", "no")
	b := newBench(t, server.Addr())
	ctx := t.Context()
	old, r := b.h, b.run(at(1))
	if g := b.grades(); g["durability"] != store.Warning {
		t.Errorf("grades of a server without an append-only file: %v", g)
	}
	b.ok(server.Kill())
	b.ok(server.Start(ctx))
	if _, err := b.Claim(ctx, old, store.ClaimID{2}, []store.Claim{{Key: at(2), State: jobs.Running}}); !errors.Is(err, store.ErrReplaced) {
		t.Errorf("Claim by a term whose lease was lost: %v", err)
	}
	b.take("bob")
	if b.h.Token <= old.Token {
		t.Errorf("token %d after token %d", b.h.Token, old.Token)
	}
	if _, err := b.Move(ctx, old, []store.Move{moveOf(r, jobs.Succeeded)}); !errors.Is(err, store.ErrReplaced) {
		t.Errorf("Move by a term of before: %v", err)
	}
}

// A primary that was a replica in between is another server, though its process is the same and its rows are as they were.
func TestPrimaryWasReplica(t *testing.T) {
	t.Parallel()
	server := start(t)
	b := newBench(t, server.Addr())
	ctx := t.Context()
	was, err := b.ReadLocks(ctx, "lock")
	b.ok(err)
	reading, err := b.Read(ctx, "group")
	b.ok(err)
	// It need not have met its primary.
	b.ok(b.client.ReplicaOf(ctx, "127.0.0.1", "1").Err())
	between, err := b.ReadLocks(ctx, "lock")
	b.ok(err)
	b.ok(b.client.ReplicaOf(ctx, "NO", "ONE").Err())
	is, err := b.ReadLocks(ctx, "lock")
	b.ok(err)
	if was.Server == between.Server || was.Server == is.Server || between.Server == is.Server {
		t.Errorf("the server is %s, then %s, then %s", was.Server, between.Server, is.Server)
	}
	for _, other := range []string{was.Server, between.Server} {
		if done, err := b.WriteLocks(ctx, other, []store.LockWrite{{Name: "lock", Version: 1, Queue: []byte("holder")}}); err != nil || done[0] {
			t.Errorf("WriteLocks on another server than %s: %v, %v", other, done, err)
		}
	}
	if _, err := b.Acquire(ctx, store.Acquire{Read: reading[0], Owner: "bob", Heartbeat: 2, TTL: time.Minute}); !errors.Is(err, store.ErrChanged) {
		t.Errorf("Acquire with a reading of before: %v", err)
	}
}

// A replica takes no writes and says so.
func TestReplicaRefusesAllWrites(t *testing.T) {
	t.Parallel()
	primary := start(t)
	ctx := t.Context()
	host, port, err := net.SplitHostPort(primary.Addr())
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, primary.Addr())
	r := b.run(at(1))
	was := b.dump()
	second := start(t, "--replicaof", host+" "+port)
	client := redis.NewClient(&redis.Options{Addr: second.Addr()})
	defer client.Close()
	for client.DBSize(ctx).Val() < int64(len(was)) {
		if ctx.Err() != nil {
			t.Fatal("the replica gets nothing")
		}
	}
	primaryServer := loaded(b).Server
	replica := &bench{TB: t, Store: open(t, second.Addr(), b.name), client: client, name: b.name, h: b.h}
	if is := loaded(replica); is.Server == primaryServer || len(is.Open) != 1 {
		t.Errorf("the replica has %+v", is)
	}
	if err := replica.Check(ctx); !errors.Is(err, lease.ErrNotReady) {
		t.Errorf("Check on a replica: %v", err)
	}
	if g := replica.grades(); g["server"] != store.Problem {
		t.Errorf("grades of a replica: %v", g)
	}
	if g := b.grades(); g["replication"] != store.Warning {
		t.Errorf("grades of a primary whose writes do not need its replica: %v", g)
	}
	for what, err := range map[string]error{
		"Claim":   errOf(replica.Claim(ctx, b.h, store.ClaimID{2}, []store.Claim{{Key: at(2), State: jobs.Running}})),
		"Move":    errOf(replica.Move(ctx, b.h, []store.Move{moveOf(r, jobs.Succeeded)})),
		"Pause":   replica.Pause(ctx, "group", "report"),
		"Trigger": errOf(replica.Trigger(ctx, "group", "report", jobs.Request{})),
		"Beat":    errOf(replica.Beat(ctx, "alice", 2, store.Renewal{Group: "group", Token: b.h.Token, Heartbeat: 1}, 0)),
	} {
		if err == nil || !strings.Contains(err.Error(), "READONLY") {
			t.Errorf("%s on a replica: %v", what, err)
		}
	}
	b.same(was, b.dump(), "calls on the replica")
	b.ok(b.client.ConfigSet(ctx, "min-replicas-to-write", "2").Err())
	if err := b.Check(ctx); !errors.Is(err, lease.ErrNotReady) {
		t.Errorf("Check of a primary without its replicas: %v", err)
	}
}

// A full server refuses each script before it writes anything, and goes on where it was when there is room.
func TestServerIsFull(t *testing.T) {
	t.Parallel()
	server := start(t)
	b := newBench(t, server.Addr())
	ctx := t.Context()
	r, next := b.run(at(1)), b.run(at(2))
	b.move(moveOf(next, jobs.Succeeded))
	b.ok(b.client.ConfigSet(ctx, "maxmemory", "100kb").Err())
	b.ok(b.Check(ctx))
	if g := b.grades(); g["memory"] != store.Problem {
		t.Errorf("grades of a full server: %v", g)
	}
	end := moveOf(r, jobs.Failed)
	end.Output, end.Then = []byte("out"), []store.Follower{{Key: jobs.Key{Job: "cleanup", Tick: at(1).Tick, Trigger: 1}}}
	was := b.dump()
	for what, write := range map[string]func() error{
		"Declare": func() error { return b.Declare(ctx, b.h, []store.Declared{{Name: "new", Schedule: "every 1m"}}) },
		"Claim": func() error {
			return errOf(b.Claim(ctx, b.h, store.ClaimID{2}, []store.Claim{{Key: at(3), State: jobs.Running}}))
		},
		"Move":      func() error { return errOf(b.Move(ctx, b.h, []store.Move{end})) },
		"Pause":     func() error { return b.Pause(ctx, "group", "report") },
		"Trigger":   func() error { return errOf(b.Trigger(ctx, "group", "report", jobs.Request{})) },
		"Cancel":    func() error { return b.Cancel(ctx, "group", r.Key) },
		"AskResign": func() error { return b.AskResign(ctx, "group", b.h.Token) },
		"NoteTerm":  func() error { return b.NoteTerm(ctx, store.TermNote{Holder: b.h}) },
		"Beat": func() error {
			return errOf(b.Beat(ctx, "alice", 2, store.Renewal{Group: "group", Token: b.h.Token, Heartbeat: 1}, 0))
		},
	} {
		if err := write(); err == nil || !strings.Contains(err.Error(), "OOM") {
			t.Errorf("%s on a full server: %v", what, err)
		}
	}
	b.same(was, b.dump(), "writes on a full server")
	b.ok(b.client.ConfigSet(ctx, "maxmemory", "0").Err())
	b.move(end)
}

func TestEvictionIsRefused(t *testing.T) {
	t.Parallel()
	server := start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	b := newBench(t, server.Addr())
	ctx := t.Context()
	if err := b.Check(ctx); !errors.Is(err, lease.ErrSetup) || errors.Is(err, lease.ErrNotReady) || !strings.Contains(err.Error(), "noeviction") {
		t.Errorf("Check of a server that evicts: %v", err)
	}
	// Nothing of ours expires, so that this one evicts nothing of it.
	b.ok(b.client.ConfigSet(ctx, "maxmemory-policy", "volatile-lru").Err())
	b.ok(b.Check(ctx))
	r := b.run(at(1))
	b.ok(b.client.ConfigSet(ctx, "maxmemory", "100kb").Err())
	if _, err := b.Claim(ctx, b.h, store.ClaimID{2}, []store.Claim{{Key: at(2), State: jobs.Running}}); err == nil {
		t.Error("Claim on a full server: no error")
	}
	b.ok(b.client.ConfigSet(ctx, "maxmemory", "0").Err())
	b.move(moveOf(r, jobs.Succeeded))
}

// setUser makes a user with the rights that the documentation of the store names, for the name {plain}, less what rules take away.
func setUser(t *testing.T, admin *redis.Client, name string, rules ...any) {
	t.Helper()
	acl := append([]any{"ACL", "SETUSER", name, "on", ">secret", "~{plain}*", "&{plain}*", "+@all", "-@admin", "-@dangerous", "+info"}, rules...)
	if err := admin.Do(t.Context(), acl...).Err(); err != nil {
		t.Fatal(err)
	}
}

// A user who may do no more than a store does is enough, and is told what cannot be seen.
func TestPlainUser(t *testing.T) {
	t.Parallel()
	server := start(t)
	ctx := context.Background()
	admin := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer admin.Close()
	setUser(t, admin, "plain")
	b := &bench{TB: t, Store: open(t, "plain:secret@"+server.Addr(), "{plain}"), client: admin, name: "{plain}"}
	b.take("alice")
	b.run(at(1))
	b.ok(b.Check(ctx))
	if g := b.grades(); g["server"] != store.Good || g["durability"] != store.Unknown || g["commits"] != store.Good {
		t.Errorf("grades of a plain user: %v", g)
	}
	wrong := open(t, "plain:wrong@"+server.Addr(), "{plain}")
	if err := wrong.Check(ctx); !errors.Is(err, lease.ErrDenied) || strings.Contains(err.Error(), "wrong@") {
		t.Errorf("Check with a wrong password: %v", err)
	}
}

// A user who lacks a right is refused before anything is written. Since Redis 7, a user has no channels unless they are given.
func TestUserLacksARight(t *testing.T) {
	t.Parallel()
	server := start(t)
	ctx := t.Context()
	admin := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer admin.Close()
	for user, lacks := range map[string]string{"channels": "resetchannels", "info": "-info", "publish": "-publish", "subscribe": "-subscribe", "scripts": "-@scripting", "keys": "resetkeys"} {
		setUser(t, admin, user, lacks)
		s := open(t, user+":secret@"+server.Addr(), "{plain}")
		if err := s.Check(ctx); !errors.Is(err, lease.ErrNotReady) || !strings.Contains(err.Error(), "ACL SETUSER") {
			t.Errorf("Check without %s: %v", user, err)
		}
		if f := s.Examine(ctx, 0)[0]; f.Grade != store.Problem || !strings.Contains(f.Cure, "ACL SETUSER") {
			t.Errorf("Examine without %s: %v", user, f)
		}
	}
}

// What a user without channels has written stands, and is told so: signals are hints.
func TestWritesWithoutChannels(t *testing.T) {
	t.Parallel()
	server := start(t)
	ctx := t.Context()
	admin := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer admin.Close()
	setUser(t, admin, "worker")
	setUser(t, admin, "operator", "resetchannels")
	b := &bench{TB: t, Store: open(t, "worker:secret@"+server.Addr(), "{plain}"), client: admin, name: "{plain}"}
	b.take("alice")
	b.ok(b.Declare(ctx, b.h, []store.Declared{{Name: "job", Schedule: "manual"}}))
	operator := open(t, "operator:secret@"+server.Addr(), "{plain}")
	group := jobs.NewGroup(operator, "group")
	_, err := group.Trigger(ctx, "job")
	b.ok(err)
	b.ok(group.Pause(ctx, "job"))
	b.ok(operator.AskResign(ctx, "group", b.h.Token))
	b.ok(operator.Wake(ctx, "group"))
	snapshot, err := operator.Load(ctx, "group")
	if b.ok(err); len(snapshot.Open) != 1 || !snapshot.Jobs["job"].Paused {
		t.Errorf("what was written: %+v", snapshot)
	}
	b.ok(operator.Release(ctx, "group", b.h.Owner, b.h.Token))
}
