package locks_test

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
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

// A place of the cleaning process itself that no caller has is removed, at once: there is no
// session to observe.
func TestCleaningOfOwnPlaces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.rig()
		held := a.lock("kept")
		left := bytes.ReplaceAll(w.row("kept").Queue, []byte(`.1"`), []byte(`.99"`))
		w.change("stock", func(row store.LockRow) store.LockRow { row.Version, row.Queue = 7, left; return row })
		if n := len(w.look("stock").Places); n != 1 {
			t.Fatalf("%d places", n)
		}
		begin := time.Now()
		if err := a.Clean(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n, took := len(w.look("stock").Places), time.Since(begin); n > 0 || took > 0 {
			t.Errorf("%d places are left after %v", n, took)
		}
		if !held.Trusted() || !w.has("kept", held.mark) {
			t.Error("the lock was taken from its holder")
		}
		held.unlock(t)
	})
}
