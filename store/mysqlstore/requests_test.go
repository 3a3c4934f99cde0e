package mysqlstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// held takes the lease of the group "g", and returns what its next heartbeat expects.
func held(t *testing.T, s *mysqlstore.Store) store.Renewal {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(s.Prepare(soon(t), "g", time.Minute))
	rs, err := s.Read(soon(t), "g")
	check(err)
	token, err := s.Acquire(soon(t), store.Acquire{Read: rs[0], Owner: "a/b/1/c", Heartbeat: 1, TTL: time.Minute})
	check(err)
	check(s.Declare(soon(t), store.Holder{Group: "g", Owner: "a/b/1/c", Token: token}, []store.Declared{{Name: "job", Schedule: "manual"}}))
	return store.Renewal{Group: "g", Token: token, Heartbeat: 1}
}

// Transactions that have locked rows of the ledger do not hold up a heartbeat that
// looks at it. A locked table does, for a second, and then Renew still works.
func TestBeatBesideOtherTransactions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		r := held(t, s)
		changes, err := s.Changes(soon(t), "g")
		if err != nil {
			t.Fatal(err)
		}
		tx, err := db.Open(t).BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		exec(t, tx, "UPDATE cronlease_job SET changes = changes + 1 WHERE grp = 'g'")
		exec(t, tx, `INSERT INTO cronlease_run (grp, job, tick, trigger_id, claim_id, state, owner, token, attempt, claimed_at, missed, error, cancel_asked)
			SELECT 'g', 'job', 5, 5, '', 2, '', 0, 0, UTC_TIMESTAMP(6), 0, '', 0`)
		beat, err := s.Beat(soon(t), "a/b/1/c", 2, r, changes.Number)
		if err != nil || !beat.Renewed || beat.Asked {
			t.Errorf("beside open transactions: %+v, %v", beat, err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		r.Heartbeat = 2
		if beat, err = s.Beat(soon(t), "a/b/1/c", 3, r, changes.Number); err != nil || !beat.Asked {
			t.Errorf("after their commit: %+v, %v", beat, err)
		}
		locker, err := db.Open(t).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		exec(t, locker, "LOCK TABLES cronlease_run WRITE")
		r.Heartbeat = 3
		if beat, err = s.Beat(soon(t), "a/b/1/c", 4, r, changes.Number); err == nil {
			t.Errorf("beside a locked table: %+v", beat)
		}
		if n, err := s.Renew(soon(t), store.Renew{Owner: "a/b/1/c", Heartbeat: 5, Leases: []store.Renewal{r}}); n != 1 || err != nil {
			t.Errorf("Renew beside a locked table: %d, %v", n, err)
		}
		exec(t, locker, "UNLOCK TABLES")
		if err := locker.Close(); err != nil {
			t.Error(err)
		}
	})
}

// While a leader waits for requests, its connection holds up no change of a table. A
// session that has its lock makes room for it, and one that is lost is replaced.
func TestRequestSignalOnServers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s, admin := migrated(t, db.DSN), db.Open(t)
		r := held(t, s)
		name, err := s.RequestLock("g", r.Token)
		if err != nil {
			t.Fatal(err)
		}
		stale := db.Open(t)
		stale.SetMaxOpenConns(1)
		stales := count(t, stale, "SELECT CONNECTION_ID() * GET_LOCK(?, 0)", name)
		changes, err := s.Changes(soon(t), "g")
		if err != nil {
			t.Fatal(err)
		}
		signal := s.RequestSignal("g", r.Token)
		defer signal.Close()
		wait := func() <-chan error {
			done := make(chan error, 1)
			go func() { done <- signal.Wait(soon(t), &changes.Number) }()
			return done
		}
		rests := func() int {
			for {
				id := count(t, admin, "SELECT COALESCE(IS_USED_LOCK(?), 0)", name)
				if id != 0 && id != stales {
					return id
				}
			}
		}
		done := wait()
		id := rests()
		for _, table := range []string{"lease", "fence", "run", "job"} {
			exec(t, admin, "ALTER TABLE cronlease_"+table+" COMMENT = 'changed'")
		}
		exec(t, admin, fmt.Sprint("KILL ", id))
		if err := <-done; err == nil {
			t.Error("a lost connection: no error")
		}
		// It is the KILL that counts, although nothing has changed.
		done = wait()
		rests()
		eventually(t, "it is woken", func() bool {
			_, _ = admin.ExecContext(soon(t), "KILL QUERY IS_USED_LOCK('"+name+"')")
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("woken: %v", err)
				}
				return true
			default:
				return false
			}
		})
		done = wait()
		rests()
		if _, err := migrated(t, db.DSN).Trigger(soon(t), "g", "job", jobs.Request{}); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Errorf("after it was replaced: %v", err)
		}
	})
}

// A pool that is too small for it leaves the connections to those that need them.
func TestRequestSignalInSmallPools(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		r := held(t, migrated(t, db.DSN))
		for _, most := range []int{6, 7} {
			pool := db.Open(t)
			pool.SetMaxOpenConns(most)
			s := openOn(t, pool)
			signal := s.RequestSignal("g", r.Token)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := signal.Wait(ctx, nil)
			cancel()
			if refused := err != nil && strings.Contains(err.Error(), "SetMaxOpenConns"); refused != (most == 6) {
				t.Errorf("in a pool of %d: %v", most, err)
			}
			if err := signal.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// However many terms a store has, one connection waits for requests to all of them, and each is
// woken at once.
func TestManyRequestSignalsShareAConnection(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		other, admin, user := migrated(t, db.DSN), db.Open(t), uniqueName("app")
		s := open(t, userDSN(t, db, user, "ALL ON @.*"))
		woken := map[string]chan error{}
		signals := map[string]store.RequestSignal{}
		known := map[string]uint64{}
		wait := func(group string) {
			number := known[group]
			go func() { woken[group] <- signals[group].Wait(soon(t), &number) }()
		}
		for _, group := range groups() {
			token := take(t, s, group, "me")
			if err := s.Declare(soon(t), store.Holder{Group: group, Owner: "me", Token: token}, []store.Declared{{Name: "job", Schedule: "manual"}}); err != nil {
				t.Fatal(err)
			}
			changes, err := s.Changes(soon(t), group)
			if err != nil {
				t.Fatal(err)
			}
			known[group], woken[group], signals[group] = changes.Number, make(chan error, 1), s.RequestSignal(group, token)
			wait(group)
		}
		var took []time.Duration
		for _, group := range groups() {
			began := time.Now()
			if _, err := other.Trigger(soon(t), group, "job", jobs.Request{}); err != nil {
				t.Fatal(err)
			}
			if err := <-woken[group]; err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(began))
			changes, err := s.Changes(soon(t), group)
			if err != nil {
				t.Fatal(err)
			}
			known[group] = changes.Number
			wait(group)
		}
		slices.Sort(took)
		t.Logf("woken after %v, at most %v; %d sessions", took[manyGroups/2], took[manyGroups-1], sessions(t, admin, user))
		if n := sessions(t, admin, user); n > 1+2+4+1 {
			t.Errorf("%d sessions", n)
		}
		for group, signal := range signals {
			if err := signal.Close(); err != nil {
				t.Errorf("%s: %v", group, err)
			}
		}
	})
}
