package mysqlconn

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// Of a pool with several hosts, which then looks for another one.
var (
	errReadOnly = errors.New("the server takes no writes")
	errNotReady = errors.New("the node has no majority of its cluster, or is joining it (wsrep_ready)")
)

// grants is the cure when an account lacks some.
const grants = "grant SELECT, INSERT, UPDATE and DELETE on the tables (docs/database.md, Grants); Migrate (worker migrate) needs CREATE, ALTER and INDEX too"

// IsAnswer reports whether err leaves its connection in good order: the
// statement has run and the rows were not as expected, the server rolled it back, or
// none was sent.
func IsAnswer(err error) bool {
	if mysqlerr.Number(err) == mysqlerr.LockWaitTimeout || IsRolledBack(err) {
		return true
	}
	for _, answer := range []error{store.ErrChanged, store.ErrReplaced, store.ErrOtherServer, jobs.ErrNoJob, jobs.ErrNoRun, jobs.ErrManyOpen, errors.ErrUnsupported} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// IsRolledBack reports whether the server rolled back the transaction because of a
// conflict with others.
func IsRolledBack(err error) bool {
	switch mysqlerr.Number(err) {
	case mysqlerr.Deadlock, mysqlerr.RecordChanged, mysqlerr.RollbackInCommit:
		return true
	}
	return false
}

// IsServerError reports whether err is an answer of the server.
func IsServerError(err error) bool { return mysqlerr.Number(err) != 0 }

// isDenied reports whether the server refused a login. Attempts that repeat one
// count towards the limits after which it locks an account or a host out.
func isDenied(err error) bool {
	switch mysqlerr.Number(err) {
	case mysqlerr.AccessDenied, mysqlerr.HostBlocked, mysqlerr.HostNotPrivileged, mysqlerr.AuthUnsupported,
		mysqlerr.DeniedNoPassword, mysqlerr.MustChangePassword, mysqlerr.PasswordExpired, mysqlerr.AccountLocked,
		mysqlerr.SecureTransport, mysqlerr.LockedByFailures, mysqlerr.BlockedByFailures, mysqlerr.AccountLockedMariaDB:
		return true
	}
	return false
}

// isAccount reports whether the server refused a login whose password was right: it looks whether the account is locked, or
// the password has expired, only then.
func isAccount(err error) bool {
	switch mysqlerr.Number(err) {
	case mysqlerr.MustChangePassword, mysqlerr.PasswordExpired, mysqlerr.AccountLocked, mysqlerr.AccountLockedMariaDB:
		return true
	}
	return false
}

// isUnreached reports whether there was no connection to a server, so that it has not seen a login.
func isUnreached(err error) bool {
	var e *net.OpError
	return errors.As(err, &e) && e.Op == "dial"
}

// isLimit reports whether the server or the account has no connection left.
func isLimit(err error) bool {
	switch mysqlerr.Number(err) {
	case mysqlerr.TooManyConnections, mysqlerr.TooManyOfUser, mysqlerr.ResourceLimit:
		return true
	}
	return false
}

// unfit is what settings say that keep a server from writing, as whyUnfit names them.
func unfit(settings string) error {
	switch settings {
	case "":
		return nil
	case "wsrep_ready":
		return errNotReady
	}
	return fmt.Errorf("%w (%s)", errReadOnly, settings)
}

// unfitOf returns errReadOnly or errNotReady if that is why the server refused a statement, of which it did
// nothing, and otherwise nil.
func unfitOf(err error) error {
	switch mysqlerr.Number(err) {
	case mysqlerr.OptionPrevents, mysqlerr.ReadOnlyTransaction, mysqlerr.ReadOnlyMode:
		return errReadOnly
	case mysqlerr.NodeNotReady:
		return errNotReady
	}
	return nil
}

// IsConnectionError reports whether err is of the connection and not of a
// statement.
func IsConnectionError(err error) bool {
	var network net.Error
	switch {
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, mysql.ErrInvalidConn), errors.Is(err, sql.ErrConnDone),
		errors.Is(err, errReadOnly), errors.Is(err, errNotReady), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &network):
		return true
	}
	switch mysqlerr.Number(err) {
	case mysqlerr.ServerShutdown, mysqlerr.ConnectionKilled, mysqlerr.ClientTimeout:
		return true
	}
	return false
}

// Explain adds the cure to errors that say that the database is not set up.
// Nearly all of them can pass while a replica waits ([lease.ErrNotReady]).
func (p *Pool) Explain(err error) error {
	switch {
	case errors.Is(err, lease.ErrSetup):
		return err
	case p.several && unfitOf(err) != nil:
		// No fault of the setup: its primary is changing.
		return fmt.Errorf("%w: %w", unfitOf(err), err)
	}
	if isDenied(err) {
		return fmt.Errorf("%w: %w: correct the password or its file, unlock the account, let this host in, or use TLS if the account requires it", lease.ErrDenied, err)
	}
	cure, kind := "", lease.ErrNotReady
	switch mysqlerr.Number(err) {
	case mysqlerr.NoSuchTable, mysqlerr.UnknownColumn, mysqlerr.NoSuchKey:
		cure = "the tables are missing or of another version: run Migrate (worker migrate)"
	case mysqlerr.UnknownDatabase:
		cure = "create the database, or name another one in the DSN"
	case mysqlerr.AccessDeniedToDatabase:
		cure = "correct the name of the database, or " + grants
	case mysqlerr.CommandDenied, mysqlerr.ColumnDenied:
		cure = grants
	case mysqlerr.OptionPrevents, mysqlerr.ReadOnlyTransaction, mysqlerr.ReadOnlyMode:
		cure = "the server takes no writes (read_only): use the primary, or SET GLOBAL read_only = OFF"
	case mysqlerr.NodeNotReady:
		cure = "it has no majority of its cluster, or is joining it (wsrep_ready): use another node meanwhile"
	case mysqlerr.StatementFormat:
		kind = lease.ErrSetup
		cure = "set binlog_format to ROW or MIXED"
	}
	switch {
	case cure != "":
		return fmt.Errorf("%w: %w: %s", kind, err, cure)
	case mysqlerr.Number(err) == mysqlerr.PacketTooLarge, errors.Is(err, mysql.ErrPktTooLarge):
		return fmt.Errorf("%w: SET GLOBAL max_allowed_packet to 1M (1048576) at least, better 16M as is usual, and the DSN's maxAllowedPacket not below", err)
	case isLimit(err):
		return fmt.Errorf("%w (raise the limit, or lower pool_size: docs/database.md has the numbers)", err)
	case errors.Is(err, driver.ErrBadConn):
		return fmt.Errorf("%w (or, with rejectReadOnly, the server takes no writes)", err)
	}
	return err
}
