package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// Takeovers, claims, heartbeats and fenced transactions against each other: none
// is a deadlock's victim, no heartbeat waits, and each transaction was stored
// within its own term.
func TestCrowd(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *scene) {
		const terms = 60
		ledger, ok := s.store.(store.Ledger)
		if !ok {
			t.Fatal("no ledger")
		}
		s.exec("CREATE TABLE effects (id INTEGER AUTO_INCREMENT PRIMARY KEY, token BIGINT UNSIGNED NOT NULL)")
		var now atomic.Pointer[lease.Hold]
		now.Store(&s.hold)
		stop, cancel := context.WithCancel(context.Background())
		defer cancel()
		var (
			all                      sync.WaitGroup
			stored, refused, claimed atomic.Int64
			news                     = make(chan struct{}, 1) // something was stored
		)
		for range 4 {
			all.Go(func() {
				for stop.Err() == nil {
					h := *now.Load()
					err := fence.Do(lease.WithHold(soon(t), h), s.db, func(tx *sql.Tx) error {
						_, err := tx.Exec("INSERT INTO effects (token) VALUES (?)", h.Token)
						return err
					})
					switch {
					case err == nil:
						stored.Add(1)
						select {
						case news <- struct{}{}:
						default:
						}
					case errors.Is(err, fence.ErrFenced):
						refused.Add(1)
					default:
						t.Errorf("transaction: %v", err)
					}
				}
			})
		}
		var tick atomic.Int64
		for range 2 {
			all.Go(func() {
				for stop.Err() == nil {
					h := *now.Load()
					_, err := ledger.Claim(soon(t), store.Holder{Group: group, Owner: h.Owner, Token: h.Token}, store.ClaimID{1},
						[]store.Claim{{Key: jobs.Key{Job: "job", Tick: time.Unix(tick.Add(1), 0)}, State: jobs.Skipped}})
					switch {
					case err == nil:
						claimed.Add(1)
					case !errors.Is(err, store.ErrReplaced):
						t.Errorf("claim: %v", err)
					}
				}
			})
		}
		var slowest time.Duration
		all.Go(func() {
			for n := uint64(2); stop.Err() == nil; n++ {
				h := *now.Load()
				began := time.Now()
				if _, err := s.store.Renew(soon(t), store.Renew{Owner: h.Owner, Heartbeat: n, Leases: []store.Renewal{{Group: group, Token: h.Token, Heartbeat: n - 1}}}); err != nil {
					t.Errorf("heartbeat: %v", err)
				}
				slowest = max(slowest, time.Since(began))
			}
		})
		for i := 0; i < terms; {
			owner := fmt.Sprint("owner-", i)
			token, err := s.tryTakeOver(owner)
			switch {
			case err == nil:
				i++
				h := s.hold
				h.Owner, h.Token = owner, token
				now.Store(&h)
				if i%3 == 0 { // the others are cut short
					select {
					case <-news:
					case <-soon(t).Done():
						t.Error("nothing is stored any more")
					}
				}
			case !errors.Is(err, store.ErrChanged): // by a heartbeat
				t.Errorf("takeover: %v", err)
				i++
			}
		}
		cancel()
		all.Wait()
		t.Logf("%d stored, %d refused, %d claimed, slowest heartbeat %v", stored.Load(), refused.Load(), claimed.Load(), slowest)
		if stored.Load() == 0 || refused.Load() == 0 || claimed.Load() == 0 {
			t.Error("some of it has not happened")
		}
		var rows int64
		if err := s.db.QueryRow("SELECT COUNT(*) FROM effects").Scan(&rows); err != nil || rows != stored.Load() {
			t.Errorf("%d rows for %d transactions: %v", rows, stored.Load(), err)
		}
	})
}
