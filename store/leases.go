package store

import (
	"context"
	"errors"
	"hash/fnv"
	"time"
)

// Leases keeps lease and fence rows in one database. Each write is one atomic
// statement. [ErrChanged] is an answer; after any other error the outcome is
// unknown.
type Leases interface {
	// Read reads the rows of each group, in the order asked, by a plain read
	// that takes no locks. All readings of one call are of one instant, and
	// there are none for no groups.
	Read(ctx context.Context, groups ...string) ([]Reading, error)

	// Prepare inserts the rows of a group that are missing. Both missing: a
	// new group, its lease released, with the same token in both rows, which
	// no term has had. Lease missing, fence present: the lease was
	// deleted, and comes back without an owner, not released, with ttl, and with
	// a token from the database's clock that is above the fence's. Fence
	// missing: copied from the lease. Existing rows are left alone. A group that
	// is not a valid name ([CheckName]) is an error.
	Prepare(ctx context.Context, group string, ttl time.Duration) error

	// Acquire takes the lease when its row is still the one that was read, and
	// writes lease and fence in the same statement. It returns the new token:
	// the largest of the compared tokens + 1, a.Floor + 1 and the microseconds
	// since 1970 by the database's clock. ErrChanged: the rows are not those
	// of the reading any more or were not there, or the connection of the
	// reading is gone. An owner that is not a valid name is an error. So is the
	// empty one, which stands for no owner.
	Acquire(ctx context.Context, a Acquire) (token uint64, err error)

	// Renew writes the next heartbeat into each row that still has the owner,
	// the token and the confirmed heartbeat, was asked to resign if the renewal
	// says so and only then, and is not released. It is one statement however
	// many leases it renews, and returns how many it renewed. A row that
	// another transaction keeps locked does not hold up the others. For the
	// empty owner it renews nothing. When not all
	// of them were renewed, Read tells which.
	Renew(ctx context.Context, r Renew) (renewed int, err error)

	// Release marks the lease as released when owner and token still match.
	// It returns nil when they do, or did (it may be repeated), and ErrChanged
	// when another owner holds the lease, or it has never been held.
	Release(ctx context.Context, group, owner string, token uint64) error

	// AskResign asks the holder of the term to step down; it finds out by its
	// next heartbeat, or at once: see [RequestSignals]. ErrChanged: that term is over.
	AskResign(ctx context.Context, group string, token uint64) error
}

// Acquire is a request to take a lease, with everything that it rests on.
type Acquire struct {
	// Read is the reading that showed that the lease can be taken. Its two
	// tokens, its heartbeat and its session are compared.
	Read Reading
	// Owner becomes the holder.
	Owner string
	// Heartbeat is the first heartbeat of the new term, greater than zero.
	Heartbeat uint64
	// TTL is written into the row, for followers.
	TTL time.Duration
	// Floor is the highest token that this process has ever seen in the group.
	Floor uint64
}

// Renew is a heartbeat for all the leases that one owner holds.
type Renew struct {
	Owner string
	// Heartbeat is the number to write. An owner never uses one twice.
	Heartbeat uint64
	Leases    []Renewal
}

// Renewal is what a renewal expects of one lease row.
type Renewal struct {
	Group string
	Token uint64
	// Heartbeat is the last one that the holder knows to be in the row.
	Heartbeat uint64
	// ResignAsked is what the holder knows of [Lease.ResignAsked]. A request
	// that it does not know of yet keeps the row from being renewed, which is
	// how it finds out without a statement of its own.
	ResignAsked bool
}

// HandoverSignal wakes the replicas that wait for a lease, so that they need not
// poll to notice a clean hand-over. It is a signal and never a lock: it may come
// for nothing or not at all, and only the row decides. At most one goroutine calls
// Wait; Pass and Close may be called by others.
type HandoverSignal interface {
	// Wait blocks until it is worth looking at the lease, or until the signal
	// cannot be listened to (any error but the context's). After nil, the
	// caller has the signal: where the store can, no other waiter is woken until
	// it calls Pass; a store that polls wakes all of them. Where only one
	// caller has the signal at a time, a Wait by that caller checks whether it
	// still has it: if so, Wait returns nil at once, and otherwise it waits like
	// any other.
	Wait(ctx context.Context) error
	// Pass gives the signal to the next waiter. The holder of a lease keeps
	// the signal for its term and passes it once the lease is released. Without
	// the signal it does nothing.
	Pass(ctx context.Context) error
	// Close passes the signal and frees what it uses; Wait then fails. Closing
	// twice is closing once. The signal is passed as well when its store is closed,
	// and when its process dies or its connection is lost.
	Close() error
}

