// Package mysqlconn keeps the connections of a store in MySQL or MariaDB, and says
// what their errors mean. Which statements they carry is the business of others.
//
// # Which connection carries what
//
// [Pool.Do] runs each piece of work on a connection of a [Lane]. Lanes share
// nothing, so that no work waits behind that of another lane:
//
//   - [Heartbeats], one connection, for short statements that wait for no row, and another
//     one while the statement of the first does not end;
//   - [Readings], two, for readings and for the takeovers that rely on them;
//   - [Ledger], up to four, as many as are needed at once;
//   - [Locks], up to four, of which [WaitingLocks] uses the last two alone.
//
// A connection is opened when it is first needed, and is used by one caller at a
// time. What occupies a connection for long, such as a wait, takes one of its own
// by a [Series].
//
// Each connection is set up before its first use: character set, autocommit,
// strict mode, time zone, isolation and short lock waits. The settings are read
// back, and the connection never returns to a pool, so that the pool may have any
// settings. [Pool.DB] is for the other parts of the program.
//
// # When a connection is given up
//
// A connection is kept only after a clear answer: success, a refusal that its
// caller expects ([store.ErrChanged] and the like), a lock wait that timed out, or a
// transaction that the server rolled back. After any other error it is closed. The
// work is then repeated once, on a new connection, if that does no harm: when it
// only reads, when the driver says that nothing was sent, or when a server that
// takes no writes refused it and the DSN names other hosts. A connection that was
// idle is looked at before it is used; with several hosts, its server is asked once
// a second whether it still takes writes.
//
// A session of the server may outlive its connection, which the server does not notice while
// a commit waits for a replica, or when the network has lost it. So a connection takes the
// place of one that was given up only when the server is known to be rid of that one's
// session ([Series]), and one further connection finds that out for all. It kills sessions that
// wait for nothing or read, and none that may write. Of the lanes with several
// connections, the last one that is not held up is kept for what reads.
//
// Each call ends after 30 s, with its context, and with the pool. A login that takes longer than its call has
// goes on while the server keeps answering, and a later call takes the connection. A login that was
// refused is not repeated for a while by any connection of the pool, because
// servers lock accounts after a few.
//
// # What an error means
//
// Errors match [lease.ErrSetup] when only a change of settings helps,
// [lease.ErrNotReady] when what is missing may come (tables, grants, a writable
// server), and [lease.ErrDenied] when the login was refused; their text names the
// cure. [IsAnswer], [IsServerError], [IsRolledBack] and [IsConnectionError] sort
// the rest; [mysqlerr] has the numbers. No error contains a part of a DSN that may
// be a password.
package mysqlconn
