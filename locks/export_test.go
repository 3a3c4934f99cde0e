package locks

import (
	"context"
	"time"
)

// Clean does a client's hourly cleaning, for all rows with holders or waiters.
func (c *Client) Clean(ctx context.Context) error { return c.clean(ctx, -24*time.Hour) }

// Tidy does a client's hourly tidying.
func (c *Client) Tidy() { c.tidy() }
