package mysqlstore

import (
	"context"
	"database/sql"
)

// rowsOf runs a query and returns its rows, each as scan reads it.
func rowsOf[T any](ctx context.Context, c *conn, query string, scan func(*sql.Rows) (T, error)) ([]T, error) {
	rows, err := c.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		row, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, rows.Err()
}
