package lease

import "time"

// watch is a follower's judgement of one group's lease: how old the heartbeat
// in its row is at least, and so from when on it may be taken. It counts with
// the follower's own monotonic clock and trusts the database's clock only as
// far as the two were seen to agree, so that a database clock which is stepped
// elects nobody early and delays nobody.
//
// It is pure state: each method takes the instants it needs. One goroutine
// owns it.
type watch struct {
	ttl time.Duration // this replica's own

	last    *Reading // the newest reading
	replied instant  // when it was answered
	age     time.Duration
	// quarantine is how long after replied nothing may be taken, whatever the
	// row says: the server changed, or the row is behind what was seen.
	quarantine time.Duration
	// highToken and highBeat are the newest row ever seen.
	highToken, highBeat uint64
}

// observe takes in a reading, with the instants before it was sent and after it
// was answered.
func (w *watch) observe(r Reading, sent, replied instant) {
	previous, before := w.last, w.replied
	sinceLast := time.Duration(0)
	if previous != nil {
		sinceLast = replied.atLeast(before)
	}
	w.last, w.replied = &r, replied
	w.quarantine = max(0, w.quarantine-sinceLast)

	var row Lease // an absent row is the oldest of all
	if r.Lease != nil {
		row = *r.Lease
	}
	wait := max(w.ttl, row.TTL)
	otherServer := previous != nil && previous.Server != r.Server
	if otherServer {
		// Whatever the other server shows may lack what this one's holder
		// wrote last; a holder trusts that for a TTL at most.
		w.quarantine = wait
	}

	if !otherServer && previous != nil && sameRow(previous.Lease, r.Lease) {
		w.age += sinceLast
		return
	}
	// The row is new to this follower.
	if row.Token < w.highToken || row.Token == w.highToken && row.Heartbeat < w.highBeat {
		// Rewound, deleted or restored: somebody newer may still trust a row
		// that is gone.
		w.quarantine = max(w.quarantine, wait)
	}
	w.saw(row.Token, row.Heartbeat)
	w.age = 0
	if previous == nil || otherServer || r.Lease == nil {
		return // nothing to compare the database's clock with
	}
	// This heartbeat was written after the previous reading. It is as old as
	// the database says, less what its clock may have gained on ours since
	// then: between that reading's reply and this one's sending. What it lost
	// is never added.
	gained := r.Now.Sub(previous.Now) - sent.atLeast(before)
	w.age = max(0, r.Now.Sub(row.RenewedAt)-max(0, gained))
}

// saw raises the newest row ever seen: also by this replica's own terms, which
// no reading may have shown.
func (w *watch) saw(token, heartbeat uint64) {
	if token > w.highToken {
		w.highToken, w.highBeat = token, 0
	}
	if token == w.highToken {
		w.highBeat = max(w.highBeat, heartbeat)
	}
}

// takeableIn is how long after at the lease may be taken, by what the last
// reading showed; zero or less is now.
func (w *watch) takeableIn(at instant) time.Duration {
	since := at.atLeast(w.replied)
	left := w.quarantine - since
	if l := w.last.Lease; l != nil && !l.Released {
		left = max(left, l.TTL-w.age-since)
	}
	return left
}

// sameRow reports whether two readings show one renewal of one term. The
// release of a term is not news that makes it younger.
func sameRow(a, b *Lease) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Token == b.Token && a.Heartbeat == b.Heartbeat
}
