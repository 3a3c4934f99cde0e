package postgresstore_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/postgresstore"
)

// A service with a pool of database/sql: fence.Do fences its transactions.
func ExampleOpen() {
	store, err := postgresstore.Open("postgres://app:secret@db:5432/app")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	s, err := scheduler.New(store, "billing")
	if err != nil {
		fmt.Println(err)
		return
	}
	err = s.Add(jobs.Job{Name: "close-day", Schedule: jobs.Cron("0 0 0 * * *"), Do: func(ctx context.Context, run jobs.Run) error {
		return fence.Do(ctx, store.DB(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO day (closed_at) VALUES ($1)", run.Tick)
			return err
		})
	}})
	fmt.Println(err)
	// Output: <nil>
}

// A service with a pool of pgx. What sqlc generates for pgx takes tx, too: queries.WithTx(tx).
func ExampleStore_Do() {
	pool, err := pgxpool.New(context.Background(), "postgres://app:secret@db:5432/app")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	store, err := postgresstore.NewFromPool(pool)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	s, err := scheduler.New(store, "billing")
	if err != nil {
		fmt.Println(err)
		return
	}
	err = s.Add(jobs.Job{Name: "close-day", Schedule: jobs.Cron("0 0 0 * * *"), Do: func(ctx context.Context, run jobs.Run) error {
		return store.Do(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO day (closed_at) VALUES ($1)", run.Tick)
			return err
		})
	}})
	fmt.Println(err)
	// Output: <nil>
}
