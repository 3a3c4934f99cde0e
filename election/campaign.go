package election

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/event"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// campaign is one Run of an Election. One goroutine owns it.
type campaign struct {
	*Election
	run      func(context.Context, Term) error
	handover *handover
	trouble  *keeper.Trouble
	helpers  *sync.WaitGroup // of the Run
	checked  bool            // the database was found fit
	waits    bool            // it was logged what this replica waits for
}

// loop looks, waits and leads until ctx ends.
func (c *campaign) loop(ctx context.Context) error {
	// While the database is away it is tried often, so that its return is
	// noticed well within the second that the guarantee leaves.
	failed := retry.Forever(min(c.timing.TTL/30, 200*time.Millisecond), min(c.timing.TTL/5, 400*time.Millisecond))
	standBack := retry.Forever(c.timing.TTL/10, c.timing.TTL)
	c.handover.start() // so that it is in line by the time that it follows
	for ctx.Err() == nil {
		c.expect(0)
		if err := c.check(ctx); err != nil {
			if keeper.Ends(err) {
				return err
			}
			c.handover.passIdle()
			c.await(ctx, failed.NextBackOff())
			continue
		}
		if late := c.beatsLate(); late > 0 {
			// It could take the lease, but not keep it.
			c.trouble.Failed("heartbeat", fmt.Errorf("no heartbeat was sent for %v", late.Round(time.Second)))
			c.handover.passIdle()
			c.await(ctx, c.timing.TTL/5)
			continue
		}
		held, wait, err := c.look(ctx)
		switch {
		case held != nil && ctx.Err() != nil: // stopped in the middle of it
			if err := held.Release(ctx); err != nil {
				c.log.Warn("the lease is left to expire", zap.Error(err))
			}
		case held != nil:
			c.trouble.Ended("check of the database") // it is asked again once this replica does not lead
			c.trouble.Worked("look at the lease of " + c.group)
			failed.Reset()
			c.setBarred(nil)
			began := time.Now()
			cause, err := c.lead(ctx, held)
			if err != nil {
				return err
			}
			switch {
			case errors.Is(cause, ErrResigned), errors.Is(cause, ErrStuck):
				c.standBack(ctx, c.timing.TTL, held.Token())
			case errors.Is(cause, ErrLost):
				// Perhaps only this replica cannot keep the lease: let the
				// followers go first.
				c.standBack(ctx, min(c.timing.TTL/30, 250*time.Millisecond), held.Token())
			case errors.Is(cause, errReturned):
				if time.Since(began) > c.timing.TTL {
					standBack.Reset()
				}
				// Not only until another one has led: that one's leading function may fail as fast.
				c.standBack(ctx, standBack.NextBackOff(), math.MaxUint64)
			}
		case err != nil && ctx.Err() == nil:
			c.trouble.Failed("look at the lease of "+c.group, err)
			c.handover.passIdle()
			c.await(ctx, failed.NextBackOff())
		case err == nil:
			// A server that takes no writes answers readings: between two attempts to
			// take the lease of a leader that is gone, too.
			if !c.candidate.Refused() {
				c.trouble.Worked("look at the lease of " + c.group)
				failed.Reset()
			}
			c.follow(wait)
			if !c.candidate.Suspects() {
				if c.handover.has { // the leader lives
					c.handover.seen = present{}
				}
				c.handover.passIdle()
				c.appear(ctx)
				wait = c.meet(ctx, wait)
			}
			c.await(ctx, wait)
		}
	}
	c.trouble.Ended("check of the database")
	c.trouble.Ended("look at the lease of " + c.group)
	c.handover.pass()
	c.become(State{})
	return nil
}

// look looks at the lease. When the signal has come, its leader has released it, or
// may be gone: then the lease is taken without a look first, if it was released.
func (c *campaign) look(ctx context.Context) (*keeper.Held, time.Duration, error) {
	if !c.handover.has {
		return c.candidate.Look(ctx)
	}
	if c.handover.fresh {
		c.handover.fresh = false
		if signal := c.handover.direct(); signal != nil {
			if held, err := c.candidate.Take(ctx, signal); held != nil || err != nil {
				return held, 0, err
			}
		}
	}
	return c.candidate.Suspect(ctx)
}

// check asks once whether the database is fit, and again before each look until
// it has answered. It returns an error that ends the campaign (keeper.Ends), or
// one that keeps this replica from leading for now. A database that cannot be
// asked does not keep a replica from campaigning.
func (c *campaign) check(ctx context.Context) error {
	checker, ok := c.store.(store.Checker)
	if !ok || c.checked {
		return nil
	}
	attempt, cancel := context.WithTimeout(ctx, c.timing.AttemptTimeout)
	defer cancel()
	err := checker.Check(attempt)
	if err == nil {
		c.trouble.Worked("check of the database")
		c.checked = true
		return nil
	}
	if ctx.Err() == nil && !keeper.Ends(err) {
		c.trouble.Failed("check of the database", err)
	}
	if errors.Is(err, lease.ErrSetup) {
		return err
	}
	return nil
}

