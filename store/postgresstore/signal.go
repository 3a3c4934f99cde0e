package postgresstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/sqlledger"
	"github.com/cronlease/cronlease/store/internal/waiting"
)

var (
	_ store.HandoverSignals = (*Store)(nil)
	_ store.PresenceSignal  = (*signal)(nil)
	_ store.RequestSignals  = (*Store)(nil)
	_ store.Spreads         = (*Store)(nil)
)

// A waiting signal waits for the lock that the leader's connection has, which the server passes on at once when that ends.
const (
	// presentWait bounds one such wait: for as long, vacuum keeps what was deleted since.
	presentWait = 24 * time.Second
	// presentLook is how often it looks for a leader that does not show that it is there, or for a lease whose release it missed.
	presentLook = time.Second
	presentOwn  = time.Minute // while the leader is this process
)

// announceTries is how often a term tries to be shown: who asks whether it is has its lock for a moment.
const announceTries = 20

// signal waits for the notification of a release. It wakes all waiters. What it shows is an advisory lock of the session.
type signal struct {
	store  *Store
	group  string
	closer *waiting.Closer

	waiting sync.Mutex  // held by Wait, with what follows
	woke    store.Lease // what it woke the waiter for last
	met     uint64      // the token of a term that it saw present

	mu    sync.Mutex
	shown *shown // nil: nothing
}

// shown is what a signal shows, and by which session.
type shown struct {
	term   uint64
	server string
	by     *session
}

// HandoverSignal implements [store.HandoverSignals]. A release wakes every waiter at once, and so does the end of the
// connection of a leader that was announced. While a leader is there, each waiter has a connection that waits for that.
// Behind a pooler in transaction mode it needs a connection of its own ([WithSignals]): without it a Wait fails with an
// [errors.ErrUnsupported], and the next look finds out.
func (s *Store) HandoverSignal(group string) store.HandoverSignal {
	return &signal{store: s, group: group, closer: waiting.New(s.closing, "postgresstore: wait for the hand-over signal")}
}

// Wait implements [store.HandoverSignal].
func (b *signal) Wait(ctx context.Context) error {
	b.waiting.Lock()
	defer b.waiting.Unlock()
	if err := b.closer.Closed(); err != nil {
		return err
	}
	return b.closer.Until(ctx, b.wait)
}

func (b *signal) wait(ctx context.Context) error {
	h, err := b.store.hearing(ctx, "free "+b.group)
	if err != nil {
		return fmt.Errorf("postgresstore: wait for the hand-over signal: %w", err)
	}
	defer h.stop()
	if err := b.showAgain(ctx); err != nil {
		return err
	}
	for {
		wake, held, err := b.look(ctx)
		if wake || err != nil {
			return err
		}
		if left, err := b.rest(ctx, h, held); left || err != nil {
			return err
		}
	}
}

// rest returns when it is time to look at the lease again, and whether the term that holds it was present and is not any
// more. nil: it is free.
func (b *signal) rest(ctx context.Context, h *hearer, held *store.Lease) (left bool, err error) {
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	every, gone := presentLook, make(chan error, 1)
	switch {
	case held == nil:
	case b.shows(held.Token):
		every = presentOwn
	default:
		present, _, err := b.Present(ctx, held.Token)
		if err != nil {
			return false, err
		}
		if !present {
			left := b.met == held.Token
			b.met = 0
			if left {
				return true, nil
			}
			break
		}
		b.met, every = held.Token, 2*presentWait
		watched := make(chan struct{})
		defer func() { cancel(); <-watched }()
		go func() {
			defer close(watched)
			_, err := b.store.once(watch, "wait for the leader's connection", nil,
				sqlledger.Statement{Text: "SELECT set_config('lock_timeout', $1::text, true)", Args: []any{fmt.Sprintf("%dms", presentWait.Milliseconds())}},
				sqlledger.Statement{Text: b.store.sql.absent, Args: []any{presence(b.group, held.Token)}})
			gone <- err
		}()
	}
	look := time.NewTimer(every)
	defer look.Stop()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-h.over:
		return false, h.err
	case <-h.woken:
		return false, nil
	case err := <-gone:
		switch {
		case err == nil:
			b.met = 0
			return true, nil
		case code(err) == lockNotAvailable:
			return false, nil
		}
		return false, err
	case <-look.C:
		return false, nil
	}
}

// shows reports whether this process shows a term.
func (b *signal) shows(term uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shown != nil && b.shown.term == term
}

// look reports whether to wake the waiter, as the lease is free, and the lease otherwise.
func (b *signal) look(ctx context.Context) (wake bool, held *store.Lease, err error) {
	rs, err := b.store.Read(ctx, b.group)
	if err != nil {
		return false, nil, err
	}
	var now store.Lease
	if l := rs[0].Lease; l != nil && !l.Released {
		b.woke = store.Lease{}
		return false, l, nil
	} else if l != nil {
		now = *l
	} else {
		now.Released = true
	}
	wake = now != b.woke
	b.woke = now
	return wake, nil, nil
}

// presence is the name of the lock that shows a term, or a replica.
func presence(group string, token uint64) string { return fmt.Sprintf("present %d %s", token, group) }

