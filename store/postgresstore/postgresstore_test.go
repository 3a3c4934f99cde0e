package postgresstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/postgresstore"
)

// take prepares and acquires the group.
func take(t testing.TB, s *postgresstore.Store, group, owner string) store.Holder {
	t.Helper()
	if err := s.Prepare(soon(t), group, 15*time.Second); err != nil {
		t.Fatal(err)
	}
	token, err := s.Acquire(soon(t), request(t, s, group, owner))
	if err != nil {
		t.Fatal(err)
	}
	return store.Holder{Group: group, Owner: owner, Token: token}
}

func request(t testing.TB, s *postgresstore.Store, group, owner string) store.Acquire {
	t.Helper()
	r, err := s.Read(soon(t), group)
	if err != nil {
		t.Fatal(err)
	}
	return store.Acquire{Read: r[0], Owner: owner, Heartbeat: 1, TTL: 15 * time.Second}
}

func tick(n int) time.Time { return time.Date(2030, 1, 1, 0, 0, n, 0, time.UTC) }

func claim(t testing.TB, s *postgresstore.Store, h store.Holder, n int) error {
	t.Helper()
	_, err := s.Claim(soon(t), h, store.ClaimID{byte(n)}, []store.Claim{{Key: jobs.Key{Job: "job", Tick: tick(n)}, State: jobs.Running}})
	return err
}

func migrated(t testing.TB, url string, options ...postgresstore.Option) *postgresstore.Store {
	t.Helper()
	s := open(t, url, options...)
	if err := s.Migrate(soon(t)); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTenMigrateAtOnce(t *testing.T) {
	t.Parallel()
	url := fresh(t)
	var made sync.Map
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			level, err := open(t, url).MigrateSteps(soon(t), time.Minute, func(step string) {
				if _, twice := made.LoadOrStore(step, true); twice {
					t.Errorf("the step %s was made twice", step)
				}
			}, func(error) {})
			if err != nil || level != postgresstore.Newest {
				t.Errorf("Migrate: level %d, %v", level, err)
			}
		})
	}
	all.Wait()
	if err := open(t, url).Check(soon(t)); err != nil {
		t.Errorf("Check: %v", err)
	}
}

// The schema has a name that only quotes make one.
func TestSchemaOfItsOwn(t *testing.T) {
	t.Parallel()
	url := fresh(t)
	name := fmt.Sprintf(`Mine "%d"`, schemas.Add(1))
	s := migrated(t, url, postgresstore.WithSchema(name))
	run(t, s.DB(), `DROP SCHEMA "`+strings.ReplaceAll(name, `"`, `""`)+`" CASCADE`)
	if err := s.Migrate(soon(t)); err != nil {
		t.Fatal(err)
	}
	h := take(t, s, "billing", "alice")
	if err := claim(t, s, h, 1); err != nil {
		t.Error(err)
	}
	if err := open(t, url).Check(soon(t)); !errors.Is(err, lease.ErrNotReady) {
		t.Errorf("Check of the schema without tables: %v, want ErrNotReady", err)
	}
	run(t, s.DB(), `DROP SCHEMA "`+strings.ReplaceAll(name, `"`, `""`)+`" CASCADE`)
}

// The defaults of a database or a user change nothing of what is promised.
func TestDefaultsOfSessions(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"read uncommitted", "read committed", "repeatable read", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			url := fresh(t) + "&default_transaction_isolation=" + strings.ReplaceAll(isolation, " ", "%20")
			s := migrated(t, url)
			h := take(t, s, "billing", "alice")
			var all sync.WaitGroup
			for n := range 8 {
				all.Go(func() {
					if _, err := s.Trigger(soon(t), "billing", "job", jobs.Request{}); !errors.Is(err, jobs.ErrNoJob) {
						t.Errorf("Trigger: %v", err)
					}
					if err := claim(t, s, h, n+1); err != nil {
						t.Errorf("Claim: %v", err)
					}
				})
			}
			all.Wait()
		})
	}
}

