//go:build darwin || freebsd || linux

package ownstore

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLeases(t *testing.T) {
	t.Parallel()
	storetest.Leases(t, harness)
}

func TestRows(t *testing.T) {
	t.Parallel()
	storetest.Rows(t, harness)
}

// harness is an empty folder.
func harness(t testing.TB) storetest.Harness {
	folder := t.TempDir()
	open := func(t testing.TB) *Store {
		s, err := Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return storetest.Harness{
		Patience: 5 * time.Minute, // each write waits for the disk
		Open:     func(t testing.TB) store.Leases { return open(t) },
		// Update changes the rows of a group, as an operator or a restored backup may.
		Update: func(t testing.TB, group string, change storetest.Change) {
			err := open(t).change(t.Context(), "update", func(all leases, _ time.Time) (bool, error) {
				r := all[group]
				r.Lease, r.Fence = change(r.Lease, r.Fence)
				all[group] = r
				return true, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		},
	}
}

// A job runs on the store as on any other.
func Example() {
	folder, err := os.MkdirTemp("", "ownstore")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	s, err := Open(folder)
	if err != nil {
		panic(err)
	}
	replica, err := scheduler.New(s, "demo")
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	err = replica.Add(jobs.Job{Name: "hello", Schedule: jobs.Every(time.Second), Do: func(_ context.Context, run jobs.Run) error {
		fmt.Println("attempt", run.Attempt)
		stop()
		return nil
	}})
	if err != nil {
		panic(err)
	}
	if err := replica.Run(ctx); err != nil {
		panic(err)
	}
	// Output: attempt 1
}
