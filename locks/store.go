package locks

import (
	"context"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/lease"
)

// Store keeps lock rows beside the lease rows of one database. Like
// [lease.Store], it writes nothing that does not compare all it expects, and
// any error means that the outcome is unknown. The package lockstest holds
// every implementation to this contract. Implementations are safe for concurrent
// use.
type Store interface {
	lease.Store

	// ReadLocks reads the row of each name, in the order asked, by a plain read
	// that takes no locks. All rows of one call are of one instant.
	ReadLocks(ctx context.Context, names ...string) (Reading, error)

	// WriteLocks writes each row that still is of the version expected, in as few
	// statements as it can, and reports for each write whether the row is now
	// as it says. A new row has to have a version above [Reading.Floor], as it is
	// at that moment. A row that another transaction keeps locked, as a fenced one
	// does, is left as it is, and the others are written without waiting for it,
	// unless the write says [Write.Wait]. On a server other than the one named,
	// WriteLocks writes nothing: it answers false for each write, without an
	// error. A write that does not pass [Write.Check] is an error, and nothing of
	// the call is written then. That no name occurs twice is up to the caller.
	WriteLocks(ctx context.Context, server string, writes []Write) ([]bool, error)

	// HeldLocks returns the names of up to limit locks that somebody holds or
	// waits for and whose rows were not written for longer than idle: the first
	// ones after the name after, by their bytes, in that order. A plain read.
	HeldLocks(ctx context.Context, idle time.Duration, after string, limit int) ([]string, error)

	// PruneLocks deletes up to limit rows of locks that nobody has held or
	// waited for, and that were not written, for longer than idle, and leaves
	// those that somebody has locked. It returns how many it found: fewer than
	// limit means that another call would find no more. The
	// floor is raised to the highest version among them before the first is
	// deleted. So a row that comes back has a higher version than all that
	// it had before, and a statement that is older than the pruning, however late
	// it runs, finds neither the row it expects nor may insert one.
	PruneLocks(ctx context.Context, idle time.Duration, limit int) (int, error)

	// PruneSessions deletes the lease and fence rows of up to limit groups whose
	// names begin with prefix: of those that are released, when they have not
	// been renewed for longer than released, and of others, when they have not
	// been renewed for longer than expired. It returns how many it found, like
	// PruneLocks. No other rows of leases are ever deleted.
	PruneSessions(ctx context.Context, prefix string, released, expired time.Duration, limit int) (int, error)
}

// Row is a lock row. A row that was never written, or was pruned, has version 0.
type Row struct {
	Name string
	// Version grows with each write, and never repeats, also when the row was
	// pruned in between.
	Version uint64
	// Queue is who holds the lock and who waits for it, empty for nobody. Stores
	// keep it as it is.
	Queue []byte
}

// Reading is one plain read of lock rows.
type Reading struct {
	Rows []Row
	// Now is the database's clock at the reading.
	Now time.Time
	// Server identifies the server process that answered, as in
	// [lease.Reading].
	Server string
	// Floor is the highest version of all rows that were ever pruned. It never
	// falls.
	Floor uint64
}

// Write replaces a lock row.
type Write struct {
	Name string
	// Expect is the version that is compared; 0 expects no row.
	Expect uint64
	// Version is the new one. It is greater than Expect: see [Write.Check].
	Version uint64
	Queue   []byte
	// Wait has the write wait for a transaction that keeps the row locked, for
	// about a second. It is for a write that is alone in its call.
	Wait bool
}

// Check reports why no store may carry out the write, whatever the row is: its
// name cannot be one ([lease.CheckName]), or its version does not grow. Tokens of
// locks are versions, so one that goes back or repeats would give a token twice.
func (w Write) Check() error {
	if err := lease.CheckName("lock", w.Name); err != nil {
		return err
	}
	if w.Version <= w.Expect {
		return fmt.Errorf("locks: write of lock %q: version %d over %d: versions only grow", w.Name, w.Version, w.Expect)
	}
	return nil
}

// Watch names a lock's row, and what it contains for as long as there is nothing
// new for who watches it.
type Watch struct {
	Name string
	Mark []byte
}

// Doorbell wakes a process that waits for locks, however many, so that it need
// not poll. It may ring for nothing or not at all, and only the row decides.
type Doorbell interface {
	// Wait returns nil when it was rung, when a row does not contain its mark,
	// or after limit. It looks at the rows itself once it can be rung, so that
	// no change between the caller's look and the Wait is missed; later changes
	// may go unnoticed without a ring. An error says that the bell could not be
	// listened to. One goroutine calls Wait.
	Wait(ctx context.Context, rows []Watch, limit time.Duration) error
	// Address is where others ring this bell. It is empty when it cannot be
	// rung, and can change when a connection is lost. It may be held up while
	// Wait waits.
	Address(ctx context.Context) (string, error)
	// Ring rings the bell at each of the addresses that can be reached from
	// here, and is silent about the others.
	Ring(ctx context.Context, addresses ...string) error
	// Close frees what the bell uses, once Wait has returned.
	Close() error
}

// Ringer is implemented by stores that have a [Doorbell]. Without one, whoever
// waits for a lock looks every 100 ms.
type Ringer interface {
	// Doorbell returns a bell of this process. It dials nothing yet.
	Doorbell() Doorbell
}
