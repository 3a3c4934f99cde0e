package zkstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/zkserver"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/zkstore"
)

// start starts private servers: an ensemble, if there is to be more than one.
func start(t testing.TB, count int) []*zkserver.Server {
	t.Helper()
	program, err := zkserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	servers := []*zkserver.Server{zkserver.New(program, "-Dzookeeper.forceSync=no")}
	if count > 1 {
		servers = zkserver.NewEnsemble(program, count, "-Dzookeeper.forceSync=no")
	}
	for _, server := range servers {
		t.Cleanup(func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return servers
}

func addrs(servers []*zkserver.Server) string {
	var all []string
	for _, server := range servers {
		all = append(all, server.Addr())
	}
	return strings.Join(all, ",")
}

// leader waits until the servers have a leader.
func leader(t testing.TB, servers []*zkserver.Server) *zkserver.Server {
	t.Helper()
	for {
		for _, server := range servers {
			if server.Mode(t.Context()) == "leader" {
				return server
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the ensemble elects no leader")
		}
	}
}

// eventually repeats what fails while servers are away.
func (b *bench) eventually(what string, try func(ctx context.Context) error) {
	b.Helper()
	for began := time.Now(); ; {
		ctx, cancel := context.WithTimeout(b.Context(), 2*time.Second)
		err := try(ctx)
		cancel()
		if err == nil {
			b.Logf("%s: after %v", what, time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Since(began) > time.Minute {
			b.Fatalf("%s: %v", what, err)
		}
	}
}

func openQuick(t testing.TB, servers []*zkserver.Server) *zkstore.Store {
	t.Helper()
	s, err := zkstore.Open("zk://"+addrs(servers)+"/group", zkstore.WithSessionTimeout(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// reading reads the lease once the servers answer.
func (b *bench) reading() (r store.Reading) {
	b.Helper()
	b.eventually("a reading", func(ctx context.Context) error {
		all, err := b.Read(ctx, "group")
		if err == nil {
			r = all[0]
		}
		return err
	})
	return r
}

// When the leader of the ensemble dies, nothing is lost: the holder goes on, with its runs. To the replicas another server answers.
func TestLeaderOfEnsembleIsKilled(t *testing.T) {
	t.Parallel()
	servers := start(t, 3)
	leads := leader(t, servers)
	b := &bench{TB: t, Store: openQuick(t, servers)}
	b.eventually("the first term", func(ctx context.Context) error { return b.Prepare(ctx, "group", time.Minute) })
	b.take("alice")
	other := openQuick(t, servers)
	before := b.reading()
	r := b.run(at(1))
	if g := grades(t, b.Store); g["ensemble"] != store.Good {
		t.Errorf("grades of an ensemble of three: %v", g)
	}
	b.ok(leads.Kill())
	b.eventually("a heartbeat without the leader of the ensemble", func(ctx context.Context) error {
		beat, err := b.Beat(ctx, "alice", 2, store.Renewal{Group: "group", Token: b.h.Token, Heartbeat: 1}, 0)
		if err != nil {
			return err
		}
		if !beat.Renewed {
			// One without an answer was carried out.
			if l := b.reading().Lease; l.Heartbeat != 2 || l.Owner != "alice" {
				t.Fatalf("the lease is %+v", l)
			}
		}
		return nil
	})
	after := b.reading()
	if after.Server == before.Server || after.Lease.Token != before.Lease.Token || after.Lease.Heartbeat != 2 {
		t.Errorf("after the election %+v (%+v), before %+v (%+v)", after, after.Lease, before, before.Lease)
	}
	// What another replica has read of the leader before is no reason to take the lease.
	before.Lease.Heartbeat = 2
	if _, err := other.Acquire(t.Context(), store.Acquire{Read: before, Owner: "bob", Heartbeat: 1, TTL: time.Minute}); !errors.Is(err, store.ErrChanged) {
		t.Errorf("Acquire by a reading from before the election: %v", err)
	}
	moved, err := b.Move(t.Context(), b.h, []store.Move{moveOf(r, jobs.Succeeded)})
	if err != nil || !moved[0] {
		t.Errorf("Move after the election: %v, %v", moved, err)
	}
	b.run(at(2))
	if rs, err := other.Read(t.Context(), "group"); err != nil || rs[0].Server != after.Server {
		t.Errorf("another replica finds %+v, %v, want the server %s", rs, err, after.Server)
	}
	// The server comes back, behind the others, and is not believed.
	b.ok(leads.Start(t.Context()))
	late := &bench{TB: t, Store: openQuick(t, []*zkserver.Server{leads})}
	if r := late.reading(); r.Server != after.Server || r.Lease.Heartbeat != 2 {
		t.Errorf("through the server that was away: %+v", r)
	}
}

// A single server that was restarted is the same one, with all that it has confirmed. One that has lost its data is
// another one, whose tokens grow all the same, and clients that have seen more than it has find it.
func TestServerRestartsAndLosesItsData(t *testing.T) {
	t.Parallel()
	servers := start(t, 1)
	b := &bench{TB: t, Store: openQuick(t, servers)}
	b.take("alice")
	before, r := b.reading(), b.run(at(1))
	b.ok(servers[0].Kill())
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := b.Claim(ctx, b.h, newID(), []store.Claim{{Key: at(2), State: jobs.Running}}); err == nil || errors.Is(err, store.ErrReplaced) {
		t.Errorf("Claim on a server that is down: %v", err)
	}
	b.ok(servers[0].Start(t.Context()))
	is := b.reading()
	if is.Server != before.Server || is.Lease.Token != before.Lease.Token {
		t.Errorf("after the restart: %+v, before %+v", is, before)
	}
	moved, err := b.Move(t.Context(), b.h, []store.Move{moveOf(r, jobs.Succeeded)})
	if err != nil || !moved[0] {
		t.Errorf("Move after the restart: %v, %v", moved, err)
	}
	b.ok(servers[0].Kill())
	b.ok(servers[0].Lose())
	b.ok(servers[0].Start(t.Context()))
	is = b.reading()
	if is.Server == before.Server || is.Lease != nil {
		t.Errorf("after the data was lost: %+v", is)
	}
	old := b.h
	if _, err := b.Claim(t.Context(), old, newID(), []store.Claim{{Key: at(2), State: jobs.Running}}); !errors.Is(err, store.ErrReplaced) {
		t.Errorf("Claim by a term whose lease was lost: %v", err)
	}
	b.take("bob")
	if b.h.Token <= old.Token {
		t.Errorf("token %d after token %d", b.h.Token, old.Token)
	}
	if runs, err := b.Runs(t.Context(), "group", jobs.Filter{}); err != nil || len(runs) != 0 {
		t.Errorf("%d runs after the data was lost, %v", len(runs), err)
	}
	b.run(at(1))
}

// What a server gets while it is suspended, it does when it goes on, at the latest: the caller has given up, and finds out.
func TestSuspendedServer(t *testing.T) {
	t.Parallel()
	servers := start(t, 1)
	b := &bench{TB: t, Store: openQuick(t, servers)}
	b.take("alice")
	next := &bench{TB: t, Store: openQuick(t, servers), h: b.h}
	next.reading()
	b.ok(servers[0].Pause())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	id, claims := newID(), []store.Claim{{Key: at(1), State: jobs.Running}}
	if _, err := b.Claim(ctx, b.h, id, claims); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Claim on a suspended server: %v", err)
	}
	if _, err := b.Renew(ctx, store.Renew{Owner: "alice", Heartbeat: 2, Leases: []store.Renewal{{Group: "group", Token: b.h.Token, Heartbeat: 1}}}); err == nil {
		t.Error("Renew on a suspended server: no error")
	}
	b.ok(servers[0].Resume())
	b.eventually("the claim again", func(ctx context.Context) error {
		claimed, err := b.Claim(ctx, b.h, id, claims)
		if err == nil && !claimed[0].Mine {
			t.Fatalf("the claim again: %+v", claimed[0])
		}
		return err
	})
	if r := next.reading(); r.Lease.Owner != "alice" || r.Lease.Heartbeat > 2 {
		t.Errorf("the lease is %+v", r.Lease)
	}
}

// A server that accepts connections and does nothing holds nobody up for longer than a session lives.
func TestSuspendedServerOfEnsemble(t *testing.T) {
	t.Parallel()
	servers := start(t, 3)
	leads := leader(t, servers)
	b := &bench{TB: t, Store: openQuick(t, servers)}
	b.reading()
	for _, server := range servers {
		if server != leads {
			b.ok(server.Pause())
			defer func() { b.ok(server.Resume()) }()
			break
		}
	}
	began := time.Now()
	b.reading()
	for range 8 { // of which some ask the suspended one first
		other := &bench{TB: t, Store: openQuick(t, servers)}
		other.reading()
	}
	if took := time.Since(began); took > 40*time.Second {
		t.Errorf("nine readings took %v", took)
	}
}

// A term stays present when its session has expired and the next one has begun, and one whose process ends is absent at once.
func TestPresenceOverSessions(t *testing.T) {
	t.Parallel()
	servers := start(t, 1)
	b := &bench{TB: t, Store: openQuick(t, servers)}
	b.take("alice")
	watch := &bench{TB: t, Store: openQuick(t, servers)}
	server := watch.reading().Server
	holder := b.HandoverSignal("group").(store.PresenceSignal)
	other := watch.HandoverSignal("group").(store.PresenceSignal)
	b.ok(holder.Announce(t.Context(), b.h.Token, server))
	present := func(ctx context.Context) error {
		there, _, err := other.Present(ctx, b.h.Token)
		if err == nil && !there {
			err = errors.New("absent")
		}
		return err
	}
	b.eventually("present", present)
	b.ok(servers[0].Kill())
	<-time.After(3 * time.Second) // longer than the session lives
	b.ok(servers[0].Start(t.Context()))
	b.eventually("present after the restart", present)
	<-time.After(3 * time.Second) // a session that did not come back has expired by now
	b.eventually("present in the next session", present)
	found := make(chan error, 1)
	go func() { found <- other.Wait(t.Context()) }()
	select {
	case err := <-found:
		t.Fatalf("Wait while the leader is present: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	b.ok(b.Close())
	if err := <-found; err != nil {
		t.Errorf("Wait until the leader is gone: %v", err)
	}
}

// An ensemble that has lost what one client has seen, as after a backup was restored, is another server to all of them.
func TestLostTransactions(t *testing.T) {
	t.Parallel()
	b := newBench(t, shared.Addr(), "/rewound")
	other := open(t, shared.Addr(), "/rewound")
	server := func(s *zkstore.Store) string {
		t.Helper()
		r, err := s.Read(t.Context(), "group")
		b.ok(err)
		return r[0].Server
	}
	before := server(b.Store)
	if is := server(other); is != before {
		t.Fatalf("the server is %s and %s", before, is)
	}
	zkstore.Future(b.Store)
	after := server(b.Store)
	if after == before || server(other) != after || server(b.Store) != after {
		t.Errorf("the server is %s and then %s, and %s to another client", before, after, server(other))
	}
}