// A pool of pgx, which prepares and keeps its statements, will do.
func TestPoolOfPgx(t *testing.T) {
	t.Parallel()
	url := fresh(t)
	pool, err := pgxpool.New(soon(t), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s, err := postgresstore.NewFromPool(pool)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Migrate(soon(t)); err != nil {
		t.Fatal(err)
	}
	h := take(t, s, "billing", "alice")
	for n := range 3 {
		if err := claim(t, s, h, n+1); err != nil {
			t.Fatal(err)
		}
	}
	open, err := s.Open(soon(t), "billing", "alice")
	if err != nil || len(open.Open) != 3 {
		t.Errorf("%d open runs, %v, want 3", len(open.Open), err)
	}
}

// A takeover waits for a transaction that has checked its hold, and later checks wait for the takeover: transactions that
// overlap cannot keep it out.
func TestTakeoverIsNotStarved(t *testing.T) {
	t.Parallel()
	s := migrated(t, fresh(t))
	h := take(t, s, "billing", "alice")
	hold := lease.Hold{Kind: lease.HoldLease, Name: "billing", Owner: h.Owner, Token: h.Token}
	ctx, cancel := context.WithTimeout(soon(t), 30*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for ctx.Err() == nil {
				tx, err := s.DB().BeginTx(ctx, nil)
				if err != nil {
					return
				}
				held, err := s.CheckHold(ctx, tx, hold)
				if err == nil && held {
					_, err = tx.ExecContext(ctx, "SELECT pg_sleep(0.2)")
				}
				_ = tx.Rollback()
				if err != nil || !held {
					return
				}
			}
		})
	}
	var token uint64
	for token == 0 {
		var err error
		if token, err = s.Acquire(ctx, request(t, s, "billing", "bob")); err != nil && !errors.Is(err, store.ErrChanged) {
			t.Errorf("Acquire: %v", err)
			break
		}
	}
	cancel()
	all.Wait()
	if token == 0 {
		t.Error("the lease was not taken over in 30 s")
	}
}

func TestUnfitServers(t *testing.T) {
	t.Parallel()
	url := fresh(t)
	if err := open(t, url).Check(soon(t)); !errors.Is(err, lease.ErrNotReady) || !strings.Contains(err.Error(), "worker migrate") {
		t.Errorf("Check without tables: %v", err)
	}
	migrated(t, url)
	for setting, cure := range map[string]string{
		"synchronous_commit=off":           "synchronous_commit = on",
		"default_transaction_read_only=on": "primary",
	} {
		if err := open(t, url+"&"+setting).Check(soon(t)); !errors.Is(err, lease.ErrSetup) || !strings.Contains(err.Error(), cure) {
			t.Errorf("Check with %s: %v, want ErrSetup with %q", setting, err, cure)
		}
	}
	missing := open(t, shared.URL("missing"))
	if err := missing.Check(soon(t)); !errors.Is(err, lease.ErrSetup) || !strings.Contains(err.Error(), "create the database") {
		t.Errorf("Check of a database that is not there: %v", err)
	}
}

// The user who asks for something may have any name.
func TestActorsOfAnyName(t *testing.T) {
	t.Parallel()
	s := migrated(t, fresh(t))
	h := take(t, s, "billing", "alice")
	if err := s.Declare(soon(t), h, []store.Declared{{Name: "job", Schedule: "daily"}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a\x00b", "\xff", "東", strings.Repeat("x", 10_000)} {
		ctx := jobs.WithActor(soon(t), jobs.Actor{Name: name, Via: jobs.ViaPage})
		if err := s.AskResign(ctx, "billing", h.Token); err != nil {
			t.Errorf("AskResign by %.10q: %v", name, err)
		}
		if _, err := s.Trigger(ctx, "billing", "job", jobs.Request{}); err != nil {
			t.Errorf("Trigger by %.10q: %v", name, err)
		}
	}
	if all, err := s.Audit(soon(t), "billing", jobs.AuditFilter{}); err != nil || len(all) != 8 {
		t.Errorf("%d entries, %v, want 8", len(all), err)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	s := migrated(t, fresh(t))
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Read(soon(t), "billing"); err == nil || !strings.Contains(err.Error(), "postgresstore: closed") {
		t.Errorf("Read of a closed store: %v", err)
	}
}
