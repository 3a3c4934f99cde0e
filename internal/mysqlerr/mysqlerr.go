// Package mysqlerr has the numbers of the errors of MySQL and MariaDB. It says
// nothing of what to do after one: that differs between a store's own connections
// and the transactions of a caller.
package mysqlerr

import (
	"errors"

	"github.com/go-sql-driver/mysql"
)

// Errors of the server.
const (
	RecordChanged          = 1020
	TooManyConnections     = 1040
	AccessDeniedToDatabase = 1044
	AccessDenied           = 1045 // a wrong password, among others
	NodeNotReady           = 1047 // of Galera: no majority, or it is joining
	UnknownDatabase        = 1049
	ServerShutdown         = 1053
	UnknownColumn          = 1054
	DuplicateColumn        = 1060
	DuplicateKeyName       = 1061
	DuplicateKey           = 1062
	CannotDrop             = 1091 // a column or key that is not there
	NoSuchThread           = 1094
	HostBlocked            = 1129 // max_connect_errors
	HostNotPrivileged      = 1130
	CommandDenied          = 1142
	ColumnDenied           = 1143
	NoSuchTable            = 1146
	PacketTooLarge         = 1153
	NoSuchKey              = 1176
	ErrorInCommit          = 1180
	TooManyOfUser          = 1203 // max_user_connections
	LockWaitTimeout        = 1205
	LockTableFull          = 1206
	Deadlock               = 1213
	ResourceLimit          = 1226 // of an account, MAX_USER_CONNECTIONS among others
	ManyRows               = 1242 // of a subquery
	AuthUnsupported        = 1251
	OptionPrevents         = 1290 // read_only, among others
	NoSavepoint            = 1305
	Interrupted            = 1317 // by KILL QUERY, among others
	InTransaction          = 1568 // of SET TRANSACTION within one
	StatementFormat        = 1665 // binlog_format
	DeniedNoPassword       = 1698
	ReadOnlyTransaction    = 1792
	MustChangePassword     = 1820
	ReadOnlyMode           = 1836
	PasswordExpired        = 1862
	ConnectionKilled       = 1927 // MariaDB
	StatementTimeout       = 1969 // MariaDB
	QueryTimeout           = 3024 // MySQL
	RollbackInCommit       = 3101 // Group Replication
	AccountLocked          = 3118 // MySQL
	SecureTransport        = 3159 // require_secure_transport
	LockNotAvailable       = 3572 // MySQL: NOWAIT
	CannotConvert          = 3854 // MySQL: a string into another character set
	LockedByFailures       = 3955 // MySQL, FAILED_LOGIN_ATTEMPTS
	ClientTimeout          = 4031 // MySQL: wait_timeout has passed
	BlockedByFailures      = 4150 // MariaDB, max_password_errors
	AccountLockedMariaDB   = 4151
)

// Number is the number of the server's error in err, and 0 if there is none.
func Number(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}
