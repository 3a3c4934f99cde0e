// Command payment takes one payment for an order that is submitted twice, to
// two replicas at the same moment, as an impatient customer does.
//
//	go run ./examples/payment 'user:pass@tcp(127.0.0.1:3306)/app'
//
// It creates the table example_payment afresh each time.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	_ "github.com/go-sql-driver/mysql"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: payment DSN")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run submits order 42 to two replicas.
func run(ctx context.Context, dsn string, out io.Writer) error {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := prepare(ctx, db); err != nil {
		return err
	}
	bank := &Bank{}
	var replicas [2]*Checkout
	for i := range replicas {
		if replicas[i], err = Open(ctx, dsn, bank); err != nil {
			return err
		}
		defer replicas[i].Close()
	}

	var both sync.WaitGroup
	var receipts [2]string
	var errs [2]error
	for i, replica := range replicas {
		both.Go(func() { receipts[i], errs[i] = replica.Pay(ctx, 42, 1999) })
	}
	both.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	charges, cents := bank.Charges()
	_, err = fmt.Fprintf(out, "receipts %s and %s, %d charge(s), %d cents\n", receipts[0], receipts[1], charges, cents)
	return err
}

// prepare makes the table.
func prepare(ctx context.Context, db *sql.DB) error {
	for _, statement := range []string{
		`DROP TABLE IF EXISTS example_payment`,
		`CREATE TABLE example_payment (order_id INT PRIMARY KEY, cents INT NOT NULL, receipt VARCHAR(64) NULL)`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
