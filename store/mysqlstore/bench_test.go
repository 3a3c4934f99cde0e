package mysqlstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/store"
)

// fillLeases inserts n released leases and fences in one statement each, named
// other/0 and so on.
func fillLeases(t testing.TB, db dbtest.Database, n int) {
	t.Helper()
	var leases, fences []string
	for i := range n {
		leases = append(leases, fmt.Sprintf("('other/%d', 'x', 1, 1, UTC_TIMESTAMP(6), 15000000, 1, 0)", i))
		fences = append(fences, fmt.Sprintf("('other/%d', 'x', 1)", i))
	}
	pool := db.Open(t)
	exec(t, pool, "INSERT INTO cronlease_lease (name, owner, token, heartbeat, renewed_at, ttl_us, released, resign_asked) VALUES "+strings.Join(leases, ","))
	exec(t, pool, "INSERT INTO cronlease_fence (name, owner, token) VALUES "+strings.Join(fences, ","))
}

// hold takes n leases and returns what renews them.
func hold(t testing.TB, db dbtest.Database, owner string, n int) []store.Renewal {
	t.Helper()
	var rows []string
	var held []store.Renewal
	for i := range n {
		name := fmt.Sprintf("held/%d", i)
		rows = append(rows, fmt.Sprintf("('%s', '%s', %d, 1, UTC_TIMESTAMP(6), 15000000, 0, 0)", name, owner, 1_000_000+i))
		held = append(held, store.Renewal{Group: name, Token: uint64(1_000_000 + i), Heartbeat: 1})
	}
	exec(t, db.Open(t), "INSERT INTO cronlease_lease (name, owner, token, heartbeat, renewed_at, ttl_us, released, resign_asked) VALUES "+strings.Join(rows, ","))
	return held
}

func BenchmarkRenew(b *testing.B) {
	dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
		s := migrated(b, db.DSN)
		fillLeases(b, db, 10_000)
		all := hold(b, db, "me", 1000)
		heartbeat := uint64(1)
		for _, n := range []int{1, 100, 1000} {
			b.Run(fmt.Sprint(n), func(b *testing.B) {
				held := all[:n]
				for i := range held { // another size may have left other numbers
					held[i].Heartbeat = read(b, s, held[i].Group).Lease.Heartbeat
				}
				for b.Loop() {
					heartbeat++
					renewed, err := s.Renew(b.Context(), store.Renew{Owner: "me", Heartbeat: heartbeat, Leases: held})
					if err != nil || renewed != n {
						b.Fatalf("renewed %d of %d: %v", renewed, n, err)
					}
					for i := range held {
						held[i].Heartbeat = heartbeat
					}
				}
			})
		}
	})
}

func BenchmarkAcquire(b *testing.B) {
	dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
		s := migrated(b, db.DSN)
		fillLeases(b, db, 10_000)
		take(b, s, "billing", "me")
		a := request(b, s, "billing", "me")
		for b.Loop() {
			token, err := s.Acquire(b.Context(), a)
			if err != nil {
				b.Fatal(err)
			}
			a.Read.Lease.Token, a.Read.Fence.Token = token, token
		}
	})
}

// BenchmarkRead is what a follower does once in a while.
func BenchmarkRead(b *testing.B) {
	dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
		s := migrated(b, db.DSN)
		fillLeases(b, db, 10_000)
		take(b, s, "billing", "me")
		for b.Loop() {
			if _, err := s.Read(b.Context(), "billing"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkHandOver is from the release of a signal to the waiter that is woken.
func BenchmarkHandOver(b *testing.B) {
	dbtest.EachB(b, func(b *testing.B, db dbtest.Database) {
		s := migrated(b, db.DSN)
		signals := []store.HandoverSignal{s.HandoverSignal("billing"), s.HandoverSignal("billing")}
		if err := signals[0].Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
		i := 0
		for b.Loop() {
			b.StopTimer()
			woken := make(chan error)
			next := signals[(i+1)%2]
			go func() { woken <- next.Wait(b.Context()) }()
			<-time.After(5 * time.Millisecond) // let it wait in the server
			b.StartTimer()
			if err := signals[i%2].Pass(b.Context()); err != nil {
				b.Fatal(err)
			}
			if err := <-woken; err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
}
