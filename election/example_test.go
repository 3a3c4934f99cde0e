package election_test

import (
	"context"
	"fmt"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/store/memstore"
)

// Every replica calls Run, and the function runs on the one that leads. In a
// service the store is one of mysqlstore, and ctx ends with the process.
func ExampleRun() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	err := election.Run(ctx, memstore.New(), "indexer", func(ctx context.Context, term election.Term) error {
		fmt.Println("leading, with a token:", term.Token() > 0)
		stop()       // as SIGTERM would
		<-ctx.Done() // the work: until the term ends
		fmt.Println(context.Cause(ctx))
		return nil
	})
	fmt.Println("released:", err)
	// Output:
	// leading, with a token: true
	// election: stopped
	// released: <nil>
}

// Any client of the database can read who leads.
func ExampleLeader() {
	store := memstore.New()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	err := election.Run(ctx, store, "indexer", func(ctx context.Context, term election.Term) error {
		defer stop()
		leadership, err := election.Leader(ctx, store, "indexer")
		if err != nil {
			return err
		}
		fmt.Println("held:", leadership.Held(), "by this term:", leadership.Token == term.Token())
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	leadership, err := election.Leader(context.Background(), store, "indexer")
	fmt.Println("held:", leadership.Held(), "released:", leadership.Released, err)
	// Output:
	// held: true by this term: true
	// held: false released: true <nil>
}
