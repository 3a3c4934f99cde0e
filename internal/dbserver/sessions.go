package dbserver

import (
	"context"
	"database/sql"
	"time"

	"github.com/cronlease/cronlease/internal/mysqlerr"
)

// Sessions counts the sessions of the server for which the condition holds, on the columns of information_schema.processlist.
func Sessions(ctx context.Context, db *sql.DB, condition string, values ...any) (n int, err error) {
	err = Listed(ctx, func() error {
		return db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE "+condition, values...).Scan(&n)
	})
	return n, err
}

// Listed runs a query of the sessions of a server, and repeats it for as long as the server cannot answer: MySQL lists no
// session while one of them, of any test, runs a statement that it cannot convert. Another error is returned.
func Listed(ctx context.Context, query func() error) error {
	for {
		err := query()
		if mysqlerr.Number(err) != mysqlerr.CannotConvert {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}
