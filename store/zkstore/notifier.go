package zkstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/internal/waiting"
)

var (
	_ store.Notifiers = (*Store)(nil)
	_ store.Waker     = (*notifier)(nil)
)

// notifier has a node of its own, whose path is its address and which others write.
type notifier struct {
	store *Store
	path  string

	mu     sync.Mutex
	shown  bool
	closed bool
}

// Notifier implements [store.Notifiers].
func (s *Store) Notifier() store.Notifier {
	return &notifier{store: s, path: s.path("notify", rand.Text())}
}

// listen shows the node.
func (d *notifier) listen(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.closed {
		return failed("wait for a notification", ErrClosed)
	}
	if !d.shown {
		if _, err := d.store.known(ctx); err != nil {
			return failed("wait for a notification", err)
		}
		if err := d.store.link.show(ctx, d.path, d.store.acl); err != nil {
			return failed("wait for a notification", err)
		}
		d.shown = true
	}
	return nil
}

// Wait implements [store.Notifier].
func (d *notifier) Wait(ctx context.Context, rows []store.LockWatch, limit time.Duration) error {
	over := time.NewTimer(limit)
	defer over.Stop()
	if err := d.listen(ctx); err != nil {
		return err
	}
	written, err := d.store.link.watch(ctx, d.path)
	if err != nil {
		return failed("wait for a notification", err)
	}
	if moved, err := waiting.Moved(ctx, d.store.PeekLocks, rows, lookMost); moved || err != nil {
		return err
	}
	select {
	case <-written:
		return nil
	case <-over.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("zkstore: wait for a notification: %w", ctx.Err())
	case <-d.store.closing.Done():
		return fmt.Errorf("zkstore: wait for a notification: %w", ErrClosed)
	}
}

// Address implements [store.Notifier].
func (d *notifier) Address(ctx context.Context) (string, error) {
	if err := d.listen(ctx); err != nil {
		return "", err
	}
	return d.path, nil
}

// Notify implements [store.Notifier].
func (d *notifier) Notify(ctx context.Context, addresses ...string) error {
	return failed("notify", d.store.notify(ctx, d.store.notified(addresses)))
}

func (s *Store) notify(ctx context.Context, addresses []string) error {
	if len(addresses) == 0 {
		return ctx.Err()
	}
	errs := make([]error, len(addresses))
	var all sync.WaitGroup
	turn := make(chan struct{}, readers)
	for i, address := range addresses {
		turn <- struct{}{}
		all.Go(func() {
			_, errs[i] = call(ctx, s.link, func(client *zk.Conn) (*zk.Stat, error) { return client.Set(address, nil, -1) })
			if errors.Is(errs[i], zk.ErrNoNode) {
				errs[i] = nil
			}
			<-turn
		})
	}
	all.Wait()
	return cmp.Or(errs...)
}

// WakesWithWrites implements [store.Waker].
func (d *notifier) WakesWithWrites() {}

// notified are those of the addresses that notifiers of this store may have: rows may contain any.
func (s *Store) notified(addresses []string) []string {
	within := s.path("notify") + "/"
	return slices.DeleteFunc(slices.Clone(addresses), func(a string) bool {
		name, ok := strings.CutPrefix(a, within)
		return !ok || name == "" || strings.Trim(name, letters) != ""
	})
}

// letters are those of [rand.Text].
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

// Close implements [store.Notifier].
func (d *notifier) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if !d.shown {
		return nil
	}
	d.shown = false
	ctx, cancel := context.WithTimeout(d.store.closing, hideMost)
	defer cancel()
	_ = d.store.link.hide(ctx, d.path) // the node ends with the session otherwise
	return nil
}
