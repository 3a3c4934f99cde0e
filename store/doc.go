// Package store is the contract between cronlease and a database, on one page: what
// a store implements, and the rows that it exchanges. The contract is internal,
// although other modules can import it: it is for the stores of this module, and may
// change with each release, without notice in the versioning. Pin a release if you
// write a store of your own. When you take a newer one, the section "store" of the
// changelog and the suites of package storetest say what your store has to do.
//
// To use cronlease, take a store that exists: mysqlstore, sqlitestore, redisstore,
// zkstore or memstore.
//
// # A store of your own
//
//   - Implement [Leases], with your database's transactions or by comparing versions.
//   - Implement Rows of package store/ledger, which has the rules of the ledger: load the
//     rows of a group, and store them. Embed the Ledger and the Reads of that package:
//     they are the rest of [Jobs] and [Archive].
//   - Run storetest.Leases and storetest.Rows on it, and leave out what is optional.
//
// examples/ownstore is such a store, on the files of a folder. Start from it.
//
// # What to implement
//
//   - [Leases] is enough for package election.
//   - [Jobs], which is Leases and [Ledger], is for package scheduler.
//   - [Locks], which has Leases too, is for package locks.
//   - [Fences] is for package fence, where the rows are in an SQL database.
//   - [Checker], [HandoverSignals] and [Notifiers] are optional: without them no
//     replica can tell what is wrong with a database's settings, and replicas and
//     waiters poll. So are [Heartbeats] and [RequestSignals]: without the first a
//     leader polls the ledger, and without the second its heartbeat finds requests.
//     Without [Replicas] nobody knows which jobs replicas have, and no job can be
//     forgotten. Without [Archive] nobody can look up who did what, earlier terms,
//     attempts and output.
//
// Every method is held to its comment by the conformance suites of package storetest.
//
// # What holds for all of it
//
//   - Every write is atomic and compares all that it expects, so that a statement
//     that runs late, twice, or after its caller gave up is harmless.
//   - [ErrChanged], [ErrReplaced], [ErrOtherServer], [jobs.ErrNoJob], [jobs.ErrNoRun] and [jobs.ErrManyOpen] are answers.
//     Any other error means that the outcome is unknown: the statement may have
//     run, may run later, or never. The same is true when a context ends. Callers
//     read back before they conclude anything, or repeat the call. Such an error
//     says what was tried; its caller adds the group.
//   - A call whose context has already ended returns an error, and none of these
//     answers.
//   - Instants are in UTC and of whole microseconds, ticks too; what is below a
//     microsecond is cut off. Those that a store writes are of the database's clock.
//     Callers send durations, and instants only where the database has told them
//     before.
//   - Tokens, heartbeats and versions grow, never repeat, and stay below 2^63. The
//     token of a new term is derived from the database's clock as well, so that it
//     grows even where rows were lost ([Leases.Acquire]).
//   - Rows are deleted by the Prune methods alone, by those of [Replicas], and with a
//     run that they belong to. Those of leases and fences are
//     never deleted, but for the sessions of locks ([Locks.PruneSessions]), whose
//     names no process uses again.
//   - A store refuses names that are no names ([CheckName]) where a method says so.
//     Callers send valid names, and counts and durations that are not negative: a
//     store may refuse others, and need not.
//   - A call with an empty list does nothing, succeeds, and need not compare a token.
//   - An implementation is safe for concurrent use, and nothing that waits for the
//     database holds up the heartbeats of other groups.
package store
