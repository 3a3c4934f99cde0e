package mysqlstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// An ALTER TABLE that waits for an open transaction keeps all others from the
// table. The error says so, and which statement it is.
func TestMetadataLockIsNamed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		take(t, s, "billing", "me")
		tx, err := db.Open(t).BeginTx(soon(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("SELECT * FROM cronlease_lease"); err != nil {
			t.Fatal(err)
		}
		altered := make(chan error, 1)
		go func() {
			_, err := db.Open(t).ExecContext(soon(t), "ALTER TABLE cronlease_lease ADD COLUMN later INT NOT NULL DEFAULT 0")
			altered <- err
		}()
		admin := db.Open(t)
		eventually(t, "the ALTER has waited longer than a statement of the store does", func() bool {
			return count(t, admin, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'ALTER%' AND state LIKE '%metadata lock%' AND time >= 2") == 1
		})
		_, err = s.Read(soon(t), "billing")
		if err == nil || !strings.Contains(err.Error(), "metadata lock") || !strings.Contains(err.Error(), "ALTER TABLE cronlease_lease") {
			t.Errorf("%v", err)
		}
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
		if err := <-altered; err != nil {
			t.Error(err)
		}
		read(t, s, "billing")
	})
}

// A session that waits as long as a statement of the store, or less, is not what holds that up, and is not named as
// that.
func TestVictimOfALockIsNotNamed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		take(t, s, "billing", "me")
		blocker, err := db.Open(t).Conn(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := blocker.ExecContext(soon(t), "LOCK TABLES cronlease_lease WRITE"); err != nil {
			t.Fatal(err)
		}
		answer := make(chan error, 1)
		go func() {
			_, err := s.Read(soon(t), "billing")
			answer <- err
		}()
		admin := db.Open(t)
		eventually(t, "the store waits", func() bool {
			return count(t, admin, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND state LIKE '%metadata lock%'") == 1
		})
		victim := make(chan error, 1)
		go func() {
			_, err := db.Open(t).ExecContext(soon(t), "SELECT COUNT(*) FROM cronlease_lease")
			victim <- err
		}()
		err = <-answer
		if err == nil || strings.Contains(err.Error(), "session ") || !strings.Contains(err.Error(), "SHOW FULL PROCESSLIST") {
			t.Errorf("%v", err)
		}
		if _, err := blocker.ExecContext(soon(t), "UNLOCK TABLES"); err != nil {
			t.Error(err)
		}
		if err := <-victim; err != nil {
			t.Error(err)
		}
		if err := blocker.Close(); err != nil {
			t.Error(err)
		}
	})
}

// With the default timing, an attempt that waits for a lock ends with the error that says so, and not with that of its context.
func TestWaitsAreExplained(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		h := store.Holder{Group: "billing", Owner: "me", Token: take(t, s, "billing", "me")}
		timing, err := lease.Timing{}.Complete()
		if err != nil {
			t.Fatal(err)
		}
		attempt := func(do func(context.Context) error) {
			t.Helper()
			err := context.DeadlineExceeded
			for try := 0; errors.Is(err, context.DeadlineExceeded) && try < 4; try++ { // on a busy machine; and MySQL looks once a second
				ctx, cancel := context.WithTimeout(soon(t), timing.AttemptTimeout)
				err = do(ctx)
				cancel()
			}
			if err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "SHOW FULL PROCESSLIST") {
				t.Errorf("%v", err)
			}
		}
		blocker, err := db.Open(t).Conn(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		defer blocker.Close()
		claim := func(ctx context.Context) error {
			_, err := s.Claim(ctx, h, id(), []store.Claim{{Key: key("job", 1), State: jobs.Running}})
			return err
		}
		exec(t, blocker, "LOCK TABLES cronlease_run READ")
		attempt(claim)
		exec(t, blocker, "UNLOCK TABLES")
		exec(t, blocker, "BEGIN")
		exec(t, blocker, "SELECT * FROM cronlease_fence FOR UPDATE")
		attempt(claim)
		attempt(func(ctx context.Context) error {
			_, err := s.Acquire(ctx, request(t, s, "billing", "you"))
			return err
		})
		exec(t, blocker, "ROLLBACK")
		if err := claim(soon(t)); err != nil {
			t.Error(err)
		}
	})
}
