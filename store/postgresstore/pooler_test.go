package postgresstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/pgserver"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/postgresstore"
)

// pooler is a pooler in that mode before the shared server.
func pooler(t *testing.T, mode string) *pgserver.Pooler {
	t.Helper()
	program, err := pgserver.FindPooler()
	if err != nil {
		t.Fatal(err)
	}
	p := pgserver.NewPooler(program, shared, mode)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := p.Start(soon(t)); err != nil {
		t.Fatal(err)
	}
	return p
}

// Behind a pooler all is correct, also where each statement may meet another session of the server. Signals need a direct
// connection there, and say so.
func TestBehindAPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"transaction", "session"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := pooler(t, mode)
			schema := fmt.Sprintf("pooled%d", schemas.Add(1))
			admin := connect(t, shared.URL("postgres"))
			t.Cleanup(func() { run(t, admin, "DROP SCHEMA "+schema+" CASCADE") })
			one := migrated(t, p.URL("postgres"), postgresstore.WithSchema(schema))
			other := open(t, p.URL("postgres"), postgresstore.WithSchema(schema), postgresstore.WithSignals(shared.URL("postgres")))
			h := take(t, one, "billing", "alice")
			if err := one.Declare(soon(t), h, []store.Declared{{Name: "job", Schedule: "daily"}}); err != nil {
				t.Fatal(err)
			}
			const claims = 30
			mine := make([]int, claims)
			var mu sync.Mutex
			var all sync.WaitGroup
			for i := range 2 * claims {
				all.Go(func() {
					s, n := one, i%claims
					if i >= claims {
						s = other
					}
					got, err := s.Claim(soon(t), h, store.ClaimID{byte(i + 1)}, []store.Claim{{Key: jobs.Key{Job: fmt.Sprint("job-", n), Tick: tick(1)}, State: jobs.Running}})
					if err != nil {
						t.Errorf("Claim: %v", err)
					} else if got[0].Mine {
						mu.Lock()
						mine[n]++
						mu.Unlock()
					}
				})
			}
			all.Wait()
			for n, times := range mine {
				if times != 1 {
					t.Errorf("the tick of job-%d was claimed %d times", n, times)
				}
			}

			if err := one.HandoverSignal("billing").Wait(soon(t)); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("Wait behind the pooler: %v, want ErrUnsupported", err)
			}
			woken := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(soon(t), 20*time.Second)
				defer cancel()
				woken <- other.HandoverSignal("billing").Wait(ctx)
			}()
			<-time.After(500 * time.Millisecond) // it listens, most of the time; else it sees the release when it does
			if err := one.Release(soon(t), "billing", h.Owner, h.Token); err != nil {
				t.Fatal(err)
			}
			if err := <-woken; err != nil {
				t.Errorf("Wait over a direct connection: %v", err)
			}
		})
	}
}

// A pooler that takes no transactions is named.
func TestPoolerInStatementMode(t *testing.T) {
	t.Parallel()
	p := pooler(t, "statement")
	schema := fmt.Sprintf("pooled%d", schemas.Add(1))
	admin := connect(t, shared.URL("postgres"))
	t.Cleanup(func() { run(t, admin, "DROP SCHEMA "+schema+" CASCADE") })
	migrated(t, shared.URL("postgres"), postgresstore.WithSchema(schema))
	err := open(t, p.URL("postgres"), postgresstore.WithSchema(schema)).Check(soon(t))
	if !errors.Is(err, lease.ErrSetup) || !strings.Contains(err.Error(), "pool_mode = transaction") {
		t.Errorf("Check: %v, want ErrSetup with the mode", err)
	}
}
