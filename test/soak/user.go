//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/cronlease/cronlease/locks"
)

// users is how many goroutines of each worker take locks, beside its jobs: they wait for those of the other workers.
const users = 3

// user takes a lock, and again, until ctx ends.
func (w *worker) user(ctx context.Context, number int) {
	random := rand.New(rand.NewPCG(w.orders.Seed, uint64(w.orders.Number*users+number)))
	for ctx.Err() == nil {
		name := fmt.Sprintf("shared/%d", random.IntN(3))
		hold := time.Duration(5+random.IntN(60)) * time.Millisecond
		err := w.use(ctx, name, hold, random.IntN(6))
		switch {
		case err == nil:
			w.tally.locked()
		case ctx.Err() == nil && !errors.Is(err, locks.ErrBusy) && !errors.Is(err, context.DeadlineExceeded):
			w.log.Warn("no lock", zap.String("name", name), zap.Error(err))
		}
		pause(ctx, time.Duration(200+random.IntN(800))*time.Millisecond)
	}
}

// use takes the lock in one of six ways, and gives it back.
func (w *worker) use(ctx context.Context, name string, hold time.Duration, way int) error {
	take := func(lock *locks.Lock, err error) error {
		if err != nil {
			return err
		}
		pause(ctx, hold) // it is given back in any case
		return lock.Unlock(context.WithoutCancel(ctx))
	}
	switch way {
	case 0:
		return take(w.locks.Mutex(name).TryLock(ctx))
	case 1:
		return take(w.locks.RWMutex(name).RLock(ctx))
	case 2: // with a deadline that often passes
		short, cancel := context.WithTimeout(ctx, hold)
		defer cancel()
		return take(w.locks.Mutex(name).Lock(short))
	case 3:
		return take(w.locks.Mutex(name).LockFor(ctx, time.Minute))
	case 4:
		return w.locks.Do(ctx, name, func(ctx context.Context) error { return w.count(ctx, name) })
	default:
		return take(w.locks.Mutex(name).Lock(ctx))
	}
}
