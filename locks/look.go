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
		names = slices.DeleteFunc(slices.Clone(names), func(n *name) bool { return n.busy })
	}
	texts, news := make([]string, len(names)), make([]uint64, len(names))
	for i, n := range names {
		texts[i], news[i] = n.text, n.news
	}
	c.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	ctx, cancel := c.attempt(ctx)
	defer cancel()
	reading, err := c.store.ReadLocks(ctx, texts...)
	if err != nil {
		return fmt.Errorf("read %d locks: %w", len(names), ctxerr.With(ctx, err))
	}
	replied := time.Now()

	c.mu.Lock()
	defer c.mu.Unlock()
	rs := c.rows
	rs.answeredBy(reading.Server)
	rs.clock = clock{reading.Now, replied}
	rs.floor = max(rs.floor, reading.Floor)
	for i, n := range names {
		row := reading.Rows[i]
		if n.news != news[i] || n.busy && !writer || rs.names[n.text] != n {
			continue
		}
		q, err := decode(n.text, row.Queue)
		if err != nil {
			rs.breakOff(n, err)
			continue
		}
		rs.adopt(n, row.Version, q)
	}
	return nil
}
