package mysqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
)

// The second in which the server was started is computed from two numbers that
// change all the time.
func TestServerIsTheSameForAllConnections(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		seen := map[string]int{}
		for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); {
			s, err := mysqlstore.Open(db.DSN)
			if err != nil {
				t.Fatal(err)
			}
			seen[read(t, s, "g").Server]++
			closeStore(t, s)
		}
		if len(seen) != 1 {
			t.Errorf("one server has several identities: %v", seen)
		}
	})
}

func TestServerIsAnotherAfterRestartAndElsewhere(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := dbtest.Private(t, kind)
			db := dbtest.FreshOn(t, server.Kind(), server.DSN(""))
			s := migrated(t, db.DSN)
			take(t, s, "billing", "me")
			before := read(t, s, "billing")

			other := dbtest.Private(t, kind)
			elsewhere := migrated(t, dbtest.FreshOn(t, other.Kind(), other.DSN("")).DSN)
			if got := read(t, elsewhere, "billing").Server; got == before.Server {
				t.Errorf("two servers have the identity %q", got)
			}

			// Two starts in one second look like one.
			eventually(t, "more than a second passes", func() bool { return read(t, s, "billing").Now.Sub(before.Now) > 1100*time.Millisecond })
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Read(soon(t), "billing"); err == nil {
				t.Error("a server that does not run was read")
			}
			if err := server.Start(soon(t)); err != nil {
				t.Fatal(err)
			}
			after := read(t, s, "billing")
			if after.Server == before.Server {
				t.Errorf("the identity is still %q after a restart", after.Server)
			}
			if after.Session <= before.Session {
				t.Errorf("session %d after session %d", after.Session, before.Session)
			}
			if _, err := s.Acquire(soon(t), store.Acquire{Read: before, Owner: "me", Heartbeat: 1, TTL: time.Second}); !errors.Is(err, store.ErrChanged) {
				t.Errorf("acquire by a reading from before the restart: %v", err)
			}
		})
	}
}

// An acquire on another connection than that of its reading may be on another
// server.
func TestAcquireNeedsTheSessionOfItsReading(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s, other := migrated(t, db.DSN), open(t, db.DSN)
		take(t, s, "billing", "me")
		a := request(t, s, "billing", "me")
		for name, wrong := range map[string]uint64{
			"none": 0, "another store's": read(t, other, "billing").Session, "a later one": a.Read.Session + 1000,
		} {
			b := a
			b.Read.Session = wrong
			if _, err := s.Acquire(soon(t), b); !errors.Is(err, store.ErrChanged) {
				t.Errorf("%s: %v", name, err)
			}
		}
		killAll(t, db)
		if _, err := s.Acquire(soon(t), a); !errors.Is(err, store.ErrChanged) {
			t.Errorf("the session was killed: %v", err)
		}
		if _, err := s.Acquire(soon(t), request(t, s, "billing", "me")); err != nil {
			t.Errorf("with a new reading: %v", err)
		}
	})
}

// killAll kills every other connection to the database.
func killAll(t testing.TB, db dbtest.Database) {
	t.Helper()
	admin := db.Open(t)
	const others = "FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
	rows, err := admin.QueryContext(soon(t), "SELECT id "+others)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var ids []int
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		_, _ = admin.ExecContext(soon(t), fmt.Sprint("KILL ", id)) // it may be gone already
	}
	eventually(t, "connections end", func() bool {
		for _, id := range ids {
			if count(t, admin, "SELECT COUNT(*) FROM information_schema.processlist WHERE id = ?", id) > 0 {
				return false
			}
		}
		return true
	})
}

