package fence

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/mysqlerr"
	"github.com/cronlease/cronlease/internal/sqlverb"
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

// The statements that a fence sends to PostgreSQL, and the codes of its errors that count here
// (https://www.postgresql.org/docs/current/errcodes-appendix.html).
const (
	// idleStatement, and a number, has the server end a session that says nothing within this transaction for so many milliseconds.
	idleStatement = "SET LOCAL idle_in_transaction_session_timeout = "
	// openProbe fails outside of a transaction, and changes nothing that matters within one.
	openProbe        = "SAVEPOINT cronlease_probe"
	postgresCommit   = "COMMIT AND NO CHAIN"
	postgresRollback = "ROLLBACK AND NO CHAIN"

	noTransaction     = "25P01"
	failedTransaction = "25P02" // an error before has ended all of it but its ROLLBACK
	idleTooLong       = "25P03"
	noSuchSavepoint   = "3B001"
	queryCanceled     = "57014"
	lockTimeout       = "55P03"
)

// sqlState is the code of an error of PostgreSQL, or empty.
func sqlState(err error) string {
	var e interface {
		error
		SQLState() string // pgx, lib/pq
	}
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// endsSession reports whether a code says that the session is over: an exception of the connection, or an end that an operator, or
// a crash, has made of it.
func endsSession(state string) bool {
	return strings.HasPrefix(state, "08") || strings.HasPrefix(state, "57P") || state == idleTooLong
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
//   - 1180 is of a COMMIT, and on MariaDB also of an INSERT that has rolled the
//     transaction back;
//   - 1053, 1927, 4031 and all that no server sends: the connection is lost.
//
// After an error PostgreSQL refuses all but a ROLLBACK, or one to a savepoint, by itself. Some say that the transaction is to be tried
// again as a whole: those of class 40, and a wait that was too long.
//
// Others, such as 1062 (a duplicate key) or 3572 (NOWAIT), answer what was
// asked, and the transaction goes on as before, but for [guard.doubt]. No error of an
// unknown driver is taken to be harmless.
func damageOf(err error) damage {
	var answer *mysql.MySQLError
	switch {
	case err == nil, errors.Is(err, driver.ErrSkip):
		return noDamage
	case errors.Is(err, ErrUnfenced):
		return halfOrNoMore
	case errors.As(err, &answer):
		switch answer.Number {
		case mysqlerr.RecordChanged, mysqlerr.ErrorInCommit, mysqlerr.LockWaitTimeout, mysqlerr.LockTableFull, mysqlerr.Deadlock,
			mysqlerr.Interrupted, mysqlerr.StatementTimeout, mysqlerr.QueryTimeout,
			mysqlerr.ServerShutdown, mysqlerr.ConnectionKilled, mysqlerr.ClientTimeout:
			return halfOrNoMore
		}
		return noDamage
	}
	switch state := sqlState(err); {
	case state == "":
	case endsSession(state), strings.HasPrefix(state, "40"), state == failedTransaction, state == queryCanceled, state == lockTimeout:
		return halfOrNoMore
	default:
		return noDamage
	}
	if _, ok := sqliteCode(err); ok {
		return unclear
	}
	return halfOrNoMore
}

// At some errors that damageOf takes for harmless, MariaDB rolls the whole transaction back
// without a word, and leaves it open with its savepoints:
//
//   - in a session with unique_checks and foreign_key_checks off, that of an INSERT into a table
//     that was empty, whatever statement it belongs to (10.6 and later);
//   - that of a CREATE TEMPORARY TABLE ... SELECT (10.11, not 11.8).
//
// Only MariaDB reads the questions whether such a thing may have happened. The LIMIT goes before the
// session's sql_select_limit.
const (
	asks         = `SELECT 1 FROM DUAL WHERE FALSE /*M!100000 OR @@unique_checks = 0 AND @@foreign_key_checks = 0 `
	askUnchecked = asks + `*/ LIMIT 1`
	askTemporary = asks + `OR NOT EXISTS (SELECT 1 FROM information_schema.SESSION_STATUS` +
		` WHERE VARIABLE_NAME = 'COM_CREATE_TEMPORARY_TABLE' AND VARIABLE_VALUE = '0') */ LIMIT 1`
)

// doubt asks, after the error of a statement, whether it may have rolled back all of the
// transaction, and notes that. It is called with the mutex held.
func (g *guard) doubt(ctx context.Context, text string, err error) {
	if !g.in || g.broken != nil || !g.implicit || mysqlerr.Number(err) == 0 || damageOf(err) != noDamage {
		return
	}
	if text == beginProbe { // which always has one
		return
	}
	question := askUnchecked
	if _, hidden := unseen(text); hidden || sqlverb.Fills(text) {
		question = askTemporary
	}
	longer, cancel := outlast(ctx, g.bound)
	defer cancel()
	if g.says(longer, question) {
		g.broken = err
	}
}

// says reports whether the answer to a question has a row, or there is none.
func (g *guard) says(ctx context.Context, question string) bool {
	queryer, ok := g.raw.(driver.QueryerContext)
	if !ok {
		return true
	}
	rows, err := queryer.QueryContext(ctx, question, nil)
	if err != nil {
		return true
	}
	row := make([]driver.Value, len(rows.Columns()))
	err = rows.Next(row)
	return rows.Close() != nil || !errors.Is(err, io.EOF)
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
	if state := sqlState(err); state != "" {
		return !endsSession(state)
	}
	return errors.Is(err, driver.ErrBadConn) // never sent, by the contract of drivers
}
