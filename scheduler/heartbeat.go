package scheduler

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cronlease/cronlease/internal/clocks"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/scheduler/internal/tickclock"
	"github.com/cronlease/cronlease/store"
)

// beats is what the heartbeats of a term and its reader tell each other.
type beats struct {
	newest     chan heard    // capacity 1: the newest heartbeat that looked at the ledger
	known      atomic.Uint64 // the changes of the ledger, as it was read last
	listening  atomic.Bool   // the reader runs
	plainUntil time.Time     // heartbeats only renew until then. The keeper's goroutine owns it
}

// heard is what a heartbeat said of the ledger, or what another answer says as one would.
type heard struct {
	store.Beat
	skew lease.Skew
	at   time.Time // by the monotonic clock
}

// hear is what an answer says that has just come, to what was sent at that instant.
func hear(c *tickclock.Clock, sent clocks.Instant, b store.Beat) heard {
	now := c.Own()
	return heard{b, keeper.SkewOf(b.Now, sent, now), now.Mono}
}

// renew sends the heartbeats of this replica. That of an open term looks at the ledger
// too. When that fails, a table of the ledger may be locked: the heartbeats then only
// renew, for a while, and the term looks by statements of its own.
func (s *Scheduler) renew(ctx context.Context, r store.Renew) (int, error) {
	db, ok := s.db.(store.Heartbeats)
	v := s.current.Load()
	if !ok || v == nil || !v.beats.listening.Load() || len(r.Leases) != 1 || r.Leases[0].Token != v.holder.Token || v.ctx.Err() != nil {
		return s.db.Renew(ctx, r)
	}
	sent := s.clock.Own()
	if sent.Mono.Before(v.beats.plainUntil) {
		return s.db.Renew(ctx, r)
	}
	beat, err := db.Beat(ctx, r.Owner, r.Heartbeat, r.Leases[0], v.beats.known.Load())
	if err != nil {
		v.beats.plainUntil = sent.Mono.Add(4 * v.timing.TTL)
		return 0, err
	}
	if !beat.Renewed {
		return 0, nil
	}
	b := hear(s.clock, sent, beat)
	select {
	case <-v.beats.newest: // out of date
	default:
	}
	v.beats.newest <- b
	return 1, nil
}
