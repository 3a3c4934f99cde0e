package fence

import (
	"database/sql/driver"
	"errors"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/mysqlerr"
)

// Of SQLite.
const (
	sqliteError        = 1 // the code for what is wrong with a statement
	sqliteInputOutput  = 10
	sqliteCodeMask     = 0xff
	sqliteProbe        = "BEGIN /* cronlease */" // an error within a transaction
	sqliteProbeCleanUp = "ROLLBACK"
)

// sqliteCode is SQLite's primary code of an error.
func sqliteCode(err error) (int, bool) {
	var e interface {
		error
		Code() int // modernc.org/sqlite
	}
	if errors.As(err, &e) {
		return e.Code() & sqliteCodeMask, true
	}
	return 0, false
}

// damage is what an error of a statement has done to its transaction.
type damage int

const (
	noDamage     damage = iota // the statement was refused, or undone, by itself
	unclear                    // the connection can tell, see [guard.isOver]
	halfOrNoMore               // the transaction cannot be trusted any more
)

// damageOf tells what an error has done. Of MySQL and MariaDB, these leave less
// than the statements so far, or may:
//
//   - 1213 and 1206 have rolled the transaction back, and what follows would be
//     committed by itself;
//   - 1205, 1317, 1969 and 3024 have rolled the statement back, for no fault of
//     its own: a COMMIT would store the others without it;
//   - 1020 does either, depending on MariaDB's release;
//   - 1053, 1927, 4031 and all that no server sends: the connection is lost.
//
// Others, such as 1062 (a duplicate key) or 3572 (NOWAIT), answer what was
// asked, and the transaction goes on as before. No error of an unknown driver is
// taken to be harmless.
func damageOf(err error) damage {
	var answer *mysql.MySQLError
	switch {
	case err == nil, errors.Is(err, driver.ErrSkip):
		return noDamage
	case errors.Is(err, ErrUnfenced):
		return halfOrNoMore
	case errors.As(err, &answer):
		switch answer.Number {
		case mysqlerr.RecordChanged, mysqlerr.LockWaitTimeout, mysqlerr.LockTableFull, mysqlerr.Deadlock,
			mysqlerr.Interrupted, mysqlerr.StatementTimeout, mysqlerr.QueryTimeout,
			mysqlerr.ServerShutdown, mysqlerr.ConnectionKilled, mysqlerr.ClientTimeout:
			return halfOrNoMore
		}
		return noDamage
	}
	if _, ok := sqliteCode(err); ok {
		return unclear
	}
	return halfOrNoMore
}

// isRefusal reports whether an error of COMMIT says that nothing is stored. A
// server that is stopped, or a session that is killed, may have stored it.
func isRefusal(err error) bool {
	switch mysqlerr.Number(err) {
	case mysqlerr.Deadlock, mysqlerr.RollbackInCommit, mysqlerr.OptionPrevents, mysqlerr.ReadOnlyMode:
		return true
	}
	if code, ok := sqliteCode(err); ok {
		return code != sqliteInputOutput
	}
	return errors.Is(err, driver.ErrBadConn) // never sent, by the contract of drivers
}
