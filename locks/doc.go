// Package locks gives the processes of a service locks on named things, in the
// database that they share: exclusive or for reading, waiting in order or not,
// for a bounded time, and with a fencing token.
//
//	client, err := locks.New(store) // one for the whole program
//	err = client.Do(ctx, "order/42", func(ctx context.Context) error {
//		return pay(ctx) // ctx ends when the lock is lost
//	})
//
//	lock, err := client.Mutex("stock").Lock(ctx) // or TryLock, or LockFor
//	...
//	err = lock.Unlock(ctx)
//
// # What is guaranteed
//
//   - Tokens of a lock strictly grow from holder to holder. Readers who were
//     given it at once share one.
//   - A writer's [Lock.Context] has ended, with a cause, before anybody else is
//     given the lock, and a reader's before a writer is, early enough that work
//     which stops within the grace has stopped by then. This assumes what
//     package lease assumes for a term: that the process is running, and clock
//     rates.
//   - A transaction that fence.Do or fence.Commit ends with a context of the
//     lock cannot commit after the lock went to somebody else, also when its
//     process was paused.
//   - Who comes first, in whatever process, is served first. Readers do not
//     pass a writer who waits. When a process dies its places are given up,
//     one TTL and a second after its last heartbeat at most, by those who wait.
//
// Not guaranteed: that a holder which was paused does nothing in the instant
// after it wakes. That is what the token is for.
//
// # How it works
//
// Each lock is one row with a version and a queue: all who hold the lock or wait
// for it, in the order in which they came. Every change of it is one statement
// that compares the version which was read and writes the next. Who holds the
// lock follows from the order alone: the first place, or all readers before the
// first writer. The write that makes a place one of those also says so in it,
// with the new version as its token, so whoever unlocks gives the lock to the
// next in the same statement.
//
// All places of a process are of one session, which is a lease ([lease.Held]) in
// a group of its own: a single heartbeat keeps them all. When the session's trust
// ends, so do the contexts of all its locks. A place counts for as long as its
// session is not over, and a session is over when its lease was released or
// taken over. Somebody who waits behind a place watches its session's lease as
// a follower in an election does, takes it when its heartbeat has stood still
// for its TTL by the watcher's own clock, and only then takes its places out. So
// the argument in package lease that no two terms overlap is the argument that
// no two holders do; there is no second one.
//
// # Why late and lost answers do no harm
//
// A write that runs late finds another version. After one without an answer the
// client reads the row, and before it believes that something is not there, it
// writes the row once more, so that a version has been used up which the late
// one expects. Places have ids that are used once; writes say how the queue is
// to be, so that doing one again changes nothing.
//
// After another server has answered, and for a row that is older than it was,
// nobody is given a lock for a TTL: what is missing there may be what somebody
// still trusts. The rows of held locks, and of those that were given back in the
// last moments, are looked at as often as heartbeats are sent: a held lock whose
// row does not say so any more is lost, and an unlock that a failover has lost
// is done again.
//
// # What it costs
//
// A lock and its unlock are a write each. One statement is under way at a time,
// and what is asked for meanwhile rides in the next, up to 256 locks. It waits for
// no row that another transaction has locked: such a row, and one that cannot be
// written for a reason of its own, is written alone beside the others. A row that
// this process has written last needs no reading before; others do. All who
// wait in a process share one connection on which it is rung when one of them
// has the lock (see [Doorbell]), and look once a second besides.
//
// A row's size, and the work on it, grows with the number of its places: some
// hundred are fine, some thousand on one lock are slow, and 4,096 are the most
// ([ErrFull]).
//
// # Rows that are not needed any more
//
// The table of locks holds what is held or waited for, and what was used in the
// last seconds. A row that nobody was in for 10 s is deleted by a process that
// uses locks, at any rate of new names. The rows of a session are deleted an hour
// after it was given back, or a week after its process died. An account without
// the privilege DELETE leaves them all.
//
// Each process that has a session also looks every hour at the rows that somebody
// is in and that were not written for an hour. It judges their sessions as those
// who wait do, and takes out the places of those that are over. So the rows of a
// process that died, under names that nobody uses again, are gone within hours
// ([Store.HeldLocks]).
//
// Tokens grow all the same when a name is used again. Versions, which tokens are,
// are the microseconds since 1970 by the database's clock, or one more than the
// newest version if that is higher, as after the clock was set back. So
// the newest version of a row must not be forgotten with the row. It is kept in
// the floor, which is one number for all names:
//
//   - Before rows are deleted, the floor is raised to the highest version among
//     them, and then each is deleted only if it still has the version that was
//     seen.
//   - A new row is inserted only with a version above the floor, and while the
//     insert compares with the floor, nobody can raise it. So of an insert and the
//     deletion of a row of that name, either the insert comes first and finds the
//     row there, or it finds a floor that is as high as the row's version.
//
// Versions of one name therefore grow over any number of deletions, whatever the
// clock does. The same rule makes statements harmless that run after the row
// which they were meant for is gone. A late update expects a version that no row
// has any more, and that none will ever have again. A late insert has a version
// below one that its client has used up since (see above), so once that row is
// gone the floor is too high for it.
//
// A process that finds a row missing which it has seen asks the same floor whether
// the row can have been deleted in this way. If not, somebody else deleted it, and
// the lock is not given for a TTL. Only a process that saw nobody in the row, or
// has not looked for 9 s, cannot tell.
package locks
