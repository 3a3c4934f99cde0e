package main

import (
	"context"
	"errors"
	"fmt"
)

// overrun has work that takes longer than the lease, and is alive and well.
func overrun(ctx context.Context, t *trial) (outcome, error) {
	db, err := t.pool()
	if err != nil {
		return outcome{}, err
	}
	first, err := t.openOn(db, short)
	if err != nil {
		return outcome{}, err
	}
	mine, err := hold(ctx, first, t.key)
	if err != nil {
		return outcome{}, err
	}
	second, err := t.open(long)
	if err != nil {
		return outcome{}, err
	}
	other, err := maintained(ctx, first, func() (attempt, error) {
		return within(ctx, watch, func(ctx context.Context) (Held, error) { return second.Lock(ctx, t.key) })
	})
	if err != nil {
		return outcome{}, err
	}
	accepted, err := act(ctx, db, mine)
	if err != nil {
		return outcome{}, err
	}
	if other.held == nil {
		return outcome{!accepted, fmt.Sprintf("it was kept for it: no other client got it in %s", round(other.took))}, mine.Unlock(ctx)
	}
	o := outcome{accepted, fmt.Sprintf("two at once after %s: the first was told nothing, and its write accepted", round(other.took))}
	if !accepted {
		o.happened = fmt.Sprintf("another client got it after %s, and the first was told", round(other.took))
	}
	return o, errors.Join(mine.Unlock(ctx), other.held.Unlock(ctx))
}

// stolen continues overrun: the first holder releases the lock, which the second one
// holds by now, and a third one gets in.
func stolen(ctx context.Context, t *trial) (outcome, error) {
	first, err := t.open(short)
	if err != nil {
		return outcome{}, err
	}
	mine, err := hold(ctx, first, t.key)
	if err != nil {
		return outcome{}, err
	}
	second, err := t.open(long)
	if err != nil {
		return outcome{}, err
	}
	if err := freed(ctx, first); err != nil {
		return outcome{}, err
	}
	other, err := within(ctx, watch, func(ctx context.Context) (Held, error) { return hold(ctx, second, t.key) })
	if err != nil {
		return outcome{}, err
	}
	if other.held == nil {
		return outcome{false, "there was no second one in " + round(other.took)}, mine.Unlock(ctx)
	}
	if err := mine.Unlock(ctx); err != nil {
		return outcome{}, err
	}
	third, err := within(ctx, glance, func(ctx context.Context) (Held, error) { return second.Lock(ctx, t.key) })
	if err != nil {
		return outcome{}, err
	}
	o := outcome{false, "the second one kept it"}
	if third.held != nil {
		o = outcome{true, fmt.Sprintf("that freed the second one's lock: a third one got it after %s", round(third.took))}
		err = third.held.Unlock(ctx)
	}
	return o, errors.Join(err, other.held.Unlock(ctx))
}

// freed returns when the way's task has freed a lock; at once if it has none.
func freed(ctx context.Context, w Way) error {
	m, ok := w.(maintainer)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		n, err := m.Maintain(ctx)
		if err != nil || n > 0 {
			return err
		}
		if err := wait(ctx, pollEvery); err != nil {
			return fmt.Errorf("the task freed nothing: %w", err)
		}
	}
}
