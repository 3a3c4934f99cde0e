package redisstore

import (
	"context"
	"slices"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

var (
	claimScript = newLedgerScript("claim")
	moveScript  = newLedgerScript("move")
)

// Claim implements [store.Ledger]. Up to 200 rows are one script; more are several, each of which applies as a whole or not at all. A
// call that ends with an error may have claimed some: repeated with the same id, it goes on.
func (s *Store) Claim(ctx context.Context, h store.Holder, id store.ClaimID, claims []store.Claim) ([]store.Claimed, error) {
	for _, c := range claims {
		if err := ledgerrows.CheckClaim("redisstore", c); err != nil {
			return nil, err
		}
		if err := checkKeys(c.Key, c.Then); err != nil {
			return nil, err
		}
	}
	if len(claims) == 0 {
		return nil, ctx.Err()
	}
	// In the order of their keys: of a job's ticks, a later script may only claim later ones.
	order := upTo(len(claims))
	slices.SortStableFunc(order, func(a, b int) int { return ledgerrows.CompareKeys(claims[a].Key, claims[b].Key) })
	all := make([]store.Claimed, len(claims))
	for _, part := range inChunks(order, func(i int) int { return len(claims[i].Then) }) {
		if err := s.claim(ctx, h, id, claims, part, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// upTo returns the numbers below n.
func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// inChunks cuts numbers into parts of which each has few rows. followers is how many rows follow that of a number.
func inChunks(order []int, followers func(int) int) [][]int {
	var parts [][]int
	rows := rowsMost
	for _, i := range order {
		n := 1 + followers(i)
		if rows += n; rows > rowsMost {
			parts, rows = append(parts, nil), n
		}
		last := len(parts) - 1
		parts[last] = append(parts[last], i)
	}
	return parts
}

// claim claims those of a part, whose answers it adds to all.
func (s *Store) claim(ctx context.Context, h store.Holder, id store.ClaimID, claims []store.Claim, part []int, all []store.Claimed) error {
	args := append(writerArgs(h), string(id[:]), len(part))
	for _, i := range part {
		c, after, extends := claims[i], "", ""
		if !c.After.IsZero() {
			after = tickText(c.After)
		}
		if ledgerrows.Extends(c) {
			extends = tickText(c.Extends)
		}
		args = append(args, keyArgs(c.Key)...)
		args = append(args, int(c.State), c.Delay.Microseconds(), c.Missed, ledgerrows.CutError(c.Error), after, extends, c.For.Owner, c.For.Token,
			ledgerrows.FormatDetails(ledgerrows.ClaimDetails(h, c)))
		args = append(args, followerArgs(c.Then)...)
	}
	answer, err := s.run(ctx, "claim", claimScript, args...)
	switch {
	case err != nil:
		return err
	case answer == nil:
		return store.ErrReplaced
	case answer == "":
		return store.ErrOtherServer
	}
	f := &fields{doing: "claim"}
	f.values = f.array(answer)
	for _, i := range part {
		if f.absent() {
			f.next()
			all[i].Key = ledgerrows.Plain(claims[i].Key)
			continue
		}
		var r ledger.Run
		f.row(runColumns(&r))
		all[i] = store.Claimed{Mine: r.ID == id, Record: r.Record}
	}
	return f.err
}

// followerArgs are runs that follow another one.
func followerArgs(then []store.Follower) []any {
	args := []any{len(then)}
	for _, f := range then {
		args = append(args, keyArgs(f.Key)...)
		args = append(args, f.Delay.Microseconds(), f.Backfill, []byte(f.Args))
	}
	return args
}

// Move implements [store.Ledger]. Up to 200 rows are one script; more are several, each of which applies as a whole or not at all. They
// apply in their order.
func (s *Store) Move(ctx context.Context, h store.Holder, moves []store.Move) ([]bool, error) {
	for _, m := range moves {
		if err := ledgerrows.CheckMove("redisstore", m); err != nil {
			return nil, err
		}
		if err := checkKeys(m.Key, m.Then); err != nil {
			return nil, err
		}
	}
	if len(moves) == 0 {
		return nil, ctx.Err()
	}
	all, replaced := make([]bool, len(moves)), false
	for _, part := range inChunks(upTo(len(moves)), func(i int) int { return len(moves[i].Then) }) {
		args := append(writerArgs(h), h.Fence(), len(part))
		for _, i := range part {
			args = append(args, moveArgs(h, moves[i])...)
		}
		answer, err := s.run(ctx, "move runs", moveScript, args...)
		if err != nil {
			return nil, err
		}
		if answer == "" {
			return nil, store.ErrOtherServer
		}
		f := &fields{doing: "move runs"}
		f.values = f.array(answer)
		current, done := f.number() == 1, f.nested()
		for _, i := range part {
			all[i] = done.number() == 1
		}
		f.keep(done)
		if f.err != nil {
			return nil, f.err
		}
		replaced = replaced || !current
	}
	if replaced && !slices.Contains(all, true) {
		return nil, store.ErrReplaced
	}
	return all, nil
}

func moveArgs(h store.Holder, m store.Move) []any {
	a, leaves := store.AttemptOf(m)
	start := int64(0) // the least
	if h.Assigns {
		start = max(start, m.NotBefore.UnixMicro())
	}
	args := append(keyArgs(m.Key), int(m.From), m.Attempt, m.Owner, m.Token, int(m.To), ledgerrows.AttemptAfter(h, m), m.For.Owner, m.For.Token,
		m.Delay.Microseconds(), start, ledgerrows.CutError(m.Error), ledgerrows.FormatDetails(m.Details), int(m.Verdict), flag(leaves), int(a.State),
		ledgerrows.CutError(a.Error), a.Output)
	return append(args, followerArgs(m.Then)...)
}
