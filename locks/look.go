package locks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ctxerr"
	"github.com/cronlease/cronlease/store"
)

// look reads the rows of the locks. Except for the writer itself, it skips those
// that are being written; and it ignores those that were updated meanwhile, or forgotten:
// the requests of that name may be another's by now.
func (c *Client) look(ctx context.Context, names []*name, writer bool) error {
	return c.read(ctx, names, writer, c.store.ReadLocks, time.Now())
}

// peek is look where the rows may lack what others have written lately, which is cheaper in
// some stores.
func (c *Client) peek(ctx context.Context, names []*name, writer bool) error {
	if c.peeker == nil {
		return c.look(ctx, names, writer)
	}
	return c.read(ctx, names, writer, c.peeker.PeekLocks, time.Time{})
}

// read is look and peek, with the store's reading and the instant as of which it counts.
func (c *Client) read(ctx context.Context, names []*name, writer bool, rows func(context.Context, ...string) (store.LockReading, error), sent time.Time) error {
	c.mu.Lock()
	if !writer {
		names = slices.DeleteFunc(slices.Clone(names), func(n *name) bool { return n.turn.isBusy() })
	}
	texts, editions := make([]string, len(names)), make([]uint64, len(names))
	for i, n := range names {
		texts[i], editions[i] = n.text, n.row.edition()
	}
	c.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	ctx, cancel := c.attempt(ctx)
	defer cancel()
	reading, err := rows(ctx, texts...)
	if err != nil {
		return fmt.Errorf("read %d locks: %w", len(names), ctxerr.With(ctx, err))
	}
	replied := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows.read(names, editions, reading, sent, replied, writer)
	return nil
}
