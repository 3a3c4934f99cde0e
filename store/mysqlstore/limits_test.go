package mysqlstore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/lease"
)

// An account with few connections is enough, or is refused before a job fails
// for want of one.
func TestFewConnections(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		admin := db.Open(t)
		for _, most := range []int{5, 6, 8, 12} {
			user := uniqueName("user")
			s := open(t, userDSN(t, db, user, "ALL ON @.*"))
			exec(t, admin, fmt.Sprintf("ALTER USER '%s'@'%%' WITH MAX_USER_CONNECTIONS %d", user, most))
			err := s.Check(soon(t))
			if most == 5 {
				if !errors.Is(err, lease.ErrNotReady) || !strings.Contains(err.Error(), "max_user_connections") {
					t.Errorf("5 connections: %v", err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%d connections: %v", most, err)
				continue
			}
			signal := s.HandoverSignal("g")
			var parts sync.WaitGroup
			failed := func(what string, err error) {
				if err != nil {
					t.Errorf("%d connections: %s: %v", most, what, err)
				}
			}
			parts.Go(func() { failed("signal", signal.Wait(soon(t))) })
			for range 20 {
				parts.Go(func() {
					_, err := s.DB().ExecContext(soon(t), "DO SLEEP(0.05)")
					failed("job", err)
				})
				parts.Go(func() {
					_, err := s.Load(soon(t), "g")
					failed("ledger", err)
				})
				parts.Go(func() {
					_, err := s.Read(soon(t), "g")
					failed("look", err)
				})
			}
			parts.Wait()
			if err := signal.Close(); err != nil {
				t.Error(err)
			}
			closeStore(t, s)
		}
	})
}

// Work that comes in bursts finds its connections again.
func TestIdleConnectionsAreKept(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		for dsn, most := range map[string]int{db.DSN: 32, db.DSN + "?pool_size=5": 5} {
			s := open(t, dsn)
			for range 4 {
				var burst sync.WaitGroup
				for range 40 {
					burst.Go(func() {
						if _, err := s.DB().ExecContext(soon(t), "DO SLEEP(0.02)"); err != nil {
							t.Error(err)
						}
					})
				}
				burst.Wait()
			}
			stats := s.DB().Stats()
			if stats.MaxOpenConnections != most || stats.OpenConnections > most || stats.OpenConnections < min(most, 10) || stats.MaxIdleClosed != 0 {
				t.Errorf("%+v, want %d connections that stay", stats, most)
			}
		}
	})
}

// The limits of a pool of the caller are the caller's.
func TestPoolOfTheCallerIsLeftAlone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		user := uniqueName("user")
		pool := openSQL(t, userDSN(t, db, user, "ALL ON @.*"))
		exec(t, db.Open(t), "ALTER USER '"+user+"'@'%' WITH MAX_USER_CONNECTIONS 10")
		s := openOn(t, pool)
		if err := s.Check(soon(t)); err != nil {
			t.Error(err)
		}
		if n := pool.Stats().MaxOpenConnections; n != 0 {
			t.Errorf("SetMaxOpenConns(%d)", n)
		}
	})
}
