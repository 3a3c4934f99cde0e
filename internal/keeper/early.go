package keeper

import (
	"context"
	"time"

	"github.com/cronlease/cronlease/internal/ctxerr"
	"github.com/cronlease/cronlease/store"
)

// Early lets a candidate take a lease whose time is not up. It is for work of
// which each start is claimed under the group's current token, and which is left
// alone for as long as [Held.PreviousStands] says where an earlier term has it.
type Early struct {
	// Left reports whether the leader of a term was connected to the server where it
	// acquired the lease, and is not any more. met: it was seen to be connected to
	// this one.
	Left func(ctx context.Context, token uint64, server string) (left, met bool)
	// Working reports whether the leader's work is known to go on. Taking the lease
	// would stop it if the leader lives.
	Working func(ctx context.Context) (bool, error)
}

// Early lets the candidate take leases early, by [Candidate.Suspect]. It is set
// before the first look.
func (c *Candidate) Early(e *Early) { c.early = e }

// suspected is a term whose leader may be gone, and the heartbeat that disproves
// it if another one follows.
type suspected struct {
	token, heartbeat uint64
	open             bool          // by the last look
	again            time.Duration // until the next one
}

// Suspect is a Look after the hand-over signal came: the leader may be gone. If its
// connection is gone, the candidate takes the lease: at once if nothing of the
// leader's work goes on, and else once its next heartbeat is overdue.
// [Candidate.Suspects] says that this is still open, and to call Suspect again when
// the wait is over.
//
// The leader may live all the same, and trust its term for as long as its last
// heartbeat stands. The row says nothing of that term any more, which has three
// consequences. Work of earlier terms is left alone until then
// ([Held.PreviousStands]). The replica that takes the lease next has to wait as long:
// so the acquire writes a TTL that is no shorter than the replaced row's. And until
// then the lease is not released, unless it is known that no such work is left.
//
// What work goes on is read from the database, so it must have everything that the
// term has written. A failover may have lost some of that: so only a term that was
// acquired on this very server is taken early, and whose leader was answered by no
// other one since ([Held.Answered]). When it was acquired, no work of earlier terms
// went on that this server lacks, by the same rules.
func (c *Candidate) Suspect(ctx context.Context) (*Held, time.Duration, error) {
	if c.early == nil {
		return c.Look(ctx)
	}
	if c.suspected == nil {
		c.suspected = &suspected{}
	}
	c.suspected.open = false
	return c.look(ctx)
}

// Suspects reports whether the last Suspect is still open.
func (c *Candidate) Suspects() bool {
	return c.suspected != nil && c.suspected.open
}

// sees takes in a reading of the row, which nothing may be taken from for as long as it is
// quarantined. The suspicion is open while the row shows the heartbeat that it began with.
func (s *suspected) sees(row *store.Lease, quarantined time.Duration) {
	known := row != nil && row.Owner != "" && quarantined <= 0
	if known && s.token == 0 {
		s.token, s.heartbeat = row.Token, row.Heartbeat
	}
	s.open = known && s.token == row.Token && s.heartbeat == row.Heartbeat
}

// earlier is how long it takes until the lease may be taken early, zero or less if
// that is now, and the wait if it may not.
func (c *Candidate) earlier(ctx context.Context, wait time.Duration) (time.Duration, error) {
	ctx, cancel := c.attempt(ctx)
	defer cancel()
	s, row, at := c.suspected, c.watch.last.Lease, c.keeper.now()
	if s.sees(row, c.watch.quarantinedFor(at)); !s.open {
		return c.until(wait), nil
	}
	// The signal can come a moment before the connection is seen to be gone.
	const moment = 200 * time.Millisecond
	s.again = max(2*s.again, 5*time.Millisecond)
	left, met := c.early.Left(ctx, row.Token, c.watch.last.Server)
	if !left {
		if s.open = met && s.again <= moment; !s.open {
			return c.until(wait), nil
		}
		return min(wait, s.again), nil
	}
	working, err := c.early.Working(ctx)
	if err != nil || !working {
		return 0, ctxerr.With(ctx, err)
	}
	// The heartbeat after it would be seen by then: its interval, as a share of the
	// TTL, is taken to be like this replica's, but no less than a third. That is the
	// default, unless Grace, which the leader may have another one of, takes much.
	timing := c.keeper.timing
	interval := time.Duration(max(1./3, float64(timing.RenewEvery)/float64(timing.TTL)) * float64(row.TTL))
	stood := row.TTL - c.watch.stands(at)
	return min(wait, interval+timing.AttemptTimeout-stood, s.again), nil
}
