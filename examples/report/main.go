// Command report writes a report in parts. The replica that began it is stopped
// in the middle, and the next leader goes on where it ended.
//
//	go run ./examples/report 'user:pass@tcp(127.0.0.1:3306)/app'
//
// It creates the table example_report afresh each time.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/store/mysqlstore"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: report DSN")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run starts two replicas, stops the one that leads when it has written three
// parts, and waits until the report is whole.
func run(ctx context.Context, dsn string, out io.Writer) error {
	store, err := mysqlstore.Open(dsn)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := errors.Join(store.Migrate(ctx), prepare(ctx, store.DB())); err != nil {
		return err
	}

	var replicas sync.WaitGroup
	defer replicas.Wait()
	ctx, stopAll := context.WithCancel(ctx)
	defer stopAll()
	written := make(chan part)
	failed := make(chan error, 2)
	var stops [2]context.CancelFunc
	due := time.Now().Add(time.Second)
	for i := range stops {
		replicaCtx, stop := context.WithCancel(ctx)
		stops[i] = stop
		r := &Reporter{number: i, dsn: dsn, due: due, written: written}
		replicas.Go(func() { failed <- r.Run(replicaCtx) })
	}

	for stopped := false; ; {
		select {
		case p := <-written:
			if p.number == 3 && !stopped {
				stopped = true
				stops[p.replica]() // as a deployment does
			}
			if p.number == parts {
				return report(ctx, store.DB(), out)
			}
		case err := <-failed:
			if err != nil {
				return err
			}
		}
	}
}

// prepare makes the table.
func prepare(ctx context.Context, db *sql.DB) error {
	for _, statement := range []string{
		`DROP TABLE IF EXISTS example_report`,
		`CREATE TABLE example_report (tick BIGINT NOT NULL, part INT NOT NULL, attempt INT NOT NULL, token BIGINT UNSIGNED NOT NULL, PRIMARY KEY (tick, part))`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// report prints how many parts each attempt wrote.
func report(ctx context.Context, db *sql.DB, out io.Writer) error {
	rows, err := db.QueryContext(ctx, `SELECT attempt, COUNT(*) FROM example_report GROUP BY tick, attempt, token ORDER BY token`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var attempt, count int
		if err := rows.Scan(&attempt, &count); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "attempt %d wrote %d parts\n", attempt, count); err != nil {
			return err
		}
	}
	return rows.Err()
}
