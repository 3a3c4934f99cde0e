// Package mysqlstore keeps leases and the ledger in MySQL 8.0 (from 8.0.19), 8.4
// and 9.x and in MariaDB 10.6 to 11.8, with the same SQL for all of them. It
// implements [store.Leases], [store.HandoverSignals] (of [store.DirectHandover], but
// not in clusters with several writers), [store.Checker], [store.Ledger] and
// [store.Locks], and is a [store.Fences].
//
//	store, err := mysqlstore.Open("worker:secret@tcp(db:3306)/billing")
//	store, err := mysqlstore.New(db) // a *sql.DB that the service has already
//
// # Tables
//
// [Store.Migrate] creates the tables, whose names begin with cronlease_ by default.
// For that it needs CREATE, ALTER and INDEX beside what all else needs. It may run
// in any number of replicas at once. All else needs SELECT, INSERT, UPDATE and
// DELETE on the tables, but no UPDATE on cronlease_audit, and only SELECT on cronlease_schema:
// [Store.Check] asks for all of it. docs/database.md lists the grants.
//
// # Connections
//
// A Store keeps connections of its own for as long as it is open:
//
//   - one for heartbeats, releases and requests to resign, which never waits
//     for anything but its own short statements;
//   - one, or two when several groups look at once, for readings and takeovers;
//   - one for a [store.HandoverSignal] that waits or was received, which also
//     releases the lease, or two for any number of them;
//   - one for any number of [store.RequestSignal], where there is room for it: of the terms
//     that this process holds;
//   - as many as are needed at once for the ledger, at most 4. A claim that waits
//     for a takeover waits here, and no heartbeat behind it;
//   - for locks, once one is asked for, up to four for their rows, and one for each
//     [store.Notifier] that was waited for.
//
// Without locks these are at most 12, however many groups the store has, and whatever becomes of the
// server: docs/database.md says how. So a process with several groups has one store for all.
//
// With [New] they come from the caller's pool and count against its
// SetMaxOpenConns, which must be 0 (no limit, the default) or at least 6, plus
// one for several hand-over signals, and 5 for locks; up to 4 more are
// used for requests and the ledger. When such a connection is lost, a new one waits its turn in
// that pool; a service whose pool may be exhausted for longer than a TTL uses
// [Open], whose heartbeats depend on no pool.
//
// The store sets what it needs on its own connections (autocommit, strict mode,
// time zone, isolation, short lock waits), reads it back, and never returns such
// a connection to a pool. So the caller's pool may have any settings, but its
// connections have to stay in one schema: after a USE on one of them, the store works
// on the tables that are there.
//
// All connections of a store share what its logins have told: one that was
// refused is not repeated for a while, by any of them, because servers lock an
// account after a few (15 s at first, up to 5 min; a password that has changed is
// tried earlier). The password, and the files of TLS, are read for each
// connection of [Open].
//
// # Several hosts
//
// The DSN of [Open] may list several hosts:
//
//	store, err := mysqlstore.Open("worker:secret@tcp(db1:3306,db2:3306)/billing")
//
// Each new connection goes to the host that takes writes: the last good one is
// tried first, then the others in their order, each with an equal share of the
// time that is left, at most the DSN's timeout (default 10 s). The store leaves a
// server that was demoted when it refuses a write, or else when the store uses a
// connection whose server it has not asked for a second. When the first connection
// of the store gets to another host, all others are closed, those of [Store.DB]
// too. At most one of the hosts may take writes at a time; the store does not
// decide which.
//
// With [New], which server a connection leads to is the caller's business: the
// store drops a connection whose server refuses a write, and takes the next one
// that the pool gives it.
//
// # Clock and identity
//
// Only the database's clock is used, as UTC_TIMESTAMP(6). The identity of the
// server ([store.Reading].Server) is its id and the second of its start, which
// the server computes so that a step of its clock does not change it.
//
// # Ledger
//
// Each claim, and each later step of a run, is one statement that takes a shared
// lock on the group's fence row, and so waits for a takeover that is under way,
// and changes nothing after it (for clusters with several writers, see below).
// Claims go in batches of up to 500 and other steps
// of up to 200 rows, each of which applies as a whole or not at all; longer lists
// are several batches, and a call that failed half-way goes on when it is repeated.
// What operators ask (but for triggers) and notes of terms are
// transactions that lock the rows which may change, and then change them. A process
// that stands still in one keeps these rows for 2 s at most.
//
// # Locks
//
// All locks that change at once are one statement, in the order of their names.
// While a fenced transaction under a lock checks and commits, only that lock's row
// waits for it, up to 1 s.
//
// # Servers with several writers
//
// Use one node of a Galera or Group Replication cluster for all replicas: hand-over
// signals, requests and notifiers do not reach other nodes, locks want all connections of a
// process on one, and the age of a heartbeat is off by as much as the nodes' clocks
// differ.
//
// Guarantees that rest on the token hold on different nodes too. There, other nodes
// do not see the shared lock by which a write of the ledger or a fenced transaction
// holds up a takeover. So on such a server the write is a transaction that changes the fence
// row first, by the same comparison, and the check of a fenced transaction changes
// that row, or the lock's: of that transaction and a takeover on another node, the
// second to commit fails. Those of one group wait for each other, and the ledger's writes
// use one connection. A process that stands still in the middle of one is bounded:
// the server ends its transaction, or its connection, after 2 s. And on Galera
// every statement waits until what was committed on any node before is there
// (wsrep_sync_wait).
package mysqlstore