// appear shows that this replica could lead, or that it could not.
func (c *campaign) appear(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timing.AttemptTimeout)
	defer cancel()
	if c.candidate.Barred() != nil {
		c.handover.hide(ctx)
		return
	}
	c.handover.appear(ctx, c.keeper.Owner())
}

// announce shows that the leader is connected.
func (c *campaign) announce(ctx context.Context, held *keeper.Held) {
	ctx, cancel := context.WithTimeout(ctx, c.timing.AttemptTimeout)
	defer cancel()
	c.handover.announce(ctx, held.Token(), held.Server())
}

// meet notes whether the leader is connected, for when it is not any more. It returns after what time to look again: a
// leader shows that it is connected once it has the lease, and replicas that start with it may look before that.
func (c *campaign) meet(ctx context.Context, wait time.Duration) time.Duration {
	if c.working == nil {
		return wait
	}
	ctx, cancel := context.WithTimeout(ctx, c.timing.AttemptTimeout)
	defer cancel()
	if n := c.handover.meet(ctx, *c.candidate.Reading()); n > 0 && n <= 3 {
		return min(wait, c.timing.TTL/30<<n) // after 1, 3 and 7 s, by the default TTL
	}
	return wait
}

// follow records the present leader.
func (c *campaign) follow(wait time.Duration) {
	c.setBarred(c.candidate.Barred())
	s := State{}
	if r := c.candidate.Reading(); r.Lease != nil && r.Lease.Owner != "" && !r.Lease.Released {
		s.Owner, s.Token = r.Lease.Owner, r.Lease.Token
		age := c.candidate.HeartbeatAge()
		c.see(true, age, r.Lease.TTL)
		if !c.waits { // perhaps its holder was killed, and nothing else happens for a TTL
			c.waits = true
			c.log.Info("the lease is held: this replica leads once it is released, or has expired without another heartbeat",
				zap.String("leader", s.Owner), zap.Uint64("leader_token", s.Token), zap.Time("expires", time.Now().Add(r.Lease.TTL-age)))
		}
	} else {
		c.see(false, 0, 0)
	}
	c.answered()
	c.log.Debug("following", zap.String("leader", s.Owner), zap.Uint64("leader_token", s.Token), zap.Duration("look", wait))
	c.become(s)
}

// await returns when it is time to look again, when the hand-over signal comes or
// breaks, or when ctx ends.
func (c *campaign) await(ctx context.Context, wait time.Duration) {
	c.expect(wait)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-c.handover.lost:
			return
		case <-c.ask:
			return
		case <-c.handover.ready():
			c.handover.start()
		case <-c.handover.came:
			c.handover.got()
			return
		}
	}
}

// letPass waits, and passes the hand-over signal on.
func (c *campaign) letPass(ctx context.Context, wait time.Duration) {
	c.expect(wait)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-c.handover.came:
			c.handover.got()
			c.handover.pass()
		}
	}
}

// standBack lets others go first, until one has led after that term, or for so long. It looks at the lease meanwhile, and follows
// the next leader.
func (c *campaign) standBack(ctx context.Context, most time.Duration, term uint64) {
	c.log.Info("standing back", zap.Duration("for_at_most", most))
	over := time.Now().Add(most)
	looks := retry.Forever(c.timing.TTL/1500, c.timing.TTL/3)
	for ctx.Err() == nil && time.Now().Before(over) {
		next := min(looks.NextBackOff(), time.Until(over))
		c.letPass(ctx, next)
		if err := c.candidate.Watch(ctx); err != nil {
			if ctx.Err() == nil {
				c.trouble.Failed("look at the lease of "+c.group, err)
			}
			continue
		}
		c.trouble.Worked("look at the lease of " + c.group)
		c.answered() // the gate goes by the server of the look before
		row := c.candidate.Reading().Lease
		if row != nil && row.Token > term {
			return
		}
		if row == nil || row.Owner != c.keeper.Owner() {
			c.follow(next)
		}
	}
}

