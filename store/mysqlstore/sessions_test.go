package mysqlstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// sessions counts those of a user.
func sessions(t testing.TB, admin *sql.DB, user string) int {
	t.Helper()
	return count(t, admin, "SELECT COUNT(*) FROM information_schema.processlist WHERE user = ?", user)
}

// busy has a store do all that a leader does, again and again, each with a limit so short that
// it is given up while the server does not answer. It returns once all have given up so many
// times, and calls between after each round.
func busy(t *testing.T, s *mysqlstore.Store, token uint64, rounds int, between func()) {
	t.Helper()
	h := store.Holder{Group: "billing", Owner: "me", Token: token}
	works := []func(context.Context) error{
		func(ctx context.Context) error {
			beat, err := s.Read(ctx, "billing")
			if err != nil {
				return err
			}
			n := beat[0].Lease.Heartbeat
			_, err = s.Renew(ctx, store.Renew{Owner: "me", Heartbeat: n + 1, Leases: []store.Renewal{{Group: "billing", Token: token, Heartbeat: n}}})
			return err
		},
		func(ctx context.Context) error {
			return s.Prepare(ctx, fmt.Sprint("g", time.Now().UnixNano()), time.Second)
		},
		func(ctx context.Context) error { _, err := s.Read(ctx, "billing"); return err },
	}
	for i := range 4 {
		works = append(works, func(ctx context.Context) error {
			key := jobs.Key{Job: fmt.Sprint("job", i), Tick: time.Now().UTC().Truncate(time.Microsecond)}
			_, err := s.Claim(ctx, h, store.ClaimID{byte(i)}, []store.Claim{{Key: key, State: jobs.Running}})
			return err
		})
	}
	for range rounds {
		var all sync.WaitGroup
		for _, work := range works {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				defer cancel()
				_ = work(ctx)
			})
		}
		all.Wait()
		between()
	}
}

// A server that answers no commit keeps the session of each statement that was given up, and
// says nothing of that to its client.
func TestHangingCommitsDoNotAddSessions(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		options, hangCommits := unacknowledged("AFTER_COMMIT")(t, db.Kind)
		server := dbtest.Private(t, db.Kind, options...)
		db = dbtest.FreshOn(t, server.Kind(), server.DSN(""))
		admin := db.Open(t)
		user := uniqueName("app")
		s := open(t, userDSN(t, db, user, "ALL ON @.*"))
		if err := s.Migrate(soon(t)); err != nil {
			t.Fatal(err)
		}
		token := take(t, s, "billing", "me")
		goOn := hangCommits(admin)
		most := 0
		busy(t, s, token, 15, func() { most = max(most, sessions(t, admin, user)) })
		t.Logf("%d sessions at most", most)
		if most > 10 {
			t.Errorf("the process has %d sessions on the server", most)
		}
		beat := uint64(count(t, admin, "SELECT heartbeat FROM cronlease_lease WHERE name = 'billing'"))
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_, err := s.Renew(ctx, store.Renew{Owner: "me", Heartbeat: beat + 1, Leases: []store.Renewal{{Group: "billing", Token: token, Heartbeat: beat}}})
		if err == nil || !strings.Contains(err.Error(), "semi-sync ACK") {
			t.Errorf("while no commit is answered: %v", err)
		}
		goOn()
		began := time.Now()
		beat = read(t, s, "billing").Lease.Heartbeat
		if n := renew(t, s, "billing", "me", token, beat, beat+1); n != 1 {
			t.Errorf("%d leases renewed once commits are answered", n)
		}
		t.Logf("renewed %v after", time.Since(began))
	})
}

// forgetful passes connections on to a server until it forgets them, as a firewall does that
// was restarted: the server hears nothing more, and never that they have ended.
type forgetful struct {
	t      *testing.T
	target string

	mu    sync.Mutex
	links map[net.Conn]*forgotten // by the client's end
	kept  []net.Conn
}

// forgotten is the server's end of a connection, which will be forgotten once its login is over: a session whose
// client never learned its number is not found again.
type forgotten struct {
	net.Conn
	named atomic.Bool
}

