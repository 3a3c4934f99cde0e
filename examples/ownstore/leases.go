//go:build darwin || freebsd || linux

package ownstore

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

// leases are the rows of each group, nil where absent. All of them are one file, so that all readings are of one instant
// and a heartbeat of many groups is one write.
type leases map[string]struct {
	Lease *store.Lease
	Fence *store.Fence
}

const leasesFile = "leases"

// put writes the rows of a group.
func (all leases) put(group string, l store.Lease, f store.Fence) {
	r := all[group]
	r.Lease, r.Fence = &l, &f
	all[group] = r
}

// change calls f with all leases, and writes them if it says that it has changed them.
func (s *Store) change(ctx context.Context, doing string, f func(all leases, now time.Time) (bool, error)) error {
	return s.locked(ctx, doing, func(now time.Time, _ string) error {
		all := leases{}
		if err := s.read(leasesFile, &all); err != nil {
			return err
		}
		if changed, err := f(all, now); err != nil || !changed {
			return err
		}
		return s.write(leasesFile, all)
	})
}

// Read implements [store.Leases].
func (s *Store) Read(ctx context.Context, groups ...string) (readings []store.Reading, err error) {
	err = s.locked(ctx, "read leases", func(now time.Time, server string) error {
		all := leases{}
		err := s.read(leasesFile, &all)
		for _, group := range groups {
			// A folder has no connections: each reading has the session 0.
			readings = append(readings, store.Reading{Group: group, Lease: all[group].Lease, Fence: all[group].Fence, Now: now, Server: server})
		}
		return err
	})
	return readings, err
}

// Prepare implements [store.Leases].
func (s *Store) Prepare(ctx context.Context, group string, ttl time.Duration) error {
	return s.change(ctx, "prepare", func(all leases, now time.Time) (bool, error) {
		if err := store.CheckName("group", group); err != nil {
			return false, err
		}
		l, f := all[group].Lease, all[group].Fence
		if l != nil && f != nil {
			return false, nil
		}
		if l == nil {
			l = &store.Lease{RenewedAt: now, TTL: ttl, Released: true}
			if f != nil { // the lease was deleted, and may be held
				l.Released, l.Token = false, max(f.Token+1, uint64(now.UnixMicro()))
			}
		}
		if f == nil {
			f = &store.Fence{Owner: l.Owner, Token: l.Token}
		}
		all.put(group, *l, *f)
		return true, nil
	})
}

// Acquire implements [store.Leases].
func (s *Store) Acquire(ctx context.Context, a store.Acquire) (token uint64, err error) {
	err = s.change(ctx, "acquire", func(all leases, now time.Time) (bool, error) {
		if err := store.CheckName("owner", a.Owner); err != nil {
			return false, err
		}
		l, f, read := all[a.Read.Group].Lease, all[a.Read.Group].Fence, a.Read
		if l == nil || f == nil || read.Lease == nil || read.Fence == nil || read.Session != 0 ||
			l.Token != read.Lease.Token || l.Heartbeat != read.Lease.Heartbeat || f.Token != read.Fence.Token {
			return false, store.ErrChanged
		}
		token = max(l.Token+1, f.Token+1, a.Floor+1, uint64(now.UnixMicro()))
		all.put(read.Group, store.Lease{Owner: a.Owner, Token: token, Heartbeat: a.Heartbeat, RenewedAt: now, TTL: a.TTL},
			store.Fence{Owner: a.Owner, Token: token})
		return true, nil
	})
	if err != nil {
		return 0, err
	}
	return token, nil
}

// Renew implements [store.Leases].
func (s *Store) Renew(ctx context.Context, r store.Renew) (renewed int, err error) {
	err = s.change(ctx, "renew", func(all leases, now time.Time) (bool, error) {
		for _, want := range r.Leases {
			l := all[want.Group].Lease
			if l != nil && !l.Released && r.Owner != "" && l.Owner == r.Owner && l.Token == want.Token &&
				l.Heartbeat == want.Heartbeat && l.ResignAsked == want.ResignAsked {
				l.Heartbeat, l.RenewedAt = r.Heartbeat, now
				renewed++
			}
		}
		return renewed > 0, nil
	})
	if err != nil {
		return 0, err
	}
	return renewed, nil
}

// Release implements [store.Leases].
func (s *Store) Release(ctx context.Context, group, owner string, token uint64) error {
	return s.change(ctx, "release", func(all leases, _ time.Time) (bool, error) {
		l := all[group].Lease
		if l == nil || owner == "" || l.Owner != owner || l.Token != token {
			return false, store.ErrChanged
		}
		l.Released = true
		return true, nil
	})
}

// AskResign implements [store.Leases]. Its entry in the audit is a write of its own, right after.
func (s *Store) AskResign(ctx context.Context, group string, token uint64) error {
	var result jobs.Result
	err := s.change(ctx, "ask to resign", func(all leases, _ time.Time) (bool, error) {
		l := all[group].Lease
		switch {
		case l == nil || l.Released || l.Token != token:
			result = jobs.Refused
			return false, store.ErrChanged
		case l.ResignAsked:
			result = jobs.Unchanged
			return false, nil
		}
		result, l.ResignAsked = jobs.Done, true
		return true, nil
	})
	if err != nil && !errors.Is(err, store.ErrChanged) {
		return err
	}
	note := func(tx *ledger.Tx) { tx.NoteResign(ctx, token, result) }
	return cmp.Or(rows{s}.Do(ctx, group, ledger.Need{Doing: "note the request"}, note), err)
}
