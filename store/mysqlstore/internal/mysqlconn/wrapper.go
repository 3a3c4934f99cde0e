package mysqlconn

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
// what is done after an error depends on its number.
func (p *Pool) checkWrapper(ctx context.Context, conn *sql.Conn) error {
	if p.wrapper == "" || p.wrapperFits.Load() {
		return nil
	}
	_, err := conn.ExecContext(ctx, fails)
	switch {
	case mysqlerr.Number(err) == mysqlerr.ManyRows:
		p.wrapperFits.Store(true)
		return nil
	case ctx.Err() != nil, IsServerError(err), IsConnectionError(err):
		return err
	}
	return fmt.Errorf("%w: the driver %s does not return errors of github.com/go-sql-driver/mysql (*mysql.MySQLError, for errors.As; this was %T): use Open, whose connections are the store's own",
		lease.ErrSetup, p.wrapper, err)
}
