package redisstore_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store/redisstore"
)

// A job that sends each invoice of a list once: what it takes from the list, and what it notes, is one transaction, which a replaced leader
// cannot store.
func ExampleStore_Do() {
	store, err := redisstore.Open("redis://127.0.0.1:6379/0")
	if err != nil {
		panic(err)
	}
	const list, sent = "invoices:{cronlease}", "sent:{cronlease}"
	_ = jobs.Job{
		Name:     "invoices",
		Schedule: jobs.Cron("0 0 2 * * *"),
		Do: func(ctx context.Context, run jobs.Run) error {
			return store.Do(ctx, func(tx *redis.Tx, queue redis.Pipeliner) error {
				next, err := tx.LIndex(ctx, list, 0).Result()
				if err != nil {
					return fmt.Errorf("read the list: %w", err)
				}
				queue.LPop(ctx, list)
				queue.HSet(ctx, sent, next, run.Token)
				return nil
			}, list)
		},
	}
}
