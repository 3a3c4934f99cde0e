package keeper

import (
	"time"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// watch is a follower's judgement of one group's lease: how old the heartbeat
// in its row is at least, and so from when on it may be taken. It counts with
// the follower's own monotonic clock and trusts the database's clock only as
// far as the two were seen to agree, so that a step of the database's clock
// neither lets a replica take the lease early nor delays a takeover.
//
// It is pure state: each method takes the instants it needs. One goroutine
// owns it.
type watch struct {
	ttl   time.Duration // this replica's own
	drift float64       // by which the rates of two clocks may differ

	last    *store.Reading // the newest reading
	replied instant        // when it was answered
	age     time.Duration
	// quarantine is how long after replied nothing may be taken, whatever the
	// row says: the server changed, or the row is behind what was seen.
	quarantine time.Duration
	// highToken and highBeat are the newest row ever seen, and highTTL is what
	// its holder may trust it for.
	highToken, highBeat uint64
	highTTL             time.Duration
	behind              bool // the last reading was behind what had been seen then
	rewound             bool // the last reading was the first to show that
}

// observe takes in a reading, with the instants before it was sent and after it
// was answered.
func (w *watch) observe(r store.Reading, sent, replied instant) {
	if r.Lease != nil {
		// No replica has a longer TTL, so no holder trusts the row for longer. A
		// longer one that another program wrote must neither keep all replicas out
		// for years nor be remembered.
		l := *r.Lease
		l.TTL = min(max(l.TTL, 0), lease.MaxTTL)
		r.Lease = &l
	}
	previous, before := w.last, w.replied
	sinceLast := time.Duration(0)
	if previous != nil {
		sinceLast = replied.atLeast(before)
	}
	w.last, w.replied = &r, replied
	w.quarantine = max(0, w.quarantine-sinceLast)

	var row store.Lease // an absent row is the oldest of all
	if r.Lease != nil {
		row = *r.Lease
	}
	wait := max(w.ttl, row.TTL, w.highTTL)
	otherServer := previous != nil && previous.Server != r.Server
	if otherServer {
		// Whatever the other server shows may lack what this one's holder
		// wrote last; a holder trusts that for a TTL at most.
		w.quarantine = wait
	}

	if r.Fence != nil {
		// The two rows are written together: a lease that is behind its fence
		// was rewound, also when this is the first reading.
		w.saw(r.Fence.Token, 0, row.TTL)
	}
	same := !otherServer && previous != nil && sameRow(previous.Lease, r.Lease)
	behind := row.Token < w.highToken || row.Token == w.highToken && row.Heartbeat < w.highBeat
	w.rewound = behind && (!same || !w.behind)
	if w.rewound {
		// Rewound, deleted or restored: a newer holder may still trust a row
		// that is gone.
		w.quarantine = max(w.quarantine, wait)
	}
	w.behind = behind
	if same {
		w.age += sinceLast
		return
	}
	// The row is new to this follower.
	w.saw(row.Token, row.Heartbeat, row.TTL)
	w.age = 0
	between := time.Duration(0) // the least between the two readings
	if previous != nil {
		between = sent.atLeast(before)
	}
	if previous == nil || otherServer || r.Lease == nil || between > 2*wait {
		return // nothing to compare the database's clock with, or not lately
	}
	// This heartbeat was written after the previous reading. It is as old as
	// the database says, less what its clock may have gained on ours since
	// then: between that reading's reply and this one's sending. What it lost
	// is never added. Whichever way the clock was stepped, before the heartbeat
	// or after it, one of the first two holds. The third is for a statement
	// that waited in the server: it carries the time at which it began, which
	// may lie before the previous reading, and before a step that no two
	// readings show.
	age := r.Now.Sub(row.RenewedAt)
	gained := r.Now.Sub(previous.Now) - w.slowed(between)
	w.age = max(0, min(w.slowed(age), age-gained, between))
}

// slowed is the least that a clock shows while another shows d.
func (w *watch) slowed(d time.Duration) time.Duration {
	return d - time.Duration(float64(d)*w.drift)
}

// saw raises the newest row ever seen: also by this replica's own terms, which
// no reading may have shown.
func (w *watch) saw(token, heartbeat uint64, ttl time.Duration) {
	if token > w.highToken {
		w.highToken, w.highBeat, w.highTTL = token, 0, 0
		w.behind = false // by what is known now, that is another question
	}
	if token == w.highToken {
		w.highBeat = max(w.highBeat, heartbeat)
		w.highTTL = max(w.highTTL, ttl)
	}
}

// takeableIn is how long after at the lease may be taken, by what the last
// reading showed; zero or less is now.
func (w *watch) takeableIn(at instant) time.Duration {
	return max(w.quarantinedFor(at), w.stands(at))
}

// stands is how long after at the heartbeat in the row, as the last reading showed
// it, may still be trusted by its holder. A released lease is not trusted.
func (w *watch) stands(at instant) time.Duration {
	if l := w.last.Lease; l != nil && !l.Released {
		return l.TTL - w.age - at.atLeast(w.replied)
	}
	return 0
}

// quarantinedFor is how long after at nothing may be taken, or given up.
func (w *watch) quarantinedFor(at instant) time.Duration {
	return w.quarantine - at.atLeast(w.replied)
}

// sameRow reports whether two readings show one renewal of one term. The
// release of a term is not news that makes it younger, and neither is a row
// that was prepared for a group that had none.
func sameRow(a, b *store.Lease) bool {
	if a == nil {
		a = &store.Lease{}
	}
	if b == nil {
		b = &store.Lease{}
	}
	return a.Token == b.Token && a.Heartbeat == b.Heartbeat
}
