package memstore_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/store/memstore"
)

// Replicas in one process share a store: when the leader stops, the other goes on.
func Example() {
	store := memstore.New()
	tokens := make(chan uint64)
	var replicas sync.WaitGroup
	start := func() (stop func()) {
		ctx, stop := context.WithCancel(context.Background())
		replicas.Go(func() {
			err := election.Run(ctx, store, "indexer", func(ctx context.Context, term election.Term) error {
				tokens <- term.Token()
				<-ctx.Done()
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		})
		return stop
	}
	stopFirst := start()
	first := <-tokens
	stopSecond := start()
	stopFirst()
	second := <-tokens
	stopSecond()
	replicas.Wait()
	fmt.Println("a higher token:", second > first)
	// Output: a higher token: true
}
