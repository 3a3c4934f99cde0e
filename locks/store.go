package locks

import (
	"context"
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

	// WriteLocks writes each row that still is of the version expected, in one
	// statement for those that exist and one for those that do not, and reports
	// for each write whether the row is now as it says. It writes nothing, and
	// reports that, on a server other than the one named. No name may occur
	// twice; one that cannot be a name ([lease.CheckName]) is an error, and
	// nothing is written then.
	WriteLocks(ctx context.Context, server string, writes []Write) ([]bool, error)

	// PruneLocks deletes up to limit rows of locks that nobody has held or
	// waited for, and up to limit lease rows of processes whose group begins
	// with prefix and which have not been renewed, for longer than idle. It
	// returns how many rows there were of either kind.
	PruneLocks(ctx context.Context, prefix string, idle time.Duration, limit int) (int, error)
}

// Row is a lock row. A row that was never written, or was pruned, has version 0.
type Row struct {
	Name string
	// Version grows with each write, and never repeats.
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
}

// Write replaces a lock row.
type Write struct {
	Name string
	// Expect is the version that is compared; 0 expects no row.
	Expect uint64
	// Version is the new one, greater than Expect.
	Version uint64
	Queue   []byte
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
