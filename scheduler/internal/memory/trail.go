package memory

import (
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// Mark is a tick and when it was known to be in the ledger, by this machine's
// monotonic clock. row is when its row was claimed, by the database's, as the answer to
// a claim tells. The row keeps that instant until it is pruned, even where it moves on to
// later ticks ([store.Claim.Extends]). A reading tells the newest tick alone: then row is
// zero, and all that the tick shows is that the newest one is not earlier.
type Mark struct {
	Tick time.Time
	at   time.Time
	row  time.Time
}

// IsAmong reports whether the row is among the records of its job.
func (k Mark) IsAmong(records []jobs.Record) bool {
	return slices.ContainsFunc(records, func(r jobs.Record) bool { return r.Claimed.Equal(k.row) })
}

// IsReplaced reports whether the tick has another row among the records of its job: it was decided about again.
func (k Mark) IsReplaced(records []jobs.Record) bool {
	return !k.IsAmong(records) && slices.ContainsFunc(records, func(r jobs.Record) bool { return r.Trigger == 0 && r.Tick.Equal(k.Tick) })
}

// trail is ticks of a job that were in the ledger.
type trail struct {
	since  time.Time // [jobs.Known.Since]: a job that was made again has another one
	newest Mark
	// far are the newest marks that are at least apart, which is a bound and a TTL, oldest first: at most three. So one
	// of the first two was there a bound before the last contact, also where a leader has claimed ticks until its next
	// heartbeat without one.
	far   []Mark
	apart time.Duration
}

func newTrail(since time.Time, apart time.Duration) trail { return trail{since: since, apart: apart} }

// add takes in the newest tick, and reports whether it is later than the one before.
func (r *trail) add(next Mark) bool {
	if !next.Tick.After(r.newest.Tick) {
		return false
	}
	r.newest = next
	if n := len(r.far); n == 0 || next.at.Sub(r.far[n-1].at) >= r.apart {
		r.far = append(r.far, next)
		r.far = slices.Delete(r.far, 0, max(0, len(r.far)-3))
	}
	return true
}

// keep forgets all but the marks that are to be kept, and reports whether there are any.
func (r *trail) keep(keeps func(Mark) bool) bool {
	r.far = slices.DeleteFunc(r.far, func(k Mark) bool { return !keeps(k) })
	if !keeps(r.newest) {
		if len(r.far) == 0 {
			return false
		}
		r.newest = r.far[len(r.far)-1]
	}
	return true
}

// all are the marks, in no order, some of them twice.
func (r *trail) all() []Mark { return append(slices.Clone(r.far), r.newest) }
