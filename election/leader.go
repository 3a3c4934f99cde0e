package election

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/cronlease/cronlease/internal/retry"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// Leadership says which replica leads a group, as one reading of its row showed
// it. It can be out of date by then: to keep an old leader from acting, fence its
// work with the token instead of asking who leads.
type Leadership struct {
	Group string
	// Owner and Token name the last term; empty and zero when there was none.
	Owner string
	Token uint64
	// TTL is how long the lease lives without a heartbeat, and Age how long
	// ago the last one was, by the database's clock. It is not negative, even if the
	// clock was set back, or a reading that waited for a lock found a newer row.
	TTL, Age time.Duration
	// Released: the leader stepped down, and no replica has taken over yet.
	Released bool
	// ResignAsked: the leader was asked to step down and has not yet. A scheduler that
	// drains because it was stopped says so here as well.
	ResignAsked bool
}

// Held reports whether the term still stands, as far as one reading can tell.
func (l Leadership) Held() bool { return l.Owner != "" && !l.Released && l.Age < l.TTL }

// Leader reads who leads the group. It takes no part in the election.
func Leader(ctx context.Context, leases store.Leases, group string) (Leadership, error) {
	if err := store.CheckName("group", group); err != nil {
		return Leadership{}, err
	}
	if leases == nil {
		return Leadership{}, fmt.Errorf("election: leader of %q: store is nil", group)
	}
	readings, err := leases.Read(ctx, group)
	if err != nil {
		return Leadership{}, fmt.Errorf("group %q: %w", group, err)
	}
	l := Leadership{Group: group}
	if row := readings[0].Lease; row != nil {
		// Replicas take no row for longer than MaxTTL, whatever it says.
		l.Owner, l.Token, l.TTL = row.Owner, row.Token, min(max(row.TTL, 0), lease.MaxTTL)
		l.Age = max(readings[0].Now.Sub(row.RenewedAt), 0)
		l.Released, l.ResignAsked = row.Released, row.ResignAsked
	}
	return l, nil
}

// Observe yields who leads the group, first at once and then whenever that has
// changed, until ctx ends or the loop is left. It reads the row every interval
// (zero: a second), and takes no part in the election. An error is yielded when
// the database cannot be read; the next turn tries again. Terms that were
// shorter than the interval can be missed; [WithObserver] reports every change
// of the process's own replica.
func Observe(ctx context.Context, leases store.Leases, group string, interval time.Duration) iter.Seq2[Leadership, error] {
	if interval <= 0 {
		interval = time.Second
	}
	return func(yield func(Leadership, error) bool) {
		var last Leadership
		for first := true; ; {
			l, err := Leader(ctx, leases, group)
			if ctx.Err() != nil {
				return
			}
			news := l.Owner != last.Owner || l.Token != last.Token || l.Held() != last.Held()
			if err != nil || first || news {
				if !yield(l, err) {
					return
				}
				if err == nil {
					last, first = l, false
				}
			}
			if retry.Sleep(ctx, interval) != nil {
				return
			}
		}
	}
}

// AskResign asks the present leader of the group to step down. It returns the
// term that was asked; the leader learns of the request at once, or with its next
// heartbeat.
// [ErrNotLeading]: no replica leads, or the leader's lease has expired.
func AskResign(ctx context.Context, leases store.Leases, group string) (Leadership, error) {
	l, err := Leader(ctx, leases, group)
	if err != nil {
		return l, err
	}
	if !l.Held() {
		return l, fmt.Errorf("%w: nobody leads %q", ErrNotLeading, group)
	}
	return l, leases.AskResign(ctx, group, l.Token)
}
