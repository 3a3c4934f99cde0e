package postgresstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/sqlledger"
	"github.com/cronlease/cronlease/store/internal/waiting"
)

var _ store.Notifiers = (*Store)(nil)

// lookMost is how many rows a look at locks reads at a time.
const lookMost = 1000

// granted is what a notifier's topic begins with. All are of one length.
const granted = "granted "

// notifier hears of a topic of its own, whose name is its address.
type notifier struct {
	store *Store
	topic string

	mu     sync.Mutex
	own    *hearer // nil: it hears nothing yet
	closed bool
}

// Notifier implements [store.Notifiers].
func (s *Store) Notifier() store.Notifier {
	return &notifier{store: s, topic: granted + rand.Text()}
}

func (d *notifier) hear(ctx context.Context) (*hearer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case d.closed:
		return nil, fmt.Errorf("postgresstore: wait for a notification: %w", errClosed)
	case d.own != nil && !d.own.isOver():
		return d.own, nil
	}
	h, err := d.store.hearing(ctx, d.topic)
	if err != nil {
		return nil, fmt.Errorf("postgresstore: wait for a notification: %w", err)
	}
	d.own = h
	return h, nil
}

// Wait implements [store.Notifier].
func (d *notifier) Wait(ctx context.Context, rows []store.LockWatch, limit time.Duration) error {
	over := time.NewTimer(limit)
	defer over.Stop()
	h, err := d.hear(ctx)
	if err != nil {
		return err
	}
	if moved, err := waiting.Moved(ctx, d.store.ReadLocks, rows, lookMost); moved || err != nil {
		return err
	}
	select {
	case <-h.woken:
		return nil
	case <-over.C:
		return nil
	case <-h.over:
		return fmt.Errorf("postgresstore: wait for a notification: %w", h.err)
	case <-ctx.Done():
		return fmt.Errorf("postgresstore: wait for a notification: %w", ctx.Err())
	}
}

// Address implements [store.Notifier].
func (d *notifier) Address(ctx context.Context) (string, error) {
	if _, err := d.hear(ctx); err != nil {
		return "", err
	}
	return d.topic, nil
}

// Notify implements [store.Notifier].
func (d *notifier) Notify(ctx context.Context, addresses ...string) error {
	addresses = slices.DeleteFunc(slices.Clone(addresses), func(a string) bool { return len(a) != len(d.topic) || !strings.HasPrefix(a, granted) })
	if len(addresses) == 0 {
		return ctx.Err()
	}
	return d.store.do(ctx, "notify", func(ctx context.Context, c conn) error {
		return sqlledger.Each(ctx, c, d.store.locking.notify, []any{addresses}, func(*sql.Rows) error { return nil })
	})
}

// Close implements [store.Notifier].
func (d *notifier) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.own != nil {
		d.own.stop()
	}
	return nil
}
