package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/waiting"
)

var _ store.Notifiers = (*Store)(nil)

// notifier listens to a channel of its own, whose name is its address.
type notifier struct {
	store   *Store
	channel string

	mu     sync.Mutex
	own    *listener // nil: it does not listen yet
	closed bool
}

// Notifier implements [store.Notifiers].
func (s *Store) Notifier() store.Notifier {
	return &notifier{store: s, channel: s.key("notify", rand.Text())}
}

func (d *notifier) listen(ctx context.Context) (*listener, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if d.closed {
		return nil, fmt.Errorf("redisstore: wait for a notification: %w", ErrClosed)
	}
	if d.own == nil {
		l, err := d.store.topics.listen(ctx, d.channel)
		if err != nil {
			return nil, fmt.Errorf("redisstore: wait for a notification: %w", err)
		}
		d.own = l
	}
	return d.own, nil
}

// Wait implements [store.Notifier].
func (d *notifier) Wait(ctx context.Context, rows []store.LockWatch, limit time.Duration) error {
	over := time.NewTimer(limit)
	defer over.Stop()
	l, err := d.listen(ctx)
	if err != nil {
		return err
	}
	if moved, err := waiting.Moved(ctx, d.store.ReadLocks, rows, lookMost); moved || err != nil {
		return err
	}
	select {
	case <-l.woken:
		return nil
	case <-over.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("redisstore: wait for a notification: %w", ctx.Err())
	case <-d.store.closing.Done():
		return fmt.Errorf("redisstore: wait for a notification: %w", ErrClosed)
	}
}

// Address implements [store.Notifier].
func (d *notifier) Address(ctx context.Context) (string, error) {
	if _, err := d.listen(ctx); err != nil {
		return "", err
	}
	return d.channel, nil
}

// Notify implements [store.Notifier].
func (d *notifier) Notify(ctx context.Context, addresses ...string) error {
	if len(addresses) == 0 {
		return ctx.Err()
	}
	err := d.store.onPrimary(ctx, func(c redis.UniversalClient) error {
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, address := range addresses {
				p.Publish(ctx, address, "")
			}
			return nil
		})
		return err
	})
	if err != nil {
		return d.store.failed(ctx, "notify", err)
	}
	return nil
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
