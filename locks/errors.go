package locks

import (
	"errors"

	"github.com/cronlease/cronlease/lease"
)

var (
	// ErrBusy is the answer of a TryLock when somebody else has the lock, or is
	// before it in the line.
	ErrBusy = errors.New("locks: somebody else has it")

	// ErrFull is the answer when as many as a lock's row takes, some thousand, have
	// the lock or wait for it.
	ErrFull = errors.New("locks: too many wait for it")

	// ErrLost ends a lock that its holder may not rely on any more: the
	// process could not renew its session in time, or the lock's row was
	// changed behind its back. It is [lease.ErrLost].
	ErrLost = lease.ErrLost

	// ErrLimit ends a lock that was held for as long as its LockFor allows.
	ErrLimit = errors.New("locks: held for as long as was asked for")

	// ErrUnlocked ends a lock that its holder gave back. Unlock returns it when
	// that was done before.
	ErrUnlocked = errors.New("locks: unlocked")

	// ErrNested is the answer to who asks for a lock that its own context holds
	// already, and would wait for itself; see [Reentrant].
	ErrNested = errors.New("locks: this context holds it already")

	errNoClient = errors.New("locks: the client was not made by New")

	// ErrClosed is the answer of a client that was closed.
	ErrClosed = errors.New("locks: closed")
)
