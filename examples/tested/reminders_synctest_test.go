package tested_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/examples/tested"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/memstore"
)

// Two days, with a new leader after the first: each night once.
func TestTwoDays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ran []jobs.Run
		job := new(tested.Reminders).Job()
		job.Do = func(_ context.Context, run jobs.Run) error {
			ran = append(ran, run)
			return nil
		}
		db := memstore.New() // what the replicas share
		stopFirst := start(t, db, job)
		synctest.Wait() // the first one leads
		stopSecond := start(t, db, job)
		time.Sleep(24 * time.Hour)
		stopFirst()
		time.Sleep(24 * time.Hour)
		stopSecond()

		// A bubble begins on 1 January 2000 at midnight UTC.
		want := []time.Time{time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC), time.Date(2000, 1, 2, 1, 0, 0, 0, time.UTC)}
		var got []time.Time
		for _, run := range ran {
			got = append(got, run.Tick)
		}
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Errorf("ran at %v, want %v", got, want)
		}
		if ran[1].Token <= ran[0].Token {
			t.Errorf("token %d after %d", ran[1].Token, ran[0].Token)
		}
	})
}

// Schedule, scheduler, job and database at once, in a bubble.
func TestAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := open(t)
		defer db.Close()
		job := (&tested.Reminders{DB: db.DB()}).Job()
		job.Schedule = jobs.Every(time.Minute) // its own would take an hour of looks at the file
		stop := start(t, db, job)
		time.Sleep(3*time.Minute + time.Second)
		stop()
		if got := reminders(t, db); got != 3 {
			t.Errorf("%d reminders, want 3", got)
		}
	})
}

// start starts a replica.
func start(t *testing.T, db store.Jobs, job jobs.Job) (stop func()) {
	t.Helper()
	s, err := scheduler.New(db, "billing")
	if err == nil {
		err = s.Add(job)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
