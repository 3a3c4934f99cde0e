// Package fence commits a transaction only if its holder has not been replaced
// (guarantee 3). It is for jobs and leading functions that write to the
// database that keeps their lease, and so for work that must not be done twice
// or too late, even if its process stood still in the middle of it:
//
//	err := fence.Do(ctx, db, func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance - 1 WHERE id = ?", id)
//		return err
//	})
//
// The token comes with ctx, the context that the job was called with. The
// transaction is a [*sql.Tx], for sqlx, GORM, or whatever is used to write;
// statements for it are prepared on it, and not on db. [Commit] is for transactions
// that the caller begins.
//
// # Why it holds
//
// A takeover writes the group's fence row. At its end, right before COMMIT, a
// fenced transaction takes a shared lock on this row and compares owner and
// token. If the takeover was first, they differ, and nothing is stored. If it
// comes after, it waits for the lock, and so its term begins after the
// COMMIT. Heartbeats write another row and wait for neither, however long the
// transaction is.
//
// A process that stands still between the check and COMMIT keeps the lock. So
// before it takes it, it has the server end its session when nothing is heard
// of it for the time of [WithBound], 2 s by default, which rolls the
// transaction back: that is how long it can hold up a takeover.
//
// In a group that spreads its runs over its replicas, a run is under the lease of its replica, which outlasts it. So the
// transaction locks and compares the run's row too: it is refused once its attempt is over, and
// what ends an attempt waits for it.
//
// On a cluster with several writers (Galera, or Group Replication with
// multi-primary mode) a shared lock does not block a takeover on another node.
// There the check writes the row, which the cluster notices: of the takeover and
// the transaction, the second to commit fails. The store finds out by
// itself, and does the same with claims and all that the ledger writes for a holder.
//
// On PostgreSQL those who check a row do not queue behind a takeover that waits for it, so both take their turn by an advisory
// lock first. Above READ COMMITTED the check fails with the error 40001 if the row was changed since the transaction began: then it is
// refused, or [ErrBroken].
//
// SQLite has one lock for the file: the check is a write, and a transaction that
// has written anything keeps out every other writer until it ends, heartbeats
// too. Keep fenced transactions shorter there than a lease can do without a
// heartbeat. A process that is stopped in the middle of one blocks the file.
//
// # Broken transactions
//
// After some errors a transaction is not what it was: 1213 (deadlock) rolls it
// back, and what follows is stored statement by statement; 1205 (lock wait
// timeout) rolls one statement back, and COMMIT would store the others. Code
// that goes on all the same stores a half. So [Do] stands between the driver and
// database/sql, remembers the first such error, and refuses everything after it
// with [ErrBroken]. [Guard] does the same for a pool, and for [Commit]. What has ended the
// transaction without its check is [ErrUnfenced].
//
// PostgreSQL itself refuses everything after an error, but for a ROLLBACK, or one to a savepoint.
//
// MariaDB rolls the whole transaction back, and goes on with it as if it had not, at an
// error of a CREATE TEMPORARY TABLE ... SELECT (10.11), and of an INSERT into an empty
// table with unique_checks and foreign_key_checks off. After an error both ask whether it may
// have been such a one. They see none that a procedure has handled itself: docs/fencing.md.
//
// # What it does not do
//
// It says nothing about effects elsewhere: hand the token to what you write to,
// and let that refuse older ones; docs/fencing.md has an example. And it
// compares tokens when it commits, no earlier: what fn does besides the
// transaction is done by then.
package fence
