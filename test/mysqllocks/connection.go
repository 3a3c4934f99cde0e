package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
)

// foundRows connects as many object mappers do: an affected row is one that was
// found, and not one that was changed.
func foundRows(ctx context.Context, t *trial) (outcome, error) {
	found := func(c *mysql.Config) { c.ClientFoundRows = true }
	first, err := t.open(long, found)
	if err != nil {
		return outcome{}, err
	}
	mine, err := first.Lock(ctx, t.key)
	if err != nil {
		return outcome{}, err
	}
	second, err := t.open(long, found)
	if err != nil {
		return outcome{}, err
	}
	other, err := within(ctx, glance, func(ctx context.Context) (Held, error) { return second.Lock(ctx, t.key) })
	if err != nil {
		return outcome{}, err
	}
	if other.held == nil {
		return outcome{false, "no other client got it in " + round(other.took)}, mine.Unlock(ctx)
	}
	return outcome{true, "two at once: a row that was left alone counts as 1, like one that was inserted"},
		errors.Join(mine.Unlock(ctx), other.held.Unlock(ctx))
}

// pinned holds as many locks as the pool has connections, and then wants to
// work.
func pinned(ctx context.Context, t *trial) (outcome, error) {
	const size = 16
	db, err := t.pool()
	if err != nil {
		return outcome{}, err
	}
	db.SetMaxOpenConns(size)
	w, err := t.openOn(db, long)
	if err != nil {
		return outcome{}, err
	}
	var all []Held
	for i := range size {
		held, err := w.Lock(ctx, fmt.Sprintf("%s:%d", t.key, i))
		if err != nil {
			return outcome{}, err
		}
		all = append(all, held)
	}
	inUse := db.Stats().InUse
	soon, cancel := context.WithTimeout(ctx, glance)
	defer cancel()
	begin := time.Now()
	_, worked := db.ExecContext(soon, "UPDATE work SET writes = writes + 1 WHERE id = 0")
	took := round(time.Since(begin))
	var errs []error
	for _, held := range all {
		errs = append(errs, held.Unlock(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return outcome{}, err
	}
	if errors.Is(worked, context.DeadlineExceeded) {
		return outcome{true, fmt.Sprintf("%d connections in use; the work under the locks got none in %s", inUse, took)}, ctx.Err()
	}
	return outcome{false, fmt.Sprintf("%d connections in use; the work got one at once", inUse)}, worked
}

// cut ends the holder's connections.
func cut(ctx context.Context, t *trial) (outcome, error) {
	db, err := t.pool()
	if err != nil {
		return outcome{}, err
	}
	w, err := t.openOn(db, short)
	if err != nil {
		return outcome{}, err
	}
	mine, err := w.Lock(ctx, t.key)
	if err != nil {
		return outcome{}, err
	}
	if err := t.kill(ctx); err != nil {
		return outcome{}, err
	}
	second, err := t.open(long)
	if err != nil {
		return outcome{}, err
	}
	other, err := within(ctx, watch, func(ctx context.Context) (Held, error) { return second.Lock(ctx, t.key) })
	if err != nil {
		return outcome{}, err
	}
	accepted, err := act(ctx, db, mine)
	if err != nil {
		return outcome{}, err
	}
	unlocked := mine.Unlock(ctx)
	if other.held == nil {
		return outcome{!accepted, fmt.Sprintf("it kept the lock: no other client got it in %s", round(other.took))}, unlocked
	}
	o := outcome{accepted, fmt.Sprintf("two at once after %s: the first was told nothing, and its write accepted", round(other.took))}
	if !accepted {
		o.happened = fmt.Sprintf("another client got it after %s, and the first was told", round(other.took))
	} else if unlocked != nil {
		o.happened += "; it found out when it released"
	}
	return o, other.held.Unlock(ctx)
}

// pool has another request take the connection that the lock was acquired on.
func pool(ctx context.Context, t *trial) (outcome, error) {
	db, err := t.pool()
	if err != nil {
		return outcome{}, err
	}
	w, err := t.openOn(db, short)
	if err != nil {
		return outcome{}, err
	}
	mine, err := w.Lock(ctx, t.key)
	if err != nil {
		return outcome{}, err
	}
	request, err := db.Conn(ctx)
	if err != nil {
		return outcome{}, err
	}
	defer request.Close()
	if err := mine.Unlock(ctx); err != nil {
		return outcome{}, err
	}
	o, err := t.free(ctx)
	o.happened = "released without an error; " + o.happened
	return o, err
}
