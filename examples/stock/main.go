// Command stock sells what there is and no more: two replicas of a shop get
// fifteen orders of two for an item of which there are ten.
//
//	go run ./examples/stock 'user:pass@tcp(127.0.0.1:3306)/app'
//
// It creates the tables example_stock and example_order afresh each time.
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

const (
	item    = "teapot"
	inStock = 10
	orders  = 15
	each    = 2
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: stock DSN")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run has two replicas take the orders, all at the same time.
func run(ctx context.Context, dsn string, out io.Writer) error {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := prepare(ctx, db); err != nil {
		return err
	}
	var replicas [2]*Shop
	for i := range replicas {
		if replicas[i], err = Open(ctx, dsn); err != nil {
			return err
		}
		defer replicas[i].Close()
	}

	var all sync.WaitGroup
	errs := make([]error, orders)
	for number := range orders {
		shop := replicas[number%len(replicas)]
		all.Go(func() { errs[number] = shop.Order(ctx, number, item, each) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return report(ctx, db, out)
}

// prepare makes the tables.
func prepare(ctx context.Context, db *sql.DB) error {
	for _, statement := range []string{
		`DROP TABLE IF EXISTS example_stock, example_order`,
		`CREATE TABLE example_stock (item VARCHAR(64) PRIMARY KEY, left_over INT NOT NULL)`,
		`CREATE TABLE example_order (number INT PRIMARY KEY, item VARCHAR(64) NOT NULL, quantity INT NOT NULL, accepted BOOLEAN NOT NULL)`,
		fmt.Sprintf(`INSERT INTO example_stock VALUES ('%s', %d)`, item, inStock),
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// report prints what became of the orders.
func report(ctx context.Context, db *sql.DB, out io.Writer) error {
	var answered, accepted, left int
	err := db.QueryRowContext(ctx, `
SELECT COUNT(*), COALESCE(SUM(accepted), 0), (SELECT left_over FROM example_stock WHERE item = ?) FROM example_order`, item).
		Scan(&answered, &accepted, &left)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d orders of %d: %d answered, %d accepted, %d of %d left\n", orders, each, answered, accepted, left, inStock)
	return err
}
