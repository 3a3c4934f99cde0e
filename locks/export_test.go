package locks

import (
	"context"
	"time"
)

// Clean is what a client does every hour, with all rows that somebody is in.
func (c *Client) Clean(ctx context.Context) error { return c.clean(ctx, -24*time.Hour) }
