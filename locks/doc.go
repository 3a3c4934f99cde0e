// Package locks provides named distributed locks on top of the database that the
// processes of a service share: mutexes and read-write locks, blocking in order of
// arrival or failing at once, with an optional time limit and a fencing token.
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
//   - The tokens of a lock strictly increase from holder to holder. Readers
//     granted by the same write share one token.
//   - A writer's [Lock.Context] ends, with a cause, before the lock is granted
//     to anyone else, and a reader's before it is granted to a writer; early
//     enough that work which stops within the grace has stopped by then. This
//     makes the same assumptions as package lease makes for a term: that the
//     process is running, and bounded clock rates.
//   - A transaction that fence.Do or fence.Commit commits with the lock's
//     context cannot commit after the lock has passed to another holder, even
//     if its process was paused.
//   - Requests are served in order of arrival, across processes. Readers do not
//     overtake a waiting writer. When a process dies, the waiters behind it
//     remove its places at most one TTL and a second after its last heartbeat.
//
// Not guaranteed: that a paused holder does nothing in the instant after it
// wakes. The token is there for that.
//
// # How it works
//
// Each lock is one row with a version and a queue: its holders and waiters, in
// order of arrival. Every change is one statement that compares the version that
// was read and writes the next (optimistic locking). The order alone determines
// the holder: the first place, or all readers before the first writer. The write
// that moves a place into that position also marks it as granted, with the new
// version as its token, so an unlock hands the lock to the next waiter in the
// same statement.
//
// All places of a process belong to one session, which is a lease
// in a group of its own: a single heartbeat renews them all. When the session's
// trust ends, so do the contexts of all its locks. A place is valid until its
// session is over, that is, until the session's lease is released or taken over.
// A waiter watches the session leases of the processes ahead of it as a follower
// does in an election: when a heartbeat has stood still for its TTL by the
// waiter's own clock, the waiter takes the lease over, and only then removes the
// places. So the argument in package lease that no two terms overlap also shows
// that no two holders do; there is no second argument.
//
// # Why late and lost answers do no harm
//
// A late write finds another version and changes nothing. After a write without
// an answer the client reads the row. Before it concludes that a place is not
// there, it writes the row once more, which uses up the version that the late
// write expects. Place ids are never reused, and a write contains the whole
// queue, so repeating one changes nothing.
//
// A client has several statements in flight, but never two with the same row: a
// row's next statement is sent when the one before was answered or given up. All of
// the above is about one row at a time, so it holds for each of them. A statement
// locks its rows in the order of their names, and one that updates rows waits for none
// of them while it has another, so they do not deadlock.
//
// After a different server has answered, and for a row whose version went back,
// the client grants no lock for a TTL: a holder may still trust a write that is
// missing there. Where failovers can lose writes, all processes need the same TTL: a
// client cannot know a longer one of a session that it has not met. It rereads the rows of held locks at the interval of
// heartbeats. A held lock whose row no longer says so is lost. An unlock can be lost
// until a heartbeat has come after it: a failover that loses both ends the session, and
// all its places. So the client rereads the row of each lock that it has unlocked until
// one reading has come after such a heartbeat. An unlock that a failover lost is repeated.
//
// # What it costs
//
// A lock and its unlock are one write each. A TTL or so later, the row is read once more,
// with up to 255 others; until then the client keeps the name in memory. Up to three
// statements are in flight, and requests made meanwhile are batched, up to 256 locks in
// one statement: the next one begins when one was answered, when the newest has taken a
// few milliseconds, or when there are rows for a full one. So a database with slow
// commits executes several at a time, and one that is short of processor time few large
// ones. While the database answers within a millisecond, a caller that is alone sends its
// statement itself, which saves two switches between goroutines. After 50 ms the client's
// own goroutines take over. So long may a caller whose context is cancelled be held up
// where the store cannot interrupt a statement, as in Redis.
//
// A statement does not wait for rows that another transaction has locked: such a row,
// or one that cannot be written for a reason of its own, is written separately from
// the batch. Only a statement with one row, which costs the least, may wait for it,
// for about a second; there is one such statement at a time, the others go on beside
// it, and with an AttemptTimeout below 2 s there is none. A row that this process
// wrote last is not read first; other rows are. All waiters of a process share one
// connection on which the process is woken when one of them is granted its lock (see
// [store.Notifier]), and they also poll once a second.
//
// A row, and the cost of writing it, grows with the number of its places: hundreds
// are fine, thousands on one lock are slow, and 4,096 is the limit ([ErrFull]). It
// keeps up to 16 KiB of labels.
//
// # Pruning
//
// The table of locks contains locks that are held or waited for, and those used
// in the last seconds. Processes that use locks delete rows without holders and
// waiters after 10 s, however fast new names come. A session's rows are deleted
// an hour after its release, or a week after its process died. With an account
// that lacks the privilege DELETE, all these rows stay.
//
// Once an hour, each process that has a session also examines the rows with
// holders or waiters that were not written for an hour. It watches their sessions
// for a TTL, as a waiter does, and removes the places of those that are over. So the rows
// of a dead process are gone within hours, even if their names are never used
// again ([store.Locks.HeldLocks]).
//
// Tokens keep growing when a name is used again. A token is a row version, and a
// version is the database's clock in microseconds since 1970, or one more than
// the newest version if that is higher, as after the clock was set back. So the
// newest version must outlive its row. It is kept in the floor, which is one
// number for all names:
//
//   - Before rows are deleted, the floor is raised to the highest version among
//     them, and then each is deleted only if it still has the version that was
//     seen.
//   - A new row is inserted only with a version above the floor, and while the
//     insert compares with the floor, no transaction can raise it. So when an
//     insert races with the deletion of a row of that name, either the insert
//     comes first and finds the row there, or it finds a floor at least as high
//     as the row's version.
//
// The versions of one name therefore grow across any number of deletions, whatever
// the clock does. The same rule makes statements harmless that run after their
// row is gone. A late update expects a version that no row has or will ever have
// again. A late insert has a version below one that its client has used up since
// (see above; a client goes above all versions that it has sent, answered or not), so
// once that row is gone the floor is too high for it.
//
// A process that finds a row missing that it has seen before checks the floor to
// learn whether pruning can have deleted the row. If not, something else deleted
// it, and the lock is not granted for a TTL. A process cannot tell only if it
// last saw the row without holders and waiters, or has not read it for 9 s.
package locks