func TestKilledIdleConnectionsGoUnnoticed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		blind := openOn(t, openSQL(t, with(t, db, func(c *mysql.Config) { c.CheckConnLiveness = false })))
		for name, s := range map[string]*mysqlstore.Store{"DSN": migrated(t, db.DSN), "pool": openOn(t, db.Open(t)), "blind pool": blind} {
			token := take(t, s, "billing", "me")
			for beat := uint64(1); beat < 4; beat++ {
				killAll(t, db)
				read(t, s, "billing")
				n, err := s.Renew(soon(t), store.Renew{Owner: "me", Heartbeat: beat + 1, Leases: []store.Renewal{{Group: "billing", Token: token, Heartbeat: beat}}})
				if err != nil && name == "blind pool" {
					// The driver cannot know that the statement was not carried
					// out, and so it is not repeated.
					n = renew(t, s, "billing", "me", token, beat, beat+1)
				} else if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if n != 1 {
					t.Errorf("%s: %d leases renewed", name, n)
				}
			}
			if err := s.Release(soon(t), "billing", "me", token); err != nil && name != "blind pool" {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// Connections are killed at random; no call may hang, and a term's rows only
// change as its holder says.
func TestRandomKills(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		token := take(t, s, "billing", "me")
		stop, cancel := context.WithCancel(context.Background())
		var killer sync.WaitGroup
		killer.Go(func() {
			for stop.Err() == nil {
				killAll(t, db)
				<-time.After(20 * time.Millisecond)
			}
		})
		defer func() {
			cancel()
			killer.Wait()
		}()
		beat, numbers, failures := uint64(1), uint64(1), 0
		unclear := map[uint64]bool{} // heartbeats without an answer: one of them may apply yet
		confirm := func(n uint64) {
			beat = n
			clear(unclear) // they compare an older one
		}
		// show takes in what the row says, if it can be read: what was confirmed, or else something unclear.
		show := func() {
			rs, err := s.Read(soon(t), "billing")
			switch {
			case err != nil:
			case unclear[rs[0].Lease.Heartbeat]:
				confirm(rs[0].Lease.Heartbeat)
			case rs[0].Lease.Heartbeat != beat:
				t.Fatalf("the row has heartbeat %d, neither %d nor one of %v", rs[0].Lease.Heartbeat, beat, unclear)
			}
		}
		for range 200 {
			numbers++
			n, err := s.Renew(soon(t), store.Renew{Owner: "me", Heartbeat: numbers, Leases: []store.Renewal{{Group: "billing", Token: token, Heartbeat: beat}}})
			switch {
			case err == nil && n == 1:
				confirm(numbers)
			case err == nil && len(unclear) == 0:
				t.Fatalf("heartbeat %d after %d was refused: %+v", numbers, beat, read(t, s, "billing").Lease)
			case err == nil: // one without an answer applied after the row was read
				show()
			default:
				failures++
				unclear[numbers] = true
				show()
			}
		}
		cancel()
		killer.Wait()
		t.Logf("%d of 200 heartbeats got no answer", failures)
		eventually(t, "a reading succeeds", func() bool { _, err := s.Read(soon(t), "billing"); return err == nil })
	})
}

// lockRow holds a row's lock until the returned function is called.
func lockRow(t testing.TB, db dbtest.Database, query string) (release func()) {
	t.Helper()
	tx, err := db.Open(t).BeginTx(soon(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	var name string
	if err := tx.QueryRowContext(soon(t), query).Scan(&name); err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() { _ = tx.Rollback() })
	t.Cleanup(release)
	return release
}

// takeover is how an acquire looks in the list of processes.
const takeover = "UPDATE %STRAIGHT_JOIN"

// waits tells whether a connection to the database runs such a statement.
func waits(t testing.TB, db dbtest.Database, statement string) func() bool {
	admin := db.Open(t)
	return func() bool {
		return count(t, admin, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE ?", statement+"%") > 0
	}
}

// A statement whose client gave up waits on in the server and is carried out
// when the lock is free. It must do what was asked, or nothing.
func TestStatementsThatApplyLate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		giveUp := func(t *testing.T, query, statement string, do func(context.Context) error) (apply func()) {
			t.Helper()
			free := lockRow(t, db, query)
			ctx, cancel := context.WithCancel(soon(t))
			result := make(chan error)
			go func() { result <- do(ctx) }()
			isWaiting := waits(t, db, statement)
			eventually(t, statement+" waits", isWaiting)
			cancel()
			if err := <-result; !errors.Is(err, context.Canceled) {
				t.Errorf("given up: %v", err)
			}
			return func() {
				free()
				eventually(t, statement+" ends", func() bool { return !isWaiting() })
			}
		}

		token := take(t, s, "renewal", "me")
		apply := giveUp(t, "SELECT name FROM cronlease_lease WHERE name = 'renewal' FOR UPDATE", "UPDATE `cronlease_lease`", func(ctx context.Context) error {
			_, err := s.Renew(ctx, store.Renew{Owner: "me", Heartbeat: 2, Leases: []store.Renewal{{Group: "renewal", Token: token, Heartbeat: 1}}})
			if err != nil && !strings.HasPrefix(err.Error(), "renew lease: ") {
				t.Errorf("error: %v", err)
			}
			return err
		})
		apply()
		got := read(t, s, "renewal")
		if n := renew(t, s, "renewal", "me", token, got.Lease.Heartbeat, 3); n != 1 {
			t.Errorf("%d leases renewed after a late renewal", n)
		}

		take(t, s, "takeover", "me")
		a := request(t, s, "takeover", "other")
		apply = giveUp(t, "SELECT name FROM cronlease_fence WHERE name = 'takeover' LOCK IN SHARE MODE", takeover, func(ctx context.Context) error {
			_, err := s.Acquire(ctx, a)
			if err != nil && !strings.HasPrefix(err.Error(), "acquire lease: ") {
				t.Errorf("error: %v", err)
			}
			return err
		})
		if _, err := s.Acquire(soon(t), a); !errors.Is(err, store.ErrChanged) {
			t.Errorf("acquire again by the reading of a connection that is gone: %v", err)
		}
		apply()
		r := read(t, s, "takeover")
		if r.Lease.Token != r.Fence.Token || r.Lease.Owner != r.Fence.Owner {
			t.Errorf("lease %+v beside fence %+v", r.Lease, r.Fence)
		}

		token = take(t, s, "release", "me")
		apply = giveUp(t, "SELECT name FROM cronlease_lease WHERE name = 'release' FOR UPDATE", "UPDATE `cronlease_lease`", func(ctx context.Context) error {
			return s.Release(ctx, "release", "me", token)
		})
		apply()
		if err := s.Release(soon(t), "release", "me", token); err != nil {
			t.Errorf("release again: %v", err)
		}
	})
}