// Write sends to the server.
func (f *forgotten) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("@cronlease_session = ")) { // the client has its number
		f.named.Store(true)
	}
	return f.Conn.Write(p)
}

func newForgetful(t *testing.T, target string) (f *forgetful, addr string) {
	t.Helper()
	f = &forgetful{t: t, target: target, links: map[net.Conn]*forgotten{}}
	listener, err := new(net.ListenConfig).Listen(soon(t), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			f.serve(client, &all)
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		f.forget(true)
		for _, server := range f.kept {
			_ = server.Close()
		}
		all.Wait()
	})
	return f, listener.Addr().String()
}

func (f *forgetful) serve(client net.Conn, all *sync.WaitGroup) {
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", f.target)
	if err != nil {
		f.t.Error(err)
		return
	}
	server := &forgotten{Conn: conn}
	f.mu.Lock()
	f.links[client] = server
	f.mu.Unlock()
	all.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	all.Go(func() {
		_, _ = io.Copy(server, client)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.links[client] != nil {
			delete(f.links, client)
			_ = server.Close()
		}
	})
}

// forget forgets all connections whose logins are over, or all.
func (f *forgetful) forget(all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for client, server := range f.links {
		if !all && !server.named.Load() {
			continue
		}
		f.kept = append(f.kept, server)
		delete(f.links, client)
		_ = client.Close()
	}
}

// A connection that the network has lost may be a session of the server for days.
func TestLostConnectionsDoNotAddSessions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		user := uniqueName("app")
		config, err := mysql.ParseDSN(userDSN(t, db, user, "ALL ON @.*"))
		if err != nil {
			t.Fatal(err)
		}
		network, addr := newForgetful(t, config.Addr)
		config.Addr = addr
		s := migrated(t, config.FormatDSN())
		admin := db.Open(t)
		token := take(t, s, "billing", "me")
		signal := s.HandoverSignal("billing")
		for range 5 {
			if err := signal.Wait(soon(t)); err != nil {
				t.Fatal(err)
			}
			busy(t, s, token, 1, func() {})
			network.forget(false)
			began := time.Now()
			beat := read(t, s, "billing").Lease.Heartbeat
			if n := renew(t, s, "billing", "me", token, beat, beat+1); n != 1 {
				t.Errorf("%d leases renewed after the connections were lost", n)
			}
			t.Logf("renewed %v after, %d sessions", time.Since(began), sessions(t, admin, user))
		}
		if err := signal.Wait(soon(t)); err != nil {
			t.Fatal(err)
		}
		busy(t, s, token, 1, func() {})
		if n := sessions(t, admin, user); n > 10 {
			t.Errorf("the process has %d sessions on the server", n)
		}
	})
}

// A server that stands still, or whose network does, is used again as soon as it goes on.
func TestSessionsOfAServerThatStoodStill(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		server := dbtest.Private(t, db.Kind)
		db = dbtest.FreshOn(t, server.Kind(), server.DSN(""))
		user := uniqueName("app")
		config, err := mysql.ParseDSN(userDSN(t, db, user, "ALL ON @.*"))
		if err != nil {
			t.Fatal(err)
		}
		proxy := dbtest.NewProxy(t, config.Addr)
		config.Addr = proxy.Addr()
		s := migrated(t, config.FormatDSN())
		admin := db.Open(t)
		token := take(t, s, "billing", "me")
		for name, fault := range map[string][2]func(){
			"paused":     {func() { must(t, server.Pause()) }, func() { must(t, server.Resume()) }},
			"black hole": {func() { proxy.BlackHole() }, proxy.Pass},
		} {
			fault[0]()
			busy(t, s, token, 30, func() {}) // 3 s
			fault[1]()
			began := time.Now()
			beat := read(t, s, "billing").Lease.Heartbeat
			if n := renew(t, s, "billing", "me", token, beat, beat+1); n != 1 {
				t.Errorf("%s: %d leases renewed", name, n)
			}
			t.Logf("%s: renewed %v after", name, time.Since(began))
			busy(t, s, token, 1, func() {})
			eventually(t, "the sessions end that are not used", func() bool { return sessions(t, admin, user) <= 10 })
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