// Announce implements [store.PresenceSignal].
func (b *signal) Announce(ctx context.Context, token uint64, server string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.closer.Closed(); err != nil {
		return err
	}
	if b.shown != nil && b.shown.term == token && b.shown.server == server && !b.shown.by.isOver() {
		return nil
	}
	if err := b.hide(ctx); err != nil {
		return err
	}
	return b.show(ctx, token, server)
}

// showAgain shows by this session what an earlier one has shown.
func (b *signal) showAgain(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shown == nil || !b.shown.by.isOver() {
		return nil
	}
	return b.show(ctx, b.shown.term, b.shown.server)
}

// show is called with mu held.
func (b *signal) show(ctx context.Context, token uint64, server string) error {
	is, err := b.store.session(ctx)
	if err != nil {
		return fmt.Errorf("postgresstore: announce a term: %w", err)
	}
	b.shown = &shown{token, server, is}
	err = is.do(ctx, func(ctx context.Context, c *pgx.Conn) error {
		for range announceTries {
			var answers string
			var has bool
			if err := c.QueryRow(ctx, b.store.sql.show, presence(b.group, token)).Scan(&answers, &has); err != nil {
				return err
			}
			switch {
			case !store.IsReplicaToken(token) && answers != server:
				if _, err := c.Exec(ctx, b.store.sql.hide, presence(b.group, token)); err != nil {
					return err
				}
				return errors.New("another server answers than the one on which the lease was acquired")
			case has:
				return nil
			}
			<-time.After(time.Millisecond)
		}
		return errors.New("another connection shows it")
	})
	if err != nil {
		b.shown = nil
		return fmt.Errorf("postgresstore: announce a term: %w", err)
	}
	return nil
}

// Present implements [store.PresenceSignal].
func (b *signal) Present(ctx context.Context, token uint64) (present bool, server string, err error) {
	err = b.store.do(ctx, "look for the leader's connection", func(ctx context.Context, c conn) error {
		return c.QueryRowContext(ctx, b.store.sql.present, presence(b.group, token)).Scan(&present, &server)
	})
	return present, server, err
}

// Pass implements [store.HandoverSignal]. It only ends what Announce has begun.
func (b *signal) Pass(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hide(ctx)
}

// hide is called with mu held.
func (b *signal) hide(ctx context.Context) error {
	is := b.shown
	if is == nil || is.by.isOver() {
		b.shown = nil
		return nil
	}
	err := is.by.do(ctx, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, b.store.sql.hide, presence(b.group, is.term))
		return err
	})
	if err != nil && !is.by.isOver() {
		return fmt.Errorf("postgresstore: pass the hand-over signal: %w", err)
	}
	b.shown = nil
	return nil
}

// Close implements [store.HandoverSignal].
func (b *signal) Close() error {
	_ = b.closer.Close() // never fails
	ctx, cancel := context.WithTimeout(context.Background(), undoLimit)
	defer cancel()
	return b.Pass(ctx)
}

// See implements [sqlledger.Database]: it asks for each replica.
func (s database) See(ctx context.Context, c sqlledger.Conn, group string, roster *jobs.Roster) error {
	for i := range roster.Replicas {
		r := &roster.Replicas[i]
		if r.Owner == roster.Leader {
			continue
		}
		var present bool
		var server string
		if err := c.QueryRowContext(ctx, s.sql.present, presence(group, store.ReplicaToken(r.Owner))).Scan(&present, &server); err != nil {
			return err
		}
		r.SetPresence(present)
	}
	return nil
}

// Wake implements [store.Spreads]. It counts as a change of the group.
func (s *Store) Wake(ctx context.Context, group string) error {
	_, err := s.once(ctx, "wake a holder", nil, sqlledger.Statement{Text: s.sql.wake, Args: []any{group}})
	return err
}

// requestSignal waits for the notification of a request.
type requestSignal struct {
	*waiting.Closer
	store *Store
	group string
	token uint64
}

// RequestSignal implements [store.RequestSignals].
func (s *Store) RequestSignal(group string, token uint64) store.RequestSignal {
	return &requestSignal{waiting.New(s.closing, "postgresstore: wait for requests"), s, group, token}
}

// Wait implements [store.RequestSignal].
func (r *requestSignal) Wait(ctx context.Context, known *uint64) error {
	return r.Until(ctx, func(ctx context.Context) error { return r.wait(ctx, known) })
}

func (r *requestSignal) wait(ctx context.Context, known *uint64) error {
	h, err := r.store.hearing(ctx, "asked "+r.group)
	if err != nil {
		return fmt.Errorf("postgresstore: wait for requests: %w", err)
	}
	defer h.stop()
	for woken := false; ; woken = true {
		var number int64
		var holds, resign bool
		err := r.store.do(ctx, "wait for requests", func(ctx context.Context, c conn) error {
			return c.QueryRowContext(ctx, r.store.sql.requests, r.group, sqlledger.Number(r.token)).Scan(&number, &holds, &resign)
		})
		// What has woken a term that was not replaced is worth a look: Wake may leave nothing else behind.
		if err != nil || resign || known != nil && uint64(number) != *known || woken && holds {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.over:
			return h.err
		case <-h.woken:
		}
	}
}