// While a takeover waits for fenced work to end, heartbeats go on: it holds no
// lock on the lease row.
func TestTakeoverWaitsForFencedWorkAndHeartbeatsDoNot(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		holder, challenger := migrated(t, db.DSN), open(t, db.DSN)
		token := take(t, holder, "billing", "me")
		commit := lockRow(t, db, "SELECT name FROM cronlease_fence WHERE name = 'billing' LOCK IN SHARE MODE")
		type answer struct {
			token uint64
			err   error
		}
		result := make(chan answer)
		a := request(t, challenger, "billing", "other")
		go func() {
			got, err := challenger.Acquire(soon(t), a)
			result <- answer{got, err}
		}()
		eventually(t, "the takeover waits", waits(t, db, takeover))
		if n := renew(t, holder, "billing", "me", token, 1, 2); n != 1 {
			t.Errorf("%d leases renewed while a takeover waits", n)
		}
		commit()
		if got := <-result; !errors.Is(got.err, store.ErrChanged) {
			t.Errorf("the takeover of a lease that was renewed meanwhile: %v", got.err)
		}
		// And when it is not renewed, it gets it.
		commit = lockRow(t, db, "SELECT name FROM cronlease_fence WHERE name = 'billing' LOCK IN SHARE MODE")
		a = request(t, challenger, "billing", "other")
		go func() {
			got, err := challenger.Acquire(soon(t), a)
			result <- answer{got, err}
		}()
		eventually(t, "the takeover waits", waits(t, db, takeover))
		commit()
		if got := <-result; got.err != nil || got.token <= token {
			t.Errorf("token %d after %d: %v", got.token, token, got.err)
		}
	})
}

// An acquire that cannot have the fence row's lock is told so by the server, and
// its connection and reading stay good.
func TestTakeoverGivesUpOnFencedWork(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		take(t, s, "billing", "me")
		commit := lockRow(t, db, "SELECT name FROM cronlease_fence WHERE name = 'billing' LOCK IN SHARE MODE")
		a := request(t, s, "billing", "other")
		if _, err := s.Acquire(soon(t), a); err == nil || errors.Is(err, store.ErrChanged) {
			t.Errorf("acquire against a lock: %v", err)
		}
		// The other connection for looks is free meanwhile.
		ctx, cancel := context.WithCancel(soon(t))
		result := make(chan error)
		go func() { _, err := s.Acquire(ctx, a); result <- err }()
		eventually(t, "the takeover waits", waits(t, db, takeover))
		read(t, s, "billing")
		commit()
		if err := <-result; err != nil {
			t.Error(err)
		}
		cancel()
	})
}

// A lock that another program has on one row costs no leases in other rows.
func TestRenewTouchesOnlyItsRows(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		fillLeases(t, db, 10_000)
		held := hold(t, db, "me", 1000)
		exec(t, db.Open(t), "ANALYZE TABLE cronlease_lease")
		lockRow(t, db, "SELECT name FROM cronlease_lease WHERE name = 'other/5000' FOR UPDATE")
		lockRow(t, db, "SELECT name FROM cronlease_lease WHERE name = 'held/999' FOR UPDATE")
		heartbeat := uint64(1)
		for _, n := range []int{1, 10, 999} {
			heartbeat++
			renewed, err := s.Renew(soon(t), store.Renew{Owner: "me", Heartbeat: heartbeat, Leases: held[:n]})
			if err != nil || renewed != n {
				t.Errorf("%d of %d renewed: %v", renewed, n, err)
			}
			for i := range n {
				held[i].Heartbeat = heartbeat
			}
		}
		renewed, err := s.Renew(soon(t), store.Renew{Owner: "me", Heartbeat: heartbeat + 1, Leases: held})
		if err != nil || renewed != 999 {
			t.Errorf("%d of 1000 renewed beside a locked one: %v", renewed, err)
		}
		begin := time.Now()
		if _, err := s.Renew(soon(t), store.Renew{Owner: "me", Heartbeat: heartbeat + 1, Leases: held[999:]}); err == nil {
			t.Error("a locked row was renewed")
		} else if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("gave up on the locked row after %v: %v", took, err)
		}
		if got := read(t, s, "held/999").Lease.Heartbeat; got != 1 {
			t.Errorf("the locked row has heartbeat %d, want 1", got)
		}
	})
}

func TestRenewUsesThePrimaryKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		explain := func(held []store.Renewal, least int) {
			t.Helper()
			c := conn(t, db.Open(t))
			for _, statement := range mysqlconn.SessionStatements(time.Second, "") {
				exec(t, c, statement)
			}
			plan := explainPlan(t, c, s.RenewStatement(store.Renew{Owner: "me", Heartbeat: 2, Leases: held}))
			steps := 0
			for _, step := range plan {
				if strings.HasPrefix(step["table"], "<") {
					continue // the rows that the first step has found
				}
				steps++
				n, err := strconv.Atoi(step["rows"])
				joined := step["type"] == "eq_ref" && n == 1
				if step["key"] != "PRIMARY" || err != nil || !joined && (step["type"] != "range" || n < least || n > len(held)) {
					t.Errorf("%d leases are found by %v", len(held), step)
				}
			}
			isEqual(t, steps, min(len(held), 2), "steps of the plan") // one lease is renewed without a join
		}
		held := hold(t, db, "me", 1000)
		explain(held, 1) // all rows of the table, whose number the server only estimates
		fillLeases(t, db, 10_000)
		exec(t, db.Open(t), "ANALYZE TABLE cronlease_lease")
		for _, n := range []int{1, 2, 100, 1000} {
			explain(held[:n], n)
		}
	})
}

func TestTokensBeyondTheSignedRange(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		take(t, s, "billing", "me")
		for _, token := range []uint64{1<<63 - 2, 1<<63 - 1, 1 << 63, 1<<64 - 3} {
			a := request(t, s, "billing", "me")
			a.Floor = token
			got, err := s.Acquire(soon(t), a)
			if r := read(t, s, "billing"); err != nil || got != token+1 || r.Lease.Token != got || r.Fence.Token != got {
				t.Errorf("above %d: %d, rows %+v %+v: %v", token, got, r.Lease, r.Fence, err)
			}
		}
		a := request(t, s, "billing", "me")
		if got, err := s.Acquire(soon(t), a); err != nil || got != 1<<64-1 {
			t.Errorf("the last token: %d: %v", got, err)
		}
		if _, err := s.Acquire(soon(t), request(t, s, "billing", "me")); err == nil || errors.Is(err, store.ErrChanged) {
			t.Errorf("beyond the last token: %v", err)
		}
	})
}

func TestAfterClose(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		pool := db.Open(t)
		for _, s := range []*mysqlstore.Store{migrated(t, db.DSN), openOn(t, pool)} {
			token := take(t, s, "billing", "me")
			signal := s.HandoverSignal("billing")
			if err := signal.Wait(soon(t)); err != nil {
				t.Fatal(err)
			}
			// Close ends what still runs.
			free := lockRow(t, db, "SELECT name FROM cronlease_fence WHERE name = 'billing' LOCK IN SHARE MODE")
			a := request(t, s, "billing", "me")
			result := make(chan error)
			go func() { _, err := s.Acquire(soon(t), a); result <- err }()
			eventually(t, "the takeover waits", waits(t, db, takeover))
			closeStore(t, s)
			if err := <-result; err == nil {
				t.Error("the takeover succeeded")
			}
			free()
			closeStore(t, s)
			_, err := s.Read(soon(t), "billing")
			_, err2 := s.Renew(soon(t), store.Renew{Owner: "me", Heartbeat: 2, Leases: []store.Renewal{{Group: "billing", Token: token, Heartbeat: 1}}})
			for i, err := range []error{err, err2, s.Check(soon(t)), s.Migrate(soon(t)), s.Prepare(soon(t), "g", 1e9), signal.Wait(soon(t)), s.HandoverSignal("g").Wait(soon(t))} {
				if err == nil || !strings.Contains(err.Error(), "closed") {
					t.Errorf("call %d after Close: %v", i, err)
				}
			}
			isWaiting := waits(t, db, takeover)
			eventually(t, "the takeover ends", func() bool { return !isWaiting() })
		}
		if open := pool.Stats().InUse; open != 0 {
			t.Errorf("%d connections of the caller's pool are still in use", open)
		}
		if err := pool.PingContext(soon(t)); err != nil {
			t.Errorf("the caller's pool: %v", err)
		}
	})
}
