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
	tooManyConnections     = 1040
	accessDeniedToDatabase = 1044
	accessDenied           = 1045 // a wrong password, among others
	unknownDatabase        = 1049
	serverShutdown         = 1053
	unknownColumn          = 1054
	duplicateColumn        = 1060
	duplicateKeyName       = 1061
	duplicateKey           = 1062
	packetTooLarge         = 1153
	cannotDrop             = 1091 // a column or key that is not there
	hostBlocked            = 1129 // max_connect_errors
	hostNotPrivileged      = 1130
	commandDenied          = 1142
	columnDenied           = 1143
	noSuchTable            = 1146
	noSuchKey              = 1176
	tooManyOfUser          = 1203 // max_user_connections
	lockWaitTimeout        = 1205
	deadlock               = 1213
	resourceLimit          = 1226 // of an account, MAX_USER_CONNECTIONS among others
	manyRows               = 1242 // of a subquery
	authUnsupported        = 1251
	optionPrevents         = 1290 // read_only, among others
	interrupted            = 1317 // by KILL QUERY
	statementFormat        = 1665 // binlog_format
	deniedNoPassword       = 1698
	readOnlyTransaction    = 1792
	readOnlyMode           = 1836
	mustChangePassword     = 1820
	passwordExpired        = 1862
	connectionKilled       = 1927 // MariaDB
	rollbackInCommit       = 3101 // Group Replication
	lockNotAvailable       = 3572 // MySQL: NOWAIT
	accountLocked          = 3118 // MySQL
	secureTransport        = 3159 // require_secure_transport
	lockedByFailures       = 3955 // MySQL, FAILED_LOGIN_ATTEMPTS
	clientTimeout          = 4031 // MySQL
	blockedByFailures      = 4150 // MariaDB, max_password_errors
	accountLockedMariaDB   = 4151
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

// isRolledBack reports whether the server rolled back the transaction because of a
// conflict with others.
func isRolledBack(err error) bool {
	switch number(err) {
	case deadlock, recordChanged, rollbackInCommit:
		return true
	}
	return false
}

func isServerError(err error) bool { return number(err) != 0 }

// isDenied reports whether the server refused a login. Attempts that repeat one
// count towards the limits after which it locks an account or a host out.
func isDenied(err error) bool {
	switch number(err) {
	case accessDenied, hostBlocked, hostNotPrivileged, authUnsupported, deniedNoPassword, mustChangePassword, passwordExpired,
		accountLocked, secureTransport, lockedByFailures, blockedByFailures, accountLockedMariaDB:
		return true
	}
	return false
}

// isLimit reports whether the server or the account has no connection left.
func isLimit(err error) bool {
	switch number(err) {
	case tooManyConnections, tooManyOfUser, resourceLimit:
		return true
	}
	return false
}

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
// Nearly all of them can pass while a replica waits ([lease.ErrNotReady]).
func (s *Store) explain(err error) error {
	switch {
	case errors.Is(err, lease.ErrSetup):
		return err
	case s.several && isReadOnly(err):
		// No fault of the setup: its primary is changing.
		return fmt.Errorf("%w: %w", errReadOnly, err)
	}
	if isDenied(err) {
		return fmt.Errorf("%w: %w: correct the password or its file, unlock the account, or let this host in", lease.ErrDenied, err)
	}
	cure, kind := "", lease.ErrNotReady
	switch number(err) {
	case noSuchTable, unknownColumn, noSuchKey:
		cure = "the tables are missing or of another version: run Migrate (worker migrate)"
	case unknownDatabase:
		cure = "create the database, or name another one in the DSN"
	case accessDeniedToDatabase, commandDenied, columnDenied:
		cure = "grant SELECT, INSERT, UPDATE and DELETE on the tables (docs/database.md, Grants); Migrate (worker migrate) needs CREATE, ALTER and INDEX too"
	case optionPrevents, readOnlyTransaction, readOnlyMode:
		cure = "the server takes no writes (read_only): use the primary, or SET GLOBAL read_only = OFF"
	case statementFormat:
		kind = lease.ErrSetup
		cure = "set binlog_format to ROW or MIXED"
	}
	switch {
	case cure != "":
		return fmt.Errorf("%w: %w: %s", kind, err, cure)
	case number(err) == packetTooLarge, errors.Is(err, mysql.ErrPktTooLarge):
		return fmt.Errorf("%w: SET GLOBAL max_allowed_packet to 1M (1048576) at least, better 16M as is usual, and the DSN's maxAllowedPacket not below", err)
	case isLimit(err):
		return fmt.Errorf("%w (raise the limit, or lower pool_size: docs/database.md has the numbers)", err)
	case errors.Is(err, driver.ErrBadConn):
		return fmt.Errorf("%w (or, with rejectReadOnly, the server takes no writes)", err)
	}
	return err
}
