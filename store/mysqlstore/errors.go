package mysqlstore

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
)

var (
	errClosed = errors.New("mysqlstore: closed")
	// errReadOnly is of a store with several hosts, which then looks for another.
	errReadOnly = errors.New("the server takes no writes")
)

// Errors of the server, by number.
const (
	recordChanged          = 1020
	accessDeniedToDatabase = 1044
	unknownDatabase        = 1049
	serverShutdown         = 1053
	unknownColumn          = 1054
	duplicateKey           = 1062
	commandDenied          = 1142
	columnDenied           = 1143
	noSuchTable            = 1146
	lockWaitTimeout        = 1205
	deadlock               = 1213
	optionPrevents         = 1290 // read_only, among others
	interrupted            = 1317 // by KILL QUERY
	statementFormat        = 1665 // binlog_format
	readOnlyTransaction    = 1792
	readOnlyMode           = 1836
	connectionKilled       = 1927 // MariaDB
	rollbackInCommit       = 3101 // Group Replication
	clientTimeout          = 4031 // MySQL
)

func number(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// isAnswer reports whether err leaves its session in good order: the
// statement has run and the rows were not as expected, or the server rolled it
// back.
func isAnswer(err error) bool {
	if number(err) == lockWaitTimeout || isRolledBack(err) {
		return true
	}
	for _, answer := range []error{lease.ErrChanged, jobs.ErrReplaced, jobs.ErrNoJob, jobs.ErrNoRun} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// isRolledBack reports whether the server rolled back the transaction because it
// was in the way of others.
func isRolledBack(err error) bool {
	switch number(err) {
	case deadlock, recordChanged, rollbackInCommit:
		return true
	}
	return false
}

func isServerError(err error) bool { return number(err) != 0 }

// isReadOnly reports whether the server refused a statement, of which it did
// nothing, because it takes no writes.
func isReadOnly(err error) bool {
	switch number(err) {
	case optionPrevents, readOnlyTransaction, readOnlyMode:
		return true
	}
	return false
}

// isConnectionError reports whether err is of the connection and not of a
// statement.
func isConnectionError(err error) bool {
	var network net.Error
	switch {
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, mysql.ErrInvalidConn), errors.Is(err, sql.ErrConnDone),
		errors.Is(err, errReadOnly), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &network):
		return true
	}
	switch number(err) {
	case serverShutdown, connectionKilled, clientTimeout:
		return true
	}
	return false
}

// explain adds the cure to errors that say that the database is not set up.
func (s *Store) explain(err error) error {
	switch {
	case errors.Is(err, lease.ErrSetup):
		return err
	case s.several && isReadOnly(err):
		// No fault of the setup: its primary is changing.
		return fmt.Errorf("%w: %w", errReadOnly, err)
	}
	cure := ""
	switch number(err) {
	case noSuchTable, unknownColumn:
		cure = "the tables are missing or of another version: run Migrate (worker migrate)"
	case unknownDatabase:
		cure = "create the database, or name another one in the DSN"
	case accessDeniedToDatabase, commandDenied, columnDenied:
		cure = "grant SELECT, INSERT and UPDATE on the tables; Migrate (worker migrate) needs CREATE, ALTER and INDEX too"
	case optionPrevents, readOnlyTransaction, readOnlyMode:
		cure = "the server takes no writes (read_only): use the primary, or SET GLOBAL read_only = OFF"
	case statementFormat:
		cure = "set binlog_format to ROW or MIXED"
	}
	switch {
	case cure != "":
		return fmt.Errorf("%w: %w: %s", lease.ErrSetup, err, cure)
	case errors.Is(err, driver.ErrBadConn):
		return fmt.Errorf("%w (or, with rejectReadOnly, the server takes no writes)", err)
	}
	return err
}
