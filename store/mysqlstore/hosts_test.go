package mysqlstore_test

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/dbserver"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// pair is two private servers with the same tables and accounts, the first of
// which takes writes, and a network to each. Nothing is replicated.
type pair struct {
	t       *testing.T
	servers [2]*dbserver.Server
	proxies [2]*dbtest.Proxy
	admins  [2]*sql.DB
	list    string // their addresses as a DSN has them
}

const pairDatabase = "app"

func newPair(t *testing.T, kind string) *pair {
	t.Helper()
	p := &pair{t: t}
	for i := range p.servers {
		server := dbtest.Private(t, kind)
		db := dbtest.Database{Kind: server.Kind(), DSN: server.DSN("")}
		exec(t, db.Open(t), "CREATE DATABASE "+pairDatabase)
		db.DSN = server.DSN(pairDatabase)
		migrated(t, db.DSN)
		p.servers[i], p.admins[i], p.proxies[i] = server, db.Open(t), dbtest.NewProxy(t, server.Addr())
		exec(t, p.admins[i], "CREATE USER worker@'%' IDENTIFIED BY 'secret-4711'")
		for _, grant := range leastGrants {
			exec(t, p.admins[i], "GRANT "+strings.ReplaceAll(grant, "@.", pairDatabase+".")+" TO worker@'%'")
		}
	}
	p.list = p.proxies[0].Addr() + "," + p.proxies[1].Addr()
	p.readOnly(1, true)
	return p
}

func eachPair(t *testing.T, f func(t *testing.T, p *pair)) {
	t.Helper()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f(t, newPair(t, kind))
		})
	}
}

// dsn is for an account that read_only keeps from writing, root's is for one
// that it does not.
func (p *pair) dsn() string { return "worker:secret-4711@tcp(" + p.list + ")/" + pairDatabase }

func (p *pair) root() string { return "mysql://root@" + p.list + "/" + pairDatabase }

func (p *pair) readOnly(server int, on bool) {
	p.t.Helper()
	value := map[bool]string{true: "ON", false: "OFF"}[on]
	exec(p.t, p.admins[server], "SET GLOBAL read_only = "+value)
}

// promote makes the second server the primary. The order is that of a planned
// failover.
func (p *pair) promote() {
	p.t.Helper()
	p.readOnly(0, true)
	p.readOnly(1, false)
}

// on fails the test unless the pool's connections are to that server.
func (p *pair) on(db *sql.DB, server int) {
	p.t.Helper()
	got, want := count(p.t, db, "SELECT @@port"), count(p.t, p.admins[server], "SELECT @@port")
	if got != want {
		p.t.Errorf("connected to the server at port %d, want server %d, at port %d", got, server+1, want)
	}
}

// Whatever keeps the first host from being used, the second is found, within
// the time that one attempt has.
func TestHostsFirstIsOfNoUse(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, p *pair) {
		p.on(open(t, p.root()).DB(), 0)
		p.promote()
		for what, breakIt := range map[string]func(){
			"read-only":   func() {},
			"refuses":     p.proxies[0].Refuse,
			"black hole":  func() { p.proxies[0].BlackHole() },
			"never talks": func() { p.proxies[0].BlackHole(dbtest.ToClient) },
		} {
			breakIt()
			for _, dsn := range []string{p.dsn(), p.root()} {
				s := open(t, dsn)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				if _, err := s.Read(ctx, "g"); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				cancel()
				p.on(s.DB(), 1)
				if err := s.Check(soon(t)); err != nil {
					t.Errorf("%s: Check: %v", what, err)
				}
			}
			p.proxies[0].Pass()
			p.proxies[0].Reset()
		}
	})
}

// The error names each host and what is wrong with it, and not the password.
func TestHostsAllOfNoUse(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, p *pair) {
		s := open(t, p.dsn()+"?timeout=1s")
		signal := s.HandoverSignal("g")
		failure := func(timeout time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, err := s.Read(ctx, "g")
			if signal.Wait(ctx) == nil || s.Check(ctx) == nil || s.Migrate(ctx) == nil {
				t.Error("no error")
			}
			return err
		}
		says := func(what string, err error, setup bool, texts ...string) {
			t.Helper()
			if err == nil {
				t.Errorf("%s: no error", what)
				return
			}
			for _, text := range append(texts, p.proxies[0].Addr()+": ", p.proxies[1].Addr()+": ") {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%s: %v, want it to say %q", what, err, text)
				}
			}
			for _, text := range errorTexts(err) {
				if strings.Contains(text, "4711") {
					t.Errorf("%s: shows the password: %s", what, text)
				}
			}
			if errors.Is(err, lease.ErrSetup) != setup {
				t.Errorf("%s: ErrSetup is %t: %v", what, !setup, err)
			}
		}
		if err := s.Check(soon(t)); err != nil {
			t.Error(err)
		}
		p.readOnly(0, true)
		// Between two primaries is no fault of the setup, which would end campaigns.
		says("Check, read-only", s.Check(soon(t)), false, "takes no writes (read_only)")
		says("read-only", failure(patience), false, "takes no writes (read_only)")
		p.proxies[0].Refuse()
		says("refuses, read-only", failure(patience), false, "takes no writes (read_only)")
		p.proxies[0].Pass()
		p.proxies[0].BlackHole()
		says("black hole, read-only", failure(patience), false, "no answer within 1s", "takes no writes (read_only)")
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		p.proxies[1].BlackHole()
		if _, err := s.DB().ExecContext(ctx, "DO 1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("black holes: %v", err)
		} else {
			says("black holes", err, false, "no answer within")
		}
		p.proxies[0].Pass()
		p.proxies[1].Pass()
		p.readOnly(0, false)

		wrong := open(t, strings.Replace(p.dsn(), "/"+pairDatabase, "/no_such_database", 1))
		_, err := wrong.Read(soon(t), "g")
		says("unknown database", err, true, "no_such_database")
		p.proxies[1].Refuse()
		_, err = wrong.Read(soon(t), "g")
		says("unknown database, refuses", err, false, "no_such_database")
	})
}