// lead runs one term, from the acquire to the release, and returns why it
// ended. An error ends the campaign.
func (c *campaign) lead(ctx context.Context, held *keeper.Held) (cause, err error) {
	term := Term{held}
	log := c.log.With(zap.Uint64("token", held.Token()))
	select { // a request to resign an earlier term
	case <-c.resign:
	default:
	}
	c.answered()
	c.see(true, 0, c.timing.TTL)
	leading := State{Role: Leading, Owner: held.Owner(), Token: held.Token()}
	c.become(leading)
	leaving := leading // before the term can end
	// Whichever comes first: this function may be blocked in the log.
	drains := sync.OnceFunc(func() {
		c.expect(0) // for the watchdog, from here on
		c.see(false, 0, 0)
		c.hasLeft()
		leading.Role, leading.Cause = Draining, context.Cause(held.Context())
		c.become(leading)
	})
	defer context.AfterFunc(held.Context(), drains)()
	// A blocked log must not keep the term from ending. What other replicas need
	// is done before each line is logged.
	c.helpers.Go(func() { c.endByWish(ctx, held, leaving) })

	returned := make(chan error, 1)
	c.work(workBegins)
	go func() {
		err := errExited
		defer func() {
			c.work(workEnds)
			returned <- err
		}()
		err = c.run(keeper.WithHeld(lease.WithHold(held.Context(), held.Hold()), held), term)
	}()
	if !c.heeds {
		c.helpers.Go(func() { held.Heed(held.Context(), nil, nil) })
	}
	began := time.Now()
	c.stream.Emit(event.Leading{Header: c.head(held.Token()), Early: held.PreviousStands() > 0, Before: held.Previous().Token})
	finished := c.reign(context.WithoutCancel(ctx), held, returned)
	cause = context.Cause(held.Context())
	drains()
	c.stream.Emit(event.TermEnded{
		Header: c.head(held.Token()), Cause: cause, Lost: errors.Is(cause, ErrLost) || errors.Is(cause, ErrStuck), Led: time.Since(began),
	})

	if !finished {
		if err := c.drain(ctx, held, returned, log); err != nil {
			return cause, err
		}
	}
	// Only now: nothing of the term runs any more.
	c.expect(keeper.ReleaseTries * c.timing.AttemptTimeout)
	if err := held.HandOver(ctx, c.handover.direct()); err != nil {
		log.Warn("the lease is left to expire", zap.Error(err))
	}
	c.handover.pass()
	if ctx.Err() == nil {
		c.appear(ctx)
	}
	c.expect(0)
	c.see(false, 0, 0)
	c.become(State{Cause: cause})
	return cause, nil
}

// endByWish ends the term when this replica is stopped, or asked to resign: as soon as
// the leading function is willing to let it end.
func (c *campaign) endByWish(ctx context.Context, held *keeper.Held, leaving State) {
	var cause error
	select {
	case <-ctx.Done():
		cause = ErrStopped
	case <-c.resign:
		cause = ErrResigned
		c.stream.Emit(event.Control{Header: c.head(held.Token()), Action: event.ResignAsked})
	case <-held.ResignAsked():
		cause = ErrResigned
		c.stream.Emit(event.Control{Header: c.head(held.Token()), Action: event.ResignAsked})
	case <-held.Context().Done():
		return
	}
	if c.leave != nil {
		leaving.Role, leaving.Cause = Draining, cause
		c.becomeLeaving(held.Context(), leaving)
		c.leave(held.Context(), cause)
	}
	held.End(cause)
}

// reign waits for the end of a term. It reports whether the leading function has
// returned. The replica goes on to lead while endByWish waits.
func (c *campaign) reign(ctx context.Context, held *keeper.Held, returned <-chan error) bool {
	c.expect(untilAsked) // it has nothing to do but to wait
	moved := held.Moved()
	c.announce(ctx, held)
	c.handover.start()
	// The signal depends on a connection, which can die unnoticed. While it is lost, the
	// leader's death is noticed late, and it can be taken for dead.
	check := time.NewTicker(min(c.timing.RenewEvery, 15*time.Second))
	defer check.Stop()
	for {
		select {
		case err := <-returned:
			if err != nil && held.Context().Err() == nil {
				c.log.Warn("the leading function failed", zap.Error(err))
			}
			held.End(errReturned)
			return true
		case <-held.Context().Done():
			return false
		case <-c.handover.came:
			c.handover.got()
		case <-moved:
			moved = nil
			c.announce(ctx, held)
		case <-check.C:
			c.handover.has = false
			c.announce(ctx, held)
			c.handover.start()
		}
	}
}

// drain waits until the leading function has returned: for a TTL or a little more while the
// lease is kept, and then, with the lease left to expire, for as long as it
// takes, or until ctx ends.
func (c *campaign) drain(ctx context.Context, held *keeper.Held, returned <-chan error, log *zap.Logger) error {
	timer := time.NewTimer(c.stopsWithin())
	defer timer.Stop()
	select {
	case <-returned:
		return nil
	case <-timer.C:
	}
	held.Abandon()
	c.handover.pass() // the next leader needs it
	log.Error("the leading function ignores its context: the lease is left to expire, and this replica does not campaign while it runs")
	for {
		select {
		case <-returned:
			return nil
		case <-c.handover.came:
			c.handover.got()
			c.handover.pass()
		case <-ctx.Done():
			select {
			case <-returned:
				return nil
			default:
				return ErrStillLeading
			}
		}
	}
}
