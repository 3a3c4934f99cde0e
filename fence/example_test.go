package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/sqlitestore"
)

// A leader writes as long as it leads. Then another replica takes the lease, and
// the old leader has not noticed yet.
func ExampleDo() {
	folder, err := os.MkdirTemp("", "fence-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	store, err := sqlitestore.Open(filepath.Join(folder, "lease.db"))
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
	db := store.DB()
	if _, err := db.ExecContext(ctx, "CREATE TABLE note (id INTEGER PRIMARY KEY)"); err != nil {
		fmt.Println(err)
		return
	}

	err = election.Run(ctx, store, "notes", func(ctx context.Context, _ election.Term) error {
		defer stop()
		write := func() error {
			return fence.Do(ctx, db, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO note DEFAULT VALUES")
				return err
			})
		}
		fmt.Println("while it leads:", write())
		takeAway(ctx, store)
		fmt.Println("afterwards refused:", errors.Is(write(), fence.ErrFenced))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	var notes int
	if err := db.QueryRow("SELECT COUNT(*) FROM note").Scan(&notes); err != nil {
		fmt.Println(err)
	}
	fmt.Println("stored:", notes)
	// Output:
	// while it leads: <nil>
	// afterwards refused: true
	// stored: 1
}

// takeAway takes the lease, as another replica does once it was not renewed.
func takeAway(ctx context.Context, leases store.Leases) {
	readings, err := leases.Read(ctx, "notes")
	if err == nil {
		_, err = leases.Acquire(ctx, store.Acquire{Read: readings[0], Owner: "other", Heartbeat: 1, TTL: time.Minute})
	}
	if err != nil {
		fmt.Println(err)
	}
}

// Commit is for a transaction that the caller has begun, as with a library that
// begins its own. Look at the error of each statement, or use a pool with a Guard.
func ExampleCommit() {
	folder, err := os.MkdirTemp("", "fence-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	store, err := sqlitestore.Open(filepath.Join(folder, "lease.db"))
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
	db := store.DB()
	if _, err := db.ExecContext(ctx, "CREATE TABLE note (id INTEGER PRIMARY KEY)"); err != nil {
		fmt.Println(err)
		return
	}
	err = election.Run(ctx, store, "notes", func(ctx context.Context, _ election.Term) error {
		defer stop()
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // does nothing after Commit
		if _, err := tx.ExecContext(ctx, "INSERT INTO note DEFAULT VALUES"); err != nil {
			return err
		}
		fmt.Println("committed:", fence.Commit(ctx, tx))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: committed: <nil>
}