// copyGroup replicates a group's rows from the first server to the second.
func (p *pair) copyGroup(group string) {
	p.t.Helper()
	var (
		l *store.Lease
		f *store.Fence
	)
	update(p.t, p.admins[0], group, func(row *store.Lease, fence *store.Fence) (*store.Lease, *store.Fence) {
		l, f = row, fence
		return row, fence
	})
	update(p.t, p.admins[1], group, func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) { return l, f })
}

// Every connection of a store leaves a server that has become read-only: also
// those that only read, those that could write there all the same, those that
// only wait, and those that are idle. Each kind has a store of its own here, for
// the others of a store follow the first.
func TestHostsFollowAFailover(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, p *pair) {
		heartbeats, privileged, pool := open(t, p.dsn()), open(t, p.root()), open(t, p.root())
		looks, ledger, lockers, waiter := open(t, p.root()), open(t, p.root()), open(t, p.root()), open(t, p.root())
		token := take(t, heartbeats, "billing", "me")
		p.copyGroup("billing")
		before := read(t, looks, "billing").Server
		holder := store.Holder{Group: "billing", Owner: "me", Token: token}
		declared := func() bool {
			snapshot, err := ledger.Load(soon(t), "billing")
			if err != nil {
				t.Fatal(err)
			}
			return len(snapshot.Jobs) == 1
		}
		if err := open(t, "root@tcp("+p.servers[1].Addr()+")/"+pairDatabase).Declare(soon(t), holder, []store.Declared{{Name: "a", Schedule: "b"}}); err != nil {
			t.Fatal(err)
		}
		lockServer := func() string {
			r, err := lockers.ReadLocks(soon(t), "l")
			if err != nil {
				t.Fatal(err)
			}
			return r.Server
		}
		if declared() || lockServer() != before {
			t.Fatal("the stores do not begin on the first server")
		}
		if n := renew(t, privileged, "billing", "me", token, 1, 1); n != 1 {
			t.Fatalf("%d leases renewed on the first server", n)
		}
		p.on(pool.DB(), 0)
		work, err := pool.DB().BeginTx(soon(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := work.ExecContext(soon(t), "CREATE TEMPORARY TABLE work (x INT)"); err != nil {
			t.Fatal(err)
		}
		first := dbtest.Database{Kind: p.servers[0].Kind(), DSN: p.servers[0].DSN(pairDatabase)}
		leader := open(t, first.DSN).HandoverSignal("billing")
		obtain(t, leader)
		signal := waiter.HandoverSignal("billing")
		has, ctx := make(chan error, 1), soon(t)
		go func() {
			err := signal.Wait(ctx)
			for err != nil && ctx.Err() == nil { // as an election repeats it
				err = signal.Wait(ctx)
			}
			has <- err
		}()
		eventually(t, "a waiting signal", func() bool { return listeners(t, first)() == 1 })

		// So shortly after it was opened, this one only finds out when it writes.
		heartbeats = open(t, p.dsn())
		if n := renew(t, heartbeats, "billing", "me", token, 1, 1); n != 1 {
			t.Fatalf("%d leases renewed on the first server", n)
		}
		p.promote()
		if n := renew(t, heartbeats, "billing", "me", token, 1, 2); n != 1 {
			t.Errorf("%d leases renewed on the new primary", n)
		}
		eventually(t, "a heartbeat of an account that read_only does not keep from writing", func() bool {
			return renew(t, privileged, "billing", "me", token, 2, 3) == 1
		})
		eventually(t, "a look at the new primary", func() bool { return read(t, looks, "billing").Server != before })
		eventually(t, "the new primary's ledger", declared)
		eventually(t, "the new primary's locks", func() bool { return lockServer() != before })
		eventually(t, "a look beside a signal", func() bool { return read(t, waiter, "billing").Server != before })
		if err := <-has; err != nil {
			t.Errorf("signal: %v", err)
		}
		p.on(waiter.DB(), 1)

		eventually(t, "a look beside a pool", func() bool { return read(t, pool, "billing").Server != before })
		p.on(pool.DB(), 1)
		if err := work.Commit(); err == nil {
			t.Error("a transaction on the server that was left was committed")
		}
		// No store goes back to a former primary as long as the new one takes writes.
		p.readOnly(0, false)
		p.proxies[1].Reset()
		for _, s := range []*mysqlstore.Store{heartbeats, looks, pool} {
			if read(t, s, "billing").Server == before {
				t.Error("a store went back to its first host")
			}
			p.on(s.DB(), 1)
		}
	})
}

