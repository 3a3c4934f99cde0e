package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cronlease/cronlease/store"
)

// signalEvery is how often a waiting signal asks whether the file has changed,
// which reads one page of shared memory.
const signalEvery = 100 * time.Millisecond

var errSignalClosed = errors.New("sqlitestore: wait for the hand-over signal: closed")

// signal watches the file. It wakes every waiter when a lease becomes free, once for
// each time that it does.
type signal struct {
	store *Store
	group string

	closing context.Context // ends with Close
	close   context.CancelFunc

	mu   sync.Mutex // held by Wait
	woke state      // what it woke the waiter for last
}

// state is a lease row as a waiter sees it.
type state struct {
	free             bool
	token, heartbeat int64
}

// HandoverSignal implements [store.HandoverSignals]. SQLite cannot wake another
// process, so the signal looks ten times a second whether the file was changed,
// and only then at the row. Every waiter is woken, when the lease is released or
// its row deleted, and at once if it is so already; never twice for one release.
// Pass does nothing.
func (s *Store) HandoverSignal(group string) store.HandoverSignal {
	b := &signal{store: s, group: group}
	b.closing, b.close = context.WithCancel(s.closing)
	return b
}

// Wait implements [store.HandoverSignal].
func (b *signal) Wait(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing.Err() != nil {
		return errSignalClosed
	}
	listening, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.closing, cancel)()
	err := b.wait(listening)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("sqlitestore: wait for the hand-over signal: %w", ctx.Err())
	case b.closing.Err() != nil:
		return errSignalClosed
	}
	return err
}

func (b *signal) wait(ctx context.Context) error {
	return b.store.do(ctx, "wait for the hand-over signal", func(ctx context.Context, c *sql.Conn, _ opened) error {
		seen := int64(-1)
		every := time.NewTicker(signalEvery)
		defer every.Stop()
		for {
			wake, version, err := b.look(ctx, c, seen)
			if wake || err != nil {
				return err
			}
			seen = version
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-every.C:
			}
		}
	})
}

// look reports whether to wake the waiter, and the version of the file's content that it
// has seen.
func (b *signal) look(ctx context.Context, c *sql.Conn, seen int64) (bool, int64, error) {
	version, changed, err := changedSince(ctx, c, seen)
	if errors.Is(err, errOtherFile) {
		return true, 0, nil // look at that one
	}
	if err != nil || !changed {
		return false, version, err
	}
	now := state{free: true}
	err = c.QueryRowContext(ctx, b.store.sql.takeable, b.group).Scan(&now.token, &now.heartbeat)
	if errors.Is(err, sql.ErrNoRows) {
		now, err = state{}, nil
	}
	if err != nil {
		return false, 0, err
	}
	wake := now.free && now != b.woke
	b.woke = now
	return wake, version, nil
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

// Pass implements [store.HandoverSignal]. It does nothing.
func (b *signal) Pass(context.Context) error { return nil }

// Close implements [store.HandoverSignal].
func (b *signal) Close() error {
	b.close()
	return nil
}
