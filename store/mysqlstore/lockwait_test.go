package mysqlstore_test

import (
	"strings"
	"testing"

	"github.com/cronlease/cronlease/internal/dbtest"
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
		eventually(t, "the ALTER waits", func() bool {
			return count(t, admin, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'ALTER%' AND state LIKE '%metadata lock%'") == 1
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

// A session that began to wait later is not what holds a statement up, and is not
// named as that.
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
		// The server counts the boundaries of seconds, so 2 of them are more than one second.
		eventually(t, "the store has waited for a second", func() bool {
			return count(t, admin, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND state LIKE '%metadata lock%' AND time >= 2") == 1
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
