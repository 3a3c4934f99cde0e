package locks

import (
	"time"

	"github.com/cronlease/cronlease/store"
)

// row is a lock's row as this process last saw it. It is only a guess: a write compares
// the version, and is carried out only if the guess is right. What is safe about it is
// the order of versions:
//
//   - A write that was not answered may still be carried out (unsure). It expects a
//     version that the next one which succeeds uses up, so until then no place counts
//     as gone.
//   - A version that went back shows that a holder may trust a place that is gone:
//     the lock is not granted before barred. A missing row shows that too, unless
//     pruning can have deleted it.
//   - A new version exceeds all that were ever seen or sent (floor), so it is none that a
//     late write may expect or bring, even if the row was deleted or restored, or the
//     database's clock was set back.
type row struct {
	state   knowledge
	news    uint64 // counts the updates
	version uint64
	queue   queue
	seen    time.Time // when it was last read or written
	// highest is the newest version seen since the row was last found to be
	// rewound, and floor the newest ever seen or sent.
	highest, floor uint64
	// contended: other processes were seen to write it, so it is read before it is
	// written, which costs less than a failed comparison.
	contended bool
	// unsure: a write of ours was not answered and may still be carried out,
	// until another one succeeds.
	unsure bool
	// wrote is when this process last wrote it; zero once no failover can take that back, see
	// prove.
	wrote  time.Time
	barred time.Time // the lock is not granted before this instant: it was rewound
	broken time.Time // it could not be decoded, and is read again after this instant
}

// knowledge is what the rest of a row is worth:
//
//	unread, refused --read, written--> known --turnedDown--> refused
//	                                   known --forget--> unread
type knowledge int

const (
	unread  knowledge = iota // it was not read yet, or not since a statement failed
	refused                  // a write was not carried out, and the row was not read since
	known
)

func (r *row) isKnown() bool { return r.state == known }

// shown is the queue as it was last seen.
func (r *row) shown() queue { return r.queue }

// isBarred reports whether the lock may not be granted, nor its row written, so that other
// processes that saw the newer version notice too.
func (r *row) isBarred() bool { return time.Now().Before(r.barred) }

// isUnsure reports whether a write of ours may still be carried out.
func (r *row) isUnsure() bool { return r.unsure }

// isSuspended reports whether the row could not be decoded or was rewound, a short while ago.
func (r *row) isSuspended() bool { return time.Now().Before(r.broken) || r.isBarred() }

// prove takes in that a reading which was sent then shows nothing that our writes took out. A failover
// takes back the newest writes. A session that is trusted has sent a heartbeat within the trust before
// the reading, and if that was after our last write, the write cannot be taken back any more without
// it; and without its heartbeat the session ends, with all its places.
func (r *row) prove(sent time.Time, trust time.Duration) {
	if sent.Sub(r.wrote) >= trust {
		r.wrote = time.Time{}
	}
}

func (r *row) isProven() bool { return r.wrote.IsZero() }

// mayBeProven reports whether a reading can prove our last write by now.
func (r *row) mayBeProven(trust time.Duration) bool {
	return !r.isProven() && time.Since(r.wrote) >= trust
}

// isForgettable reports whether nothing that is known of the row matters any more: our last write stays,
// and what was seen does not decide whether the lock may be granted, because it is not barred, and pruning
// may have deleted the row since.
func (r *row) isForgettable() bool { return r.isProven() && !r.isSuspended() && r.mayBeIdle() }

func (r *row) suspend(wait time.Duration) { r.broken = time.Now().Add(wait) }

// next is the least version that the next write may give the row.
func (r *row) next() uint64 { return max(r.version, r.floor) + 1 }

// write is the write of a queue over the row, which is known.
func (r *row) write(name string, version uint64, q queue) store.LockWrite {
	return store.LockWrite{Name: name, Expect: r.version, Version: version, Queue: q.encode()}
}

// sent notes that a write is about to be sent: whatever comes of it, its version is used up.
func (r *row) sent(w store.LockWrite) { r.floor = max(r.floor, w.Version) }

// edition differs after each update.
func (r *row) edition() uint64 { return r.news }

// pruned reports whether the row, which is missing, can have been deleted by pruning: it had no
// holders and waiters when this process last saw it, or that was long enough ago.
func (r *row) pruned(floor uint64) bool {
	return floor >= r.highest && (len(r.queue.Places) == 0 || r.mayBeIdle())
}

// mayBeIdle reports whether other processes may have left the row without holders and
// waiters for so long that it is deleted.
func (r *row) mayBeIdle() bool { return time.Since(r.seen) >= pruneIdle*9/10 }

// isOutdated reports whether reading the row first is quicker than a write that fails, also
// because the row may have been pruned since.
func (r *row) isOutdated() bool {
	return r.state != known || r.contended || r.version > 0 && len(r.queue.Places) == 0 && r.mayBeIdle()
}

// read takes in a reading. Back: a holder may still trust a place that this version
// lacks, so the lock is barred for as long as any may. Stuck: a write was refused although
// the row has the version that it expected. Floor is that of the database.
func (r *row) read(version uint64, q queue, floor uint64, ttl time.Duration) (back, stuck bool) {
	if back = version < r.highest && (version > 0 || !r.pruned(floor)); back {
		r.barred = time.Now().Add(ttl)
	}
	stuck = r.state == refused && version == r.version
	if r.state == known {
		r.contended = version != r.version
	}
	r.highest = version
	r.see(version, q)
	return back, stuck
}

// written takes in a write that was carried out.
func (r *row) written(w store.LockWrite, q queue) {
	r.unsure, r.wrote = false, time.Now()
	r.highest = w.Version
	r.see(w.Version, q)
}

func (r *row) see(version uint64, q queue) {
	r.state, r.version, r.queue, r.seen = known, version, q, time.Now()
	r.floor = max(r.floor, version)
	r.news++
}

// turnedDown notes that the row was not as a write expected.
func (r *row) turnedDown() {
	r.state, r.contended = refused, true
	r.news++
}

// forget notes that a statement with the row failed. Written: it may still be carried out.
func (r *row) forget(written bool) {
	if r.state == known {
		r.state = unread
	}
	r.unsure = r.unsure || written
}

// breakOff notes that the row cannot be decoded.
func (r *row) breakOff() {
	r.forget(false)
	r.news++
}
