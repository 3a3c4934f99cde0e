package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/lease"
)

// fails is a statement that every server refuses with the error manyRows.
const fails = `SET @cronlease = (SELECT 1 UNION SELECT 2)`

// checkWrapper refuses a caller's driver, of a type that is not known, which
// does not return the server's errors as github.com/go-sql-driver/mysql does:
// what the store does after an error depends on its number.
func (s *Store) checkWrapper(ctx context.Context, conn *sql.Conn) error {
	if s.wrapper == "" || s.wrapperFits.Load() {
		return nil
	}
	_, err := conn.ExecContext(ctx, fails)
	switch {
	case mysqlerr.Number(err) == mysqlerr.ManyRows:
		s.wrapperFits.Store(true)
		return nil
	case ctx.Err() != nil, isServerError(err), isConnectionError(err):
		return err
	}
	return fmt.Errorf("%w: the driver %s does not return errors of github.com/go-sql-driver/mysql (*mysql.MySQLError, for errors.As; this was %T): use Open, whose connections are the store's own",
		lease.ErrSetup, s.wrapper, err)
}
