package locks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ctxerr"
)

// look reads the rows of the locks. Except for the writer itself, it skips those
// that are being written; and it ignores those that were updated meanwhile, or forgotten:
// the requests of that name may be another's by now.
func (c *Client) look(ctx context.Context, names []*name, writer bool) error {
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
	sent := time.Now()
	reading, err := c.store.ReadLocks(ctx, texts...)
	if err != nil {
		return fmt.Errorf("read %d locks: %w", len(names), ctxerr.With(ctx, err))
	}
	replied := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows.read(names, editions, reading, sent, replied, writer)
	return nil
}
