package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Ten seconds before the clocks of Berlin change.
var (
	beforeAutumn = time.Date(2024, 10, 27, 0, 59, 50, 0, time.UTC)
	beforeSpring = time.Date(2024, 3, 31, 0, 59, 50, 0, time.UTC)
)

// across is the lease of a lock that is held while the clock changes.
const across = 15 * time.Second

// clocks is how a session comes to live at an instant. A clock that is set
// stands still; a way that refuses that gets the real time with the offset from
// UTC that Berlin has at the instant, and so the same change of the local time.
func (t *trial) clocks(instant time.Time) []change {
	if !t.kind.realTime {
		return at(instant)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		return at(instant) // the server has its own tables
	}
	return []change{set("time_zone", instant.In(berlin).Format("'-07:00'"))}
}

// at has each connection live at that instant, in Berlin.
func at(instant time.Time) []change {
	return []change{set("time_zone", "'Europe/Berlin'"), set("timestamp", strconv.FormatInt(instant.Unix(), 10))}
}

// lived is the lease that goes with it: real time has to pass for a real one.
func (t *trial) lived() time.Duration {
	if t.kind.realTime {
		return short
	}
	return across
}

// autumn lets a holder die in the last summer-time seconds, and looks when the
// lock is free by a clock that is stepped from instant to instant.
func autumn(ctx context.Context, t *trial) (outcome, error) {
	holder, err := t.start(t.lived(), t.clocks(beforeAutumn)...)
	if err != nil {
		return outcome{}, err
	}
	if err := holder.do(ctx, "hold"); err != nil {
		return outcome{}, zone(err)
	}
	holder.kill()
	after := across + time.Second
	w, err := t.open(t.lived(), t.clocks(beforeAutumn.Add(after))...)
	if err != nil {
		return outcome{}, err
	}
	next, err := within(ctx, watch, func(ctx context.Context) (Held, error) { return w.Lock(ctx, t.key) })
	if err != nil {
		return outcome{}, zone(err)
	}
	if next.held != nil {
		return outcome{false, fmt.Sprintf("free after %s, though the local time went back an hour", round(next.took))},
			next.held.Unlock(ctx)
	}
	const step = 15 * time.Second
	for ; after < 3*time.Hour; after += step {
		free, err := t.freeAt(ctx, beforeAutumn.Add(after))
		if err != nil {
			return outcome{}, err
		}
		if free {
			return outcome{true, fmt.Sprintf("a lease of %s lasted between %s and %s", across, after-step, after)}, nil
		}
	}
	return outcome{true, fmt.Sprintf("a lease of %s was still there after %s", across, after)}, nil
}

// freeAt reports whether the lock can be acquired at an instant.
func (t *trial) freeAt(ctx context.Context, instant time.Time) (_ bool, err error) {
	mark := len(t.ends)
	w, err := t.open(across, t.clocks(instant)...)
	if err != nil {
		return false, err
	}
	defer func() { // each look has a connection of its own
		for _, end := range t.ends[mark:] {
			err = errors.Join(err, end(ctx))
		}
		t.ends = t.ends[:mark]
	}()
	once, ok := w.(trier)
	if !ok {
		return false, fmt.Errorf("%s cannot look once", w.Name())
	}
	held, err := once.TryLock(ctx, t.key)
	if errors.Is(err, errTaken) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, held.Unlock(ctx)
}

// spring has a holder at work when an hour is left out.
func spring(ctx context.Context, t *trial) (outcome, error) {
	w, err := t.open(t.lived(), t.clocks(beforeSpring)...)
	if err != nil {
		return outcome{}, err
	}
	mine, err := w.Lock(ctx, t.key)
	if err != nil {
		return outcome{}, zone(err)
	}
	const after = 11 * time.Second // the clock has changed, the lease has not ended
	next, err := t.open(t.lived(), t.clocks(beforeSpring.Add(after))...)
	if err != nil {
		return outcome{}, err
	}
	other, err := within(ctx, glance, func(ctx context.Context) (Held, error) { return next.Lock(ctx, t.key) })
	if err != nil {
		return outcome{}, err
	}
	if other.held == nil {
		return outcome{false, fmt.Sprintf("it was kept for it: no other client got it in %s", round(other.took))}, mine.Unlock(ctx)
	}
	return outcome{true, fmt.Sprintf("two at once: a lease of %s had ended after %s", across, after)},
		errors.Join(mine.Unlock(ctx), other.held.Unlock(ctx))
}

// zone says what to do about a server without time zones.
func zone(err error) error {
	if isError(err, unknownZone) {
		return fmt.Errorf("%w: load the server's time zone tables (mysql_tzinfo_to_sql /usr/share/zoneinfo)", err)
	}
	return err
}
