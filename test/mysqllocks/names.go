package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// names tries what names mean: which are the same, and which are too long.
func names(ctx context.Context, t *trial) (outcome, error) {
	var o outcome
	var seen []string
	for _, look := range []func(context.Context, *trial) (outcome, error){upperCase, longName, otherSchema} {
		part, err := look(ctx, t)
		if err != nil {
			return outcome{}, err
		}
		o.broken = o.broken || part.broken
		seen = append(seen, part.happened)
	}
	o.happened = strings.Join(seen, "; ")
	return o, nil
}

// upperCase holds two names that differ in nothing else.
func upperCase(ctx context.Context, t *trial) (outcome, error) {
	both, err := t.both(ctx, t, t.key+":report", t, t.key+":Report")
	if err != nil {
		return outcome{}, err
	}
	if both {
		return outcome{false, "report and Report are two locks"}, nil
	}
	return outcome{true, "report and Report are one lock"}, nil
}

// longName uses a name of 65 characters like any other.
func longName(ctx context.Context, t *trial) (outcome, error) {
	name := t.key + strings.Repeat("x", 65-len(t.key))
	w, err := t.open(long)
	if err != nil {
		return outcome{}, err
	}
	held, err := w.Lock(ctx, name)
	if err != nil {
		if ctx.Err() != nil {
			return outcome{}, err
		}
		return outcome{true, "65 characters are refused"}, nil
	}
	if err := held.Unlock(ctx); err != nil {
		return outcome{}, err
	}
	again, err := within(ctx, glance, func(ctx context.Context) (Held, error) { return w.Lock(ctx, name) })
	if err != nil {
		return outcome{}, err
	}
	if again.held == nil {
		return outcome{true, "65 characters are cut, and the lock is still taken after its release"}, nil
	}
	return outcome{false, "65 characters are fine"}, again.held.Unlock(ctx)
}

// otherSchema uses a name in two schemas of a server, as two applications do.
func otherSchema(ctx context.Context, t *trial) (_ outcome, err error) {
	other, err := newTrial(ctx, t.config, t.kind)
	defer func() { err = errors.Join(err, other.end(ctx)) }()
	if err != nil {
		return outcome{}, err
	}
	both, err := t.both(ctx, t, t.key, other, t.key)
	if err != nil {
		return outcome{}, err
	}
	if both {
		return outcome{false, "another schema has locks of its own"}, nil
	}
	return outcome{true, "another schema has the same locks"}, nil
}

// both reports whether two locks can be held at once.
func (*trial) both(ctx context.Context, a *trial, first string, b *trial, second string) (bool, error) {
	w, err := a.open(long)
	if err != nil {
		return false, err
	}
	mine, err := w.Lock(ctx, first)
	if err != nil {
		return false, fmt.Errorf("lock %q: %w", first, err)
	}
	next, err := b.open(long)
	if err != nil {
		return false, errors.Join(err, mine.Unlock(ctx))
	}
	other, err := within(ctx, glance, func(ctx context.Context) (Held, error) { return next.Lock(ctx, second) })
	if err == nil && other.held != nil {
		err = other.held.Unlock(ctx)
	}
	return other.held != nil, errors.Join(err, mine.Unlock(ctx))
}
