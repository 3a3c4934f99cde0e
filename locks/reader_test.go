package locks_test

import (
	"testing"

	"github.com/cronlease/cronlease/locks"
)

func TestReaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.rig(), w.rig(), w.rig()
		// Readers of one process or of several share the lock.
		one, two := a.rlock("stock"), a.rlock("stock")
		three := b.rlock("stock")
		if _, err := b.RWMutex("stock").TryLock(t.Context()); err == nil {
			t.Fatal("a writer beside readers")
		} else {
			is(t, err, locks.ErrBusy)
		}
		if l, err := c.RWMutex("stock").TryRLock(t.Context()); err != nil {
			t.Fatal(err)
		} else {
			w.enter(l, true, timing.Grace).unlock(t)
		}
		// A waiting writer keeps later readers back.
		writer := c.waits("stock")
		four, five := a.rwaits("stock"), b.rwaits("stock")
		if _, err := c.RWMutex("stock").TryRLock(t.Context()); err == nil {
			t.Fatal("a reader passes the writer")
		} else {
			is(t, err, locks.ErrBusy)
		}
		second := a.waits("stock")
		six := c.rwaits("stock")
		for _, s := range []*stay{one, three, two} {
			writer.hasNot()
			four.hasNot()
			s.unlock(t)
		}
		writer.has()
		four.hasNot()
		// Adjacent waiting readers are granted together, under one token.
		writer.stay.unlock(t)
		four.has()
		five.has()
		second.hasNot()
		six.hasNot()
		if four.stay.Token() != five.stay.Token() || four.stay.Token() <= writer.stay.Token() {
			t.Errorf("tokens %d and %d after %d", four.stay.Token(), five.stay.Token(), writer.stay.Token())
		}
		four.stay.unlock(t)
		second.hasNot()
		five.stay.unlock(t)
		second.has().unlock(t)
		six.has().unlock(t)
	})
}

// When a waiting writer gives up, the readers behind it are granted.
func TestWriterGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.rig(), w.rig(), w.rig()
		reader := a.rlock("stock")
		writer, kept := b.waits("stock"), c.rwaits("stock")
		kept.hasNot()
		writer.stop(errEnough)
		kept.has().unlock(t)
		reader.unlock(t)
	})
}

// A mutex and a read-write mutex of one name are one lock.
func TestOneName(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.rig(), w.rig()
		reader := a.rlock("stock")
		writer := b.waits("stock")
		writer.hasNot()
		reader.unlock(t)
		writer.has()
		kept := a.rwaits("stock")
		kept.hasNot()
		writer.stay.unlock(t)
		kept.has().unlock(t)
	})
}
