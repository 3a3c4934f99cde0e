package locks

import (
	"errors"

	"github.com/cronlease/cronlease/lease"
)

var (
	// ErrBusy is returned by TryLock when another holder has the lock, or another
	// waiter is ahead in the queue.
	ErrBusy = errors.New("locks: already held")

	// ErrFull is returned when the lock's row is full: some thousand holders and
	// waiters.
	ErrFull = errors.New("locks: too many holders and waiters")

	// ErrLost ends a lock that its holder can no longer rely on: the process
	// could not renew its session in time, or another program changed the lock's
	// row. It is [lease.ErrLost].
	ErrLost = lease.ErrLost

	// ErrLimit ends a lock whose LockFor limit has passed.
	ErrLimit = errors.New("locks: hold limit reached")

	// ErrUnlocked ends a lock that its holder unlocked. Unlock returns it for a
	// lock that was already unlocked.
	ErrUnlocked = errors.New("locks: unlocked")

	// ErrNested is returned for a lock that the caller's own context already
	// holds: the caller would wait for itself. See [Reentrant].
	ErrNested = errors.New("locks: this context already holds it")

	errNoClient = errors.New("locks: the client was not made by New")

	// ErrClosed is returned by a client that was closed.
	ErrClosed = errors.New("locks: closed")
)
