package postgresstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cronlease/cronlease/lease"
)

// The codes of errors that are known: https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	undefinedTable       = "42P01"
	undefinedColumn      = "42703"
	invalidSchema        = "3F000"
	readOnlyTransaction  = "25006"
	invalidPassword      = "28P01"
	invalidAuthorization = "28000"
	noDatabase           = "3D000"
	noPrivilege          = "42501"
	protocolViolation    = "08P01"
)

// code is that of the server's error, or empty.
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// explain names the cure where there is one.
func explain(err error) error {
	switch code(err) {
	case undefinedTable, undefinedColumn, invalidSchema:
		return fmt.Errorf("%w: a table or column is missing: run Migrate (worker migrate): %w", lease.ErrNotReady, err)
	case readOnlyTransaction:
		return fmt.Errorf("%w: the server is read-only: connect to the primary (target_session_attrs=read-write): %w", lease.ErrNotReady, err)
	case invalidPassword, invalidAuthorization:
		return fmt.Errorf("%w: %w", lease.ErrDenied, err)
	case noDatabase:
		return fmt.Errorf("%w: create the database: %w", lease.ErrSetup, err)
	case protocolViolation:
		if strings.Contains(err.Error(), "transaction blocks not allowed") {
			return fmt.Errorf("%w: a pooler before the server takes no transactions: set pool_mode = transaction there: %w", lease.ErrSetup, err)
		}
	case noPrivilege:
		return fmt.Errorf("%w: grant the user SELECT, INSERT, UPDATE and DELETE on the tables: %w", lease.ErrSetup, err)
	}
	return err
}
