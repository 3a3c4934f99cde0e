package zkstore_test

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"

	"github.com/go-zookeeper/zk"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store/zkstore"
)

// A job that sends each invoice of a queue once: what it takes from the queue, and what it notes, is one transaction, which a replaced leader cannot
// store.
func ExampleStore_Do() {
	store, err := zkstore.Open("zk://127.0.0.1:2181/billing")
	if err != nil {
		panic(err)
	}
	const queue, sent = "/invoices", "/sent"
	_ = jobs.Job{
		Name:     "invoices",
		Schedule: jobs.Cron("0 0 2 * * *"),
		Do: func(ctx context.Context, run jobs.Run) error {
			return store.Do(ctx, func(tx *zkstore.Tx) error {
				names, err := tx.Children(ctx, queue)
				if err != nil {
					return fmt.Errorf("read the queue: %w", err)
				}
				if len(names) == 0 {
					return nil
				}
				next := slices.Min(names)
				tx.Queue(
					&zk.DeleteRequest{Path: path.Join(queue, next), Version: -1}, // refused if another has taken it
					&zk.CreateRequest{Path: path.Join(sent, next), Data: []byte(strconv.FormatUint(run.Token, 10))},
				)
				return nil
			})
		},
	}
}
