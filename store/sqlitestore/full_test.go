package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// As SQLite finds out that there is no space: by its own limit of pages.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t))
	most := map[bool]int{true: 1, false: 1 << 30} // the least is what the file has
	limit := func(full bool) error { return s.LimitPages(soon(t), most[full]) }
	if err := fillAndGoOn(soon(t), s, "no space left", limit); err != nil {
		t.Error(err)
	}
}

// fillAndGoOn is a leader that runs out of disk space, and gets it back. Every write
// fails with an error that says so and does not count as an answer; no confirmed
// write is lost; and a write that failed succeeds when it is repeated.
func fillAndGoOn(ctx context.Context, s *sqlitestore.Store, says string, limit func(full bool) error) error {
	const group = "group"
	if err := s.Prepare(ctx, group, time.Second); err != nil {
		return err
	}
	rs, err := s.Read(ctx, group)
	if err != nil {
		return err
	}
	h := store.Holder{Group: group, Owner: keeper.NewOwner("full")}
	if h.Token, err = s.Acquire(ctx, store.Acquire{Read: rs[0], Owner: h.Owner, Heartbeat: 1, TTL: time.Second}); err != nil {
		return err
	}
	if err := s.Declare(ctx, h, []store.Declared{{Name: "job", Schedule: "manual"}}); err != nil {
		return err
	}
	long := strings.Repeat("x", store.MaxError)
	claims := func(batch int) (list []store.Claim) {
		for i := range 20 {
			list = append(list, store.Claim{Key: jobs.Key{Job: "job", Tick: tick(20*batch + i)}, State: jobs.Skipped, Error: long})
		}
		return append(list, store.Claim{Key: jobs.Key{Job: fmt.Sprint("run-", batch), Tick: tick(1)}, State: jobs.Running})
	}
	claim := func(batch int) error {
		claimed, err := s.Claim(ctx, h, store.ClaimID{byte(batch), byte(batch >> 8)}, claims(batch))
		for _, c := range claimed {
			if !c.Mine {
				return fmt.Errorf("claim of %v: not mine: %+v", c.Key, c)
			}
		}
		return err
	}
	refused := func(what string, err error) error {
		if err == nil || errors.Is(err, store.ErrChanged) || errors.Is(err, store.ErrReplaced) || errors.Is(err, jobs.ErrNoJob) ||
			!strings.Contains(err.Error(), says) {
			return fmt.Errorf("%s without space: error %w, want one that says %q and is no answer", what, err, says)
		}
		return nil
	}

	if err := claim(0); err != nil {
		return err
	}
	if err := limit(true); err != nil {
		return err
	}
	batch := 1
	for ; batch < 1000 && err == nil; batch++ {
		err = claim(batch)
	}
	batch-- // the one that was refused
	if err := refused("Claim", err); err != nil {
		return err
	}

	// Now that there is no space for anything.
	moves := make([]store.Move, 0, batch)
	for i := range batch {
		moves = append(moves, store.Move{Key: jobs.Key{Job: fmt.Sprint("run-", i), Tick: tick(1)}, From: jobs.Running, Attempt: 1,
			Owner: h.Owner, Token: h.Token, To: jobs.Failed, Error: long})
	}
	_, moveErr := s.Move(ctx, h, moves)
	if moveErr != nil { // a small one may have found room within the pages
		if err := refused("Move", moveErr); err != nil {
			return err
		}
	}
	renew := store.Renew{Owner: h.Owner, Heartbeat: 2, Leases: []store.Renewal{{Group: group, Token: h.Token, Heartbeat: 1}}}
	if n, err := s.Renew(ctx, renew); err != nil {
		if err := refused("Renew", err); err != nil {
			return err
		}
	} else if n != 1 {
		return fmt.Errorf("%d renewed without space", n)
	}
	if rs, err := s.Read(ctx, group); err != nil || rs[0].Lease.Token != h.Token || rs[0].Fence.Token != h.Token {
		return fmt.Errorf("read without space: %+v, %w", rs, err)
	}
	kept, err := s.Runs(ctx, group, jobs.Filter{Limit: 100_000})
	if err != nil || len(kept) != 21*batch {
		return fmt.Errorf("%d runs without space, want the %d that were claimed: %w", len(kept), 21*batch, err)
	}

	if err := limit(false); err != nil {
		return err
	}
	if err := claim(batch); err != nil {
		return fmt.Errorf("the refused claim, with space: %w", err)
	}
	done, err := s.Move(ctx, h, moves)
	if err != nil {
		return fmt.Errorf("move, with space: %w", err)
	}
	for i, is := range done {
		if !is {
			return fmt.Errorf("move %d was not done", i)
		}
	}
	if rs, err = s.Read(ctx, group); err != nil {
		return err
	}
	renew.Leases[0].Heartbeat, renew.Heartbeat = rs[0].Lease.Heartbeat, 3
	if n, err := s.Renew(ctx, renew); err != nil || n != 1 {
		return fmt.Errorf("renew, with space: %d, %w", n, err)
	}
	if kept, err = s.Runs(ctx, group, jobs.Filter{Limit: 100_000}); err != nil || len(kept) != 21*(batch+1) {
		return fmt.Errorf("%d runs, want %d: %w", len(kept), 21*(batch+1), err)
	}
	var whole string
	if err := s.DB().QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&whole); err != nil || whole != "ok" {
		return fmt.Errorf("the file is damaged: %s, %w", whole, err)
	}
	return nil
}
