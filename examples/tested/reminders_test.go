package tested_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
	_ "time/tzdata" // for a machine without zone data

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/examples/tested"
	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A schedule alone is a function.
func TestSchedule(t *testing.T) {
	t.Parallel()
	schedule := new(tested.Reminders).Job().Schedule
	// Clocks go forward at 02:00 that night, so there is no 02:00.
	if got, want := schedule.Next(time.Date(2027, 3, 27, 12, 0, 0, 0, time.UTC)), time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("next %v, want %v", got, want)
	}
}

// The job with its database, in a file: what it writes as the leader is stored,
// and nothing once another replica has the lease.
func TestWrite(t *testing.T) {
	t.Parallel()
	db := open(t)
	defer db.Close()
	job := (&tested.Reminders{DB: db.DB()}).Job()

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := election.Run(ctx, db, "billing", func(ctx context.Context, term election.Term) error {
		defer stop()
		run := jobs.Run{Group: "billing", Job: job.Name, Tick: time.Now(), Token: term.Token(), Attempt: 1}
		if err := job.Call(ctx, run); err != nil {
			t.Errorf("while it leads: %v", err)
		}
		takeAway(t, db)
		if err := job.Call(ctx, run); !errors.Is(err, fence.ErrFenced) {
			t.Errorf("afterwards: %v, want ErrFenced", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if got := reminders(t, db); got != 1 {
		t.Errorf("%d reminders, want 1", got)
	}
}

// open returns a store in a file of its own, with the tables of the job.
func open(t *testing.T) *sqlitestore.Store {
	t.Helper()
	db, err := sqlitestore.Open(filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"CREATE TABLE invoice (id INTEGER, paid BOOLEAN)",
		"CREATE TABLE reminder (invoice INTEGER, tick INTEGER, token INTEGER)",
		"INSERT INTO invoice VALUES (1, FALSE), (2, TRUE)",
	} {
		if _, err := db.DB().ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func reminders(t *testing.T, db *sqlitestore.Store) int {
	t.Helper()
	var n int
	if err := db.DB().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM reminder").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// takeAway takes the lease, as another replica does once it was not renewed.
func takeAway(t *testing.T, leases store.Leases) {
	t.Helper()
	readings, err := leases.Read(t.Context(), "billing")
	if err == nil {
		_, err = leases.Acquire(t.Context(), store.Acquire{Read: readings[0], Owner: "other", Heartbeat: 1, TTL: time.Minute})
	}
	if err != nil {
		t.Fatal(err)
	}
}
