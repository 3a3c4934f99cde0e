package sqlitestore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// Migrate creates the file and its tables; processes of one host share it.
func ExampleOpen() {
	folder, err := os.MkdirTemp("", "leases-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	store, err := sqlitestore.Open(filepath.Join(folder, "leases.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if err := store.Migrate(ctx); err != nil {
		fmt.Println(err)
		return
	}
	err = election.Run(ctx, store, "indexer", func(context.Context, election.Term) error {
		fmt.Println("leading")
		stop()
		return nil
	})
	fmt.Println(err)
	// Output:
	// leading
	// <nil>
}
