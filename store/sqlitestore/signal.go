package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/waiting"
)

// signalEvery is how often a waiting signal asks whether the file has changed,
// which reads one page of shared memory, and whether the leader's process lives.
const signalEvery = 100 * time.Millisecond

// signal watches the file. It wakes every waiter when a lease becomes free, or the
// process of its leader ends, once for each time.
type signal struct {
	store  *Store
	group  string
	shown  presence
	closer *waiting.Closer

	mu   sync.Mutex // held by Wait, with what follows
	woke state      // what it woke the waiter for last
	met  int64      // the place of a term that it saw present; 0: none
}

// state is a lease row as a waiter sees it.
type state struct {
	free             bool
	token, heartbeat int64
}

// seen is what a Wait has read last.
type seen struct {
	version int64 // of the file's content
	free    bool
	term    int64 // its place
}

// HandoverSignal implements [store.HandoverSignals]. SQLite cannot wake another
// process, so the signal looks ten times a second whether the file was changed,
// and only then at the row. Every waiter is woken, when the lease is released or
// its row deleted, and at once if it is so already; never twice for one release.
// On Linux it is a [store.PresenceSignal] as well, and the waiters are woken when the
// process of a leader that was announced ends.
func (s *Store) HandoverSignal(group string) store.HandoverSignal {
	b := &signal{store: s, group: group, closer: waiting.New(s.closing, "sqlitestore: wait for the hand-over signal")}
	b.closer.After(func() { _ = b.shown.hide() })
	return b
}

// Wait implements [store.HandoverSignal].
func (b *signal) Wait(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.closer.Closed(); err != nil {
		return err
	}
	return b.closer.Until(ctx, b.wait)
}

func (b *signal) wait(ctx context.Context) error {
	return b.store.do(ctx, "wait for the hand-over signal", func(ctx context.Context, c *sql.Conn, of opened) error {
		last := seen{version: -1}
		every := time.NewTicker(signalEvery)
		defer every.Stop()
		for {
			wake, err := b.look(ctx, c, of, &last)
			if wake || err != nil || b.left(last) {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-every.C:
			}
		}
	})
}

// look reports whether to wake the waiter for the row, and updates what was seen.
func (b *signal) look(ctx context.Context, c *sql.Conn, of opened, last *seen) (bool, error) {
	version, changed, err := changedSince(ctx, c, last.version)
	if errors.Is(err, errOtherFile) {
		return true, nil // look at that one
	}
	if err != nil || !changed {
		return false, err
	}
	var now state
	var file string
	if err := c.QueryRowContext(ctx, b.store.sql.awaited, b.group).Scan(&now.free, &now.token, &now.heartbeat, &file); err != nil {
		return false, err
	}
	*last = seen{version, now.free, placeOf(serverOf(file, of), b.group, uint64(now.token))}
	if !now.free {
		now = state{}
	}
	wake := now.free && now != b.woke
	b.woke = now
	return wake, nil
}

// left reports, once, that the term which holds the lease was present and is not any
// more.
func (b *signal) left(last seen) bool {
	if last.free {
		return false
	}
	present, err := isShown(b.store.path, last.term)
	switch {
	case err != nil:
		return false
	case present:
		b.met = last.term
		return false
	}
	left := b.met != 0 && b.met == last.term
	b.met = 0
	return left
}

var errOtherFile = errors.New("sqlitestore: another file has the name")

// changedSince reads the version of the file's content, and reports whether it is
// another one than was seen.
func changedSince(ctx context.Context, c *sql.Conn, seen int64) (version int64, changed bool, err error) {
	var current bool
	if err := c.Raw(func(dc any) error { current = dc.(*conn).current(); return nil }); err != nil {
		return 0, false, err
	}
	if !current {
		return 0, false, errOtherFile
	}
	err = c.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version)
	return version, err == nil && version != seen, err
}

// Pass implements [store.HandoverSignal]. It only ends what Announce has begun.
func (b *signal) Pass(context.Context) error { return b.shown.hide() }

// Close implements [store.HandoverSignal].
func (b *signal) Close() error {
	_ = b.closer.Close() // never fails
	return b.shown.hide()
}
