package lease_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/memstore"
)

// The other times follow from the TTL.
func ExampleTiming_Complete() {
	timing, err := lease.Timing{TTL: 30 * time.Second}.Complete()
	fmt.Println(timing.RenewEvery, timing.AttemptTimeout, timing.Grace, err)
	fmt.Println("trusted for", timing.Trust(), "after a heartbeat")
	// Output:
	// 10s 6s 4s <nil>
	// trusted for 25.7s after a heartbeat
}

// What does not fit is refused, with the field and its limit.
func ExampleTimingError() {
	_, err := lease.Timing{TTL: 15 * time.Second, Grace: 14 * time.Second}.Complete()
	var refused *lease.TimingError
	if errors.As(err, &refused) {
		fmt.Println(refused.Field, refused.Value)
	}
	fmt.Println(err)
	// Output:
	// Grace 14s
	// lease: Grace 14s: must be at most 11.85s with a TTL of 15s: heartbeats need the rest
}

// A function deep inside the work finds the holds in its context.
func ExampleHolds() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	err := election.Run(ctx, memstore.New(), "billing", func(ctx context.Context, term election.Term) error {
		defer stop()
		for _, hold := range lease.Holds(ctx) {
			fmt.Println(hold.Name, "this term's:", hold.Token == term.Token(), "trusted:", hold.Trusted())
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// billing this term's: true trusted: true
	// <nil>
}
