package locks

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cronlease/cronlease/store"
)

// oneHolder is the queue of a lock that is held.
func oneHolder() queue {
	return queue{[]process{{Group: "locks/other", Token: 3}}, []place{{ID: "locks/other.1", Granted: 7}}}
}

// A version that went back bars the lock, and so does a missing row that pruning cannot
// have deleted.
func TestRowThatWentBack(t *testing.T) {
	t.Parallel()
	const idle, highest = pruneIdle * 9 / 10, 10
	for _, test := range []struct {
		name           string
		queue          queue
		after          time.Duration
		version, floor uint64
		want           bool
	}{
		{"the same", oneHolder(), 0, highest, highest, false},
		{"newer", oneHolder(), 0, highest + 1, highest, false},
		{"older", queue{}, time.Hour, highest - 1, highest, true},
		{"pruned", queue{}, 0, 0, highest, false},
		{"pruned with newer ones", queue{}, 0, 0, highest + 1, false},
		{"not pruned", queue{}, time.Hour, 0, highest - 1, true},
		{"deleted while held", oneHolder(), idle - 1, 0, highest, true},
		{"perhaps unlocked by others and pruned", oneHolder(), idle, 0, highest, false},
		{"unlocked by others, but not pruned", oneHolder(), time.Hour, 0, highest - 1, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			var r row
			r.read(highest, test.queue, 0, time.Minute)
			time.Sleep(test.after)
			back, _ := r.read(test.version, queue{}, test.floor, time.Minute)
			if back != test.want || r.isBarred() != test.want || r.isSuspended() != test.want {
				t.Errorf("%s: %v, barred %v, want %v", test.name, back, r.isBarred(), test.want)
			}
			time.Sleep(time.Minute)
			if r.isBarred() || r.isSuspended() {
				t.Errorf("%s: barred for too long", test.name)
			}
			if next := r.next(); next <= max(highest, test.version) {
				t.Errorf("%s: the next version is %d", test.name, next)
			}
		})
	}
}

// A row is read before it is written where the write would fail too often.
func TestRowThatIsOutdated(t *testing.T) {
	t.Parallel()
	const idle = pruneIdle * 9 / 10
	for _, test := range []struct {
		name    string
		version uint64
		queue   queue
		after   time.Duration
		want    bool
	}{
		{"fresh", 5, queue{}, idle - 1, false},
		{"perhaps pruned", 5, queue{}, idle, true},
		{"of a held lock", 5, oneHolder(), time.Hour, false},
		{"missing", 0, queue{}, time.Hour, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var r row
			r.read(test.version, test.queue, 0, time.Minute)
			time.Sleep(test.after)
			if got := r.isOutdated(); got != test.want {
				t.Errorf("%s: %v, want %v", test.name, got, test.want)
			}
		})
	}
}

// What a row is worth, after each thing that can happen to it.
func TestKnowledgeOfARow(t *testing.T) {
	t.Parallel()
	var r row
	read := func(version uint64) (stuck bool) {
		_, stuck = r.read(version, queue{}, 0, time.Minute)
		return stuck
	}
	is := func(when string, isKnown, isOutdated, isUnsure bool) {
		t.Helper()
		if r.isKnown() != isKnown || r.isOutdated() != isOutdated || r.isUnsure() != isUnsure {
			t.Errorf("%s: known %v, outdated %v, unsure %v", when, r.isKnown(), r.isOutdated(), r.isUnsure())
		}
	}
	is("at first", false, true, false)
	if read(1) {
		t.Error("a first reading shows a write that was refused")
	}
	is("read", true, false, false)
	read(2)
	is("written by others", true, true, false)
	read(2)
	is("written by no other", true, false, false)
	r.written(store.LockWrite{Version: 3}, queue{})
	is("written", true, false, false)
	r.forget(true)
	is("written without an answer", false, true, true)
	if read(3) {
		t.Error("a write without an answer counts as refused")
	}
	is("and read", true, false, true)
	r.written(store.LockWrite{Version: 4}, queue{})
	is("and written", true, false, false)
	r.turnedDown()
	is("refused", false, true, false)
	r.forget(false)
	is("refused, and not read", false, true, false)
	if !read(4) {
		t.Error("a write was refused although nothing had changed, and that is forgotten")
	}
	r.turnedDown()
	if read(5) {
		t.Error("a write that came second counts as refused for nothing")
	}
	before := r.edition()
	r.breakOff()
	is("not to be decoded", false, true, false)
	if r.suspend(time.Hour); !r.isSuspended() || r.isBarred() || r.edition() == before {
		t.Error("it is not suspended")
	}
}
