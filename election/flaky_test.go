package election_test

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/cronlease/cronlease/lease"
)

// flaky is a store that cannot be reached while fail is set.
type flaky struct {
	lease.Store
	fail atomic.Bool
}

var errDown = errors.New("down")

func (f *flaky) Read(ctx context.Context, groups ...string) ([]lease.Reading, error) {
	if f.fail.Load() {
		return nil, errDown
	}
	return f.Store.Read(ctx, groups...)
}

func (f *flaky) Renew(ctx context.Context, r lease.Renew) (int, error) {
	if f.fail.Load() {
		return 0, errDown
	}
	return f.Store.Renew(ctx, r)
}

func (f *flaky) Acquire(ctx context.Context, a lease.Acquire) (uint64, error) {
	if f.fail.Load() {
		return 0, errDown
	}
	return f.Store.Acquire(ctx, a)
}

func (f *flaky) Release(ctx context.Context, group, owner string, token uint64) error {
	if f.fail.Load() {
		return errDown
	}
	return f.Store.Release(ctx, group, owner, token)
}
