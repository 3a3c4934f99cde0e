package store

import (
	"context"
	"fmt"
	"time"
)

// Locks keeps lock rows beside the lease rows of one database. After any error the
// outcome is unknown.
type Locks interface {
	Leases

	// ReadLocks reads the row of each name, in the order of the names, by a plain
	// read that takes no locks. All rows of one call are of one instant.
	ReadLocks(ctx context.Context, names ...string) (LockReading, error)

	// WriteLocks writes each row that still has the expected version, in as few
	// statements as it can, and reports for each write whether the row now has the
	// content of that write. A new row has to have a version above the
	// [LockReading.Floor] of that moment. WriteLocks skips a row that another
	// transaction keeps locked, as a fenced one does, and writes the others without
	// waiting for it, unless the write sets [LockWrite.Wait]. On a server other than the
	// one named, WriteLocks writes nothing and returns false for each write, without
	// an error. If a write does not pass [LockWrite.Check], WriteLocks returns an error
	// and writes nothing. The caller passes no name twice.
	WriteLocks(ctx context.Context, server string, writes []LockWrite) ([]bool, error)

	// HeldLocks returns the names of up to limit locks that have holders or waiters
	// and whose rows were not written for longer than idle: the first ones that
	// follow the name after, in the order of their bytes. It is a plain read.
	HeldLocks(ctx context.Context, idle time.Duration, after string, limit int) ([]string, error)

	// PruneLocks deletes up to limit rows of locks that had no holders and waiters,
	// and were not written, for longer than idle, except rows that another
	// transaction has locked. It returns how many it found: fewer than limit means
	// that another call would find no more. Before it deletes the first row, it
	// raises the floor to the highest version among them. So a row that is created
	// again has a higher version than ever before, and a statement from before the
	// pruning, however late it runs, neither finds the row it expects nor can insert
	// one.
	PruneLocks(ctx context.Context, idle time.Duration, limit int) (int, error)

	// PruneSessions deletes the lease and fence rows of up to limit groups whose
	// names begin with prefix: released ones that were not renewed for longer than
	// released, and others that were not renewed for longer than expired. It returns
	// how many it found, like PruneLocks. No other lease rows are ever deleted.
	PruneSessions(ctx context.Context, prefix string, released, expired time.Duration, limit int) (int, error)
}

// Peeker is implemented by stores in which ReadLocks costs a write: an ensemble has to
// agree on what is newest.
type Peeker interface {
	// PeekLocks is a ReadLocks that may lack what others have written lately, and whose
	// rows are each of an instant of its own. It shows no row older than it was when
	// this store last showed or wrote it, or refused to, nor than when a notification
	// was sent that a [Notifier] of this store has passed on. It is for callers whose
	// next write compares what they saw, and for those who were just notified.
	PeekLocks(ctx context.Context, names ...string) (LockReading, error)
}

// LockRow is a lock row. A row that was never written, or was pruned, has version 0.
type LockRow struct {
	Name string
	// Version grows with each write, and never repeats, even if the row was pruned
	// in between.
	Version uint64
	// Queue lists the holders and waiters; it is empty without any. Stores keep it
	// unchanged.
	Queue []byte
}

// LockReading is one plain read of lock rows.
type LockReading struct {
	Rows []LockRow
	// Now is the database's clock at the time of the reading.
	Now time.Time
	// Server identifies the server process that answered, as in
	// [Reading].
	Server string
	// Floor is the highest version of all rows that were ever pruned. It never
	// falls.
	Floor uint64
}

// LockWrite replaces a lock row.
type LockWrite struct {
	Name string
	// Expect is the version that is compared; 0 expects no row.
	Expect uint64
	// Version is the new one. It is greater than Expect: see [LockWrite.Check].
	Version uint64
	Queue   []byte
	// Wake are the addresses of other processes that the write grants the lock to. Only
	// the store of a [Waker] reads them.
	Wake []string
	// Wait makes the write wait about a second for a transaction that keeps the row
	// locked. It is for a write that is the only one of its call.
	Wait bool
}

// Check returns an error if no store may carry out the write, whatever the row
// contains: its name is invalid ([CheckName]), or its version does not grow.
// Tokens of locks are versions, so a version that goes back or repeats would issue
// a token twice.
func (w LockWrite) Check() error {
	if err := CheckName("lock", w.Name); err != nil {
		return err
	}
	if w.Version <= w.Expect {
		return fmt.Errorf("locks: write of lock %q: version %d over %d: versions only grow", w.Name, w.Version, w.Expect)
	}
	return nil
}

// LockWatch names a lock's row and a mark: while the row contains the mark, nothing has
// changed for the watching waiter.
type LockWatch struct {
	Name string
	Mark []byte
}

// Notifier wakes a process that waits for any number of locks, so that it need not
// poll. Notifications can be spurious or lost; only the row decides.
type Notifier interface {
	// Wait returns nil when the process was notified, when a row does not contain
	// its mark, or after limit. Once it can be notified, it checks the rows itself,
	// so that no change between the caller's reading and the Wait is missed; later
	// changes may go unnoticed without a notification. An error means that Wait
	// could not listen. Only one goroutine calls Wait.
	Wait(ctx context.Context, rows []LockWatch, limit time.Duration) error
	// Address is where other processes notify this one. It is empty when they
	// cannot, and can change when a connection is lost. It may block while Wait
	// waits.
	Address(ctx context.Context) (string, error)
	// Notify wakes the process at each address that it can reach, and ignores the
	// others.
	Notify(ctx context.Context, addresses ...string) error
	// Close frees the notifier's resources, once Wait has returned.
	Close() error
}

// Waker is a [Notifier] whose store notifies the addresses in [LockWrite.Wake] together
// with the write: Notify is not called for them.
type Waker interface {
	Notifier
	WakesWithWrites()
}

// Notifiers is implemented by stores that have a [Notifier]. Without one, waiters
// poll every 100 ms.
type Notifiers interface {
	// Notifier returns one of this process. It opens no connection yet.
	Notifier() Notifier
}
