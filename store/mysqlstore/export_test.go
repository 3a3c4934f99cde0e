package mysqlstore

import (
	"context"
	"database/sql"

	"github.com/cronlease/cronlease/lease"
)

// For the tests of package mysqlstore_test.
var (
	Fill       = fill
	LockName   = lockName
	Statements = statements
	ParseDSN   = parseDSN
	Newest     = len(migrations)
)

// RenewStatement is the statement that Renew sends.
func (s *Store) RenewStatement(r lease.Renew) string { return s.renewStatement(r) }

// SessionStatements make a connection what the store's own are.
func SessionStatements() []string { return sessionStatements(settings{lockWait: beatLockWait}) }

// Started is the second in which the connection's server was started.
func Started(ctx context.Context, conn *sql.Conn) (uint64, error) {
	var version string
	if err := conn.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return 0, err
	}
	_, started, _, err := readStart(ctx, conn, server{variables: map[string]string{"version": version}}.isMariaDB())
	return started, err
}