// A planned failover that loses nothing does not even end the term. After one
// that does, elections go on within TTL + 1 s and an attempt, and, if the former
// primary still answers, the time to the next heartbeat.
func TestElectionsFollowAFailover(t *testing.T) {
	t.Parallel()
	const (
		ttl       = 4 * time.Second
		attempt   = ttl / 5
		heartbeat = ttl / 3
		back      = ttl + attempt + time.Second
	)
	eachPair(t, func(t *testing.T, p *pair) {
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		type begun struct {
			token uint64
			at    time.Time
		}
		terms, lost := make(chan begun), make(chan error, 10)
		for range 3 {
			s := open(t, p.dsn())
			all.Go(func() {
				err := election.Run(ctx, s, "billing", func(term context.Context, of election.Term) error {
					select {
					case terms <- begun{of.Token(), time.Now()}:
						<-term.Done()
						lost <- context.Cause(term)
					case <-term.Done():
					}
					return nil
				}, election.WithTiming(lease.Timing{TTL: ttl}))
				if err != nil && ctx.Err() == nil {
					t.Errorf("the election has ended: %v", err)
				}
			})
		}
		var old uint64
		next := func(since time.Time, limit time.Duration) {
			t.Helper()
			select {
			case term := <-terms:
				if term.token <= old {
					t.Errorf("token %d was followed by %d", old, term.token)
				}
				old = term.token
				if gap := term.at.Sub(since); gap > limit {
					t.Errorf("no leader for %v, longer than %v", gap, limit)
				}
			case <-time.After(patience):
				t.Fatal("no replica leads")
			}
		}
		next(time.Now(), back)

		p.readOnly(0, true)
		p.copyGroup("billing")
		p.readOnly(1, false)
		heartbeats := func(server int) int {
			return count(t, p.admins[server], "SELECT heartbeat FROM cronlease_lease WHERE name = 'billing' AND token = ?", old)
		}
		seen := heartbeats(0)
		for range 2 { // the second one tells that the first was confirmed
			eventually(t, "a heartbeat on the new primary", func() bool { return heartbeats(1) > seen })
			seen = heartbeats(1)
		}
		select {
		case cause := <-lost:
			t.Errorf("the term has ended: %v", cause)
		default:
		}

		// And back, to a server that has forgotten some.
		if err := p.servers[1].Kill(); err != nil {
			t.Fatal(err)
		}
		p.readOnly(0, false)
		next(time.Now(), back)
		if cause := <-lost; !errors.Is(cause, lease.ErrLost) {
			t.Errorf("the term ended with %v", cause)
		}

		// And to one that has nothing at all, while the demoted one still answers.
		if err := p.servers[1].Start(soon(t)); err != nil {
			t.Fatal(err)
		}
		exec(t, p.admins[1], "DELETE FROM cronlease_lease")
		exec(t, p.admins[1], "DELETE FROM cronlease_fence")
		p.promote()
		next(time.Now(), heartbeat+back)
	})
}

// Each host's certificate is checked against its own name.
func TestHostsTLSNames(t *testing.T) {
	t.Parallel()
	names := make(chan string, 2)
	ports := []string{tlsServer(t, names), tlsServer(t, names)}
	for _, order := range [][2]string{{"localhost", "127.0.0.1"}, {"127.0.0.1", "localhost"}} {
		s := open(t, "u:p@tcp("+order[0]+":"+ports[0]+","+order[1]+":"+ports[1]+")/d?tls=true")
		if _, err := s.Read(soon(t), "g"); err == nil {
			t.Fatal("no error")
		}
		for _, host := range order {
			// An IP address is checked, but not sent.
			if got, want := <-names, strings.TrimPrefix(host, "127.0.0.1"); got != want {
				t.Errorf("of %v, %s was asked for as %q", order, host, got)
			}
		}
	}
}

// tlsServer returns the port of a server that only says which names it is asked
// for.
func tlsServer(t *testing.T, names chan<- string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			greeting := "\x0a8.4.0\x00\x01\x00\x00\x0012345678\x00\x00\x8a\xff\x02\x00\x08\x00\x15" + strings.Repeat("\x00", 10) +
				"123456789012\x00mysql_native_password\x00"
			_, _ = conn.Write([]byte{byte(len(greeting)), 0, 0, 0})
			_, _ = io.WriteString(conn, greeting)
			_, _ = io.CopyN(io.Discard, conn, 4+32) // the client asks for TLS
			_ = tls.Server(conn, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				names <- hello.ServerName
				return nil, errors.New("this is all")
			}}).HandshakeContext(soon(t))
			_ = conn.Close()
		}
	})
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
