package locks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store"
)

// A session's rows are missing in two looks that are far apart, and were there in
// between: the second look is the first of that absence, and ends nothing at once.
func TestCleaningOfMissingSessions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		held, other := a.lock("stock"), b.lock("other")
		group := ""
		for _, p := range w.look("stock").Processes {
			group = p.Group
		}
		var l *store.Lease
		var f *store.Fence
		remove := func() {
			w.Update(group, func(wasL *store.Lease, wasF *store.Fence) (*store.Lease, *store.Fence) {
				l, f = wasL, wasF
				return nil, nil
			})
		}
		beat := func() { // just behind a heartbeat of a's
			was := w.lastBeat(t, a)
			for w.lastBeat(t, a).Equal(was) {
				time.Sleep(10 * time.Millisecond)
			}
		}
		cleaned := make(chan error)
		clean := func() { cleaned <- b.Clean(t.Context()) }
		beat()
		remove()
		go clean()
		time.Sleep(10 * time.Millisecond)
		w.Update(group, func(*store.Lease, *store.Fence) (*store.Lease, *store.Fence) { return l, f })
		if err := <-cleaned; err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		if !held.Trusted() {
			t.Fatal("lost")
		}
		beat()
		remove()
		go clean()
		time.Sleep(time.Second)
		next := b.waits("stock")
		time.Sleep(time.Second)
		if next.is() && held.Trusted() {
			t.Error("two hold one lock")
		}
		<-cleaned
		next.within(timing.TTL * 2).unlock(t)
		_ = held.Unlock(t.Context()) // it was lost
		other.unlock(t)
	})
}

// A session's row is put back to what the cleaner saw in its look before: that
// heartbeat is not as old as that look.
func TestCleaningOfRewoundSessions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		held, other := a.lock("stock"), b.lock("other")
		group := ""
		for _, p := range w.look("stock").Processes {
			group = p.Group
		}
		beat := func() {
			was := w.lastBeat(t, a)
			for w.lastBeat(t, a).Equal(was) {
				time.Sleep(10 * time.Millisecond)
			}
		}
		cleaned := make(chan error)
		beat()
		var l store.Lease
		w.Update(group, func(wasL *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) { l = *wasL; return wasL, f })
		clean := func() { cleaned <- b.Clean(t.Context()) }
		go clean() // the backup is of this moment
		<-cleaned
		time.Sleep(30 * time.Minute)
		beat()
		w.Update(group, func(_ *store.Lease, f *store.Fence) (*store.Lease, *store.Fence) { return &l, f })
		go clean()
		next := b.waits("stock")
		time.Sleep(time.Second)
		if next.is() && held.Trusted() {
			t.Error("two hold one lock")
		}
		<-cleaned
		next.within(timing.TTL * 2).unlock(t)
		_ = held.Unlock(t.Context()) // it was lost
		other.unlock(t)
	})
}

// Cleaning goes through all rows with holders, however many one statement lists.
func TestCleaningOfManyRows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		b.lock("other").unlock(t)
		const many = 600
		for i := range many {
			a.lock(fmt.Sprint("order/", i))
		}
		a.crash()
		time.Sleep(2 * timing.TTL)
		if err := b.Clean(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if left, err := locks.List(t.Context(), w, "", many); err != nil || len(left) > 0 {
			t.Errorf("%d locks of a dead process are held, %v", len(left), err)
		}
	})
}