// DirectHandover is implemented by signals with which each side of a clean hand-over
// is one statement: the release passes the signal, and the waiter that it wakes takes
// the lease without reading it first. Both are optional for a caller, which can
// always release, pass, read and acquire instead. An error of either that matches
// [errors.ErrUnsupported] says that nothing was done, because the database, as it
// is set up, does not allow it.
type DirectHandover interface {
	HandoverSignal

	// Release releases the lease, as [Leases.Release] does, and passes the signal,
	// as one. The waiter may be woken a moment before others see the release; Take
	// waits for it. After ErrChanged the caller still has the signal. After any
	// other error the outcome is unknown, for the release as well as the signal,
	// and the caller goes on with [Leases.Release] and Pass. It is an error that
	// the caller does not have the signal.
	Release(ctx context.Context, owner string, token uint64) error

	// Take is [Leases.Acquire] for a lease that its holder has released since
	// a.Read. It waits for a release that is under way, for a moment. What it
	// compares is the session of a.Read, the two tokens, that the heartbeat is
	// no lower than that of a.Read, and that the lease is released: no statement
	// but an acquire changes a released row. ErrChanged: it is not so, or was not
	// known in time, and nothing was changed.
	Take(ctx context.Context, a Acquire) (token uint64, err error)
}

// HandoverSignals is implemented by stores that have a [HandoverSignal]. Without one, a clean
// hand-over is found by the next timed look.
type HandoverSignals interface {
	// HandoverSignal returns the signal of the group. It dials nothing before Wait.
	HandoverSignal(group string) HandoverSignal
}

// replicaTokens is the first of them: later than any term, in the year 586,000.
const replicaTokens uint64 = 0xffff << 48

// ReplicaToken stands for a replica that does not lead, where [PresenceSignal.Announce]
// has the token of a term.
func ReplicaToken(owner string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(owner)) // never fails
	return h.Sum64() | replicaTokens
}

// IsReplicaToken reports whether the token is one of [ReplicaToken].
func IsReplicaToken(token uint64) bool { return token >= replicaTokens }

// PresenceSignal is a [HandoverSignal] whose connection also shows that a leader is at
// its other end, so that the replica which has the signal next learns at once that
// the leader's process has died. That is a hint: a leader that lives can be absent,
// when its connection was cut, and one that has died can be present until the server
// notices. A Wait by which several callers can have the signal returns nil to each of
// them when the term of the lease was present and is not any more. A store without
// connections shows the leader's process instead.
type PresenceSignal interface {
	HandoverSignal
	// Announce makes the term with that token present for as long as the signal's
	// connection lives and until Pass: at once if the caller has the signal, and else
	// with one of the next statements of Wait. server is where the lease was acquired
	// ([Reading.Server]). On a connection to any other server the term is not present:
	// that one may lack what the term has written before, so that nothing may be
	// concluded from it. An error only says that the term is not present now.
	//
	// With a [ReplicaToken] it makes a replica present that could lead, on whatever
	// server, before Wait or while the caller does not have the signal. A
	// [Replicas] on the same server then has it as [jobs.Present].
	Announce(ctx context.Context, token uint64, server string) error
	// Present reports whether the term is present on the server that answers, and
	// which server that is. It may be called while Wait waits.
	Present(ctx context.Context, token uint64) (present bool, server string, err error)
}

// Checker is implemented by stores that can tell whether their database keeps
// the guarantees as it is set up. Check returns an error that matches
// [lease.ErrSetup] when it does not, and [lease.ErrNotReady] too when that can pass while a
// replica waits; any other error when it could not be asked.
type Checker interface {
	Check(ctx context.Context) error
}

// ErrChanged says that a row was not as the statement expected: another
// owner holds the lease, or the row was changed or deleted. It is an
// answer, not a failure.
var ErrChanged = errors.New("store: not as expected any more")

// Lease is a lease row as one reading showed it. It is a plain value: nothing
// updates it.
type Lease struct {
	// Owner is the last holder; empty when the lease has never been held.
	Owner string
	// Token names the term. It only grows, and a token never changes its owner.
	Token uint64
	// Heartbeat changes with every renewal. Together with Token it says
	// whether a row is the one that was read before.
	Heartbeat uint64
	// RenewedAt is when the row was last acquired or renewed, by the
	// database's clock. It is compared with [Reading.Now] of the same reading
	// and with nothing else.
	RenewedAt time.Time
	// TTL is the time to live that the holder took the lease with. Followers
	// wait for this one, not for their own.
	TTL time.Duration
	// Released says that the holder gave the lease back and it has not been
	// taken since.
	Released bool
	// ResignAsked says that the holder of this term was asked to step down
	// ([Leases.AskResign]).
	ResignAsked bool
}

// Fence is a fence row: the holder that fenced work is compared with. Only a
// takeover writes it, so that work which locks it never delays a heartbeat.
type Fence struct {
	Owner string
	Token uint64
}

// Reading is one plain read of a group's two rows.
type Reading struct {
	Group string
	// Lease and Fence are nil where the row is absent. A store never deletes
	// one of the two alone: if only the lease row is absent, something other
	// than the store deleted it. A store deletes both only for sessions of
	// locks that are over, whose group names are never used again.
	Lease *Lease
	Fence *Fence
	// Now is the database's clock at the reading.
	Now time.Time
	// Server identifies the database server process that answered: it differs
	// between servers, and between two starts of one server.
	Server string
	// Session identifies the connection that answered. An acquire that leans
	// on this reading names it, and is refused on any other connection.
	Session uint64
}
