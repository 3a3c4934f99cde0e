package lease

import "errors"

var (
	// ErrChanged says that a row was not as the statement expected: somebody
	// else holds the lease, or the row was changed or deleted. It is an
	// answer, not a failure.
	ErrChanged = errors.New("lease: not as expected any more")

	// ErrLost ends a term whose holder may not act any more: its lease could
	// not be renewed in time, or belongs to somebody else.
	ErrLost = errors.New("lease: lost")

	// ErrReleased ends a term whose lease the holder gave back.
	ErrReleased = errors.New("lease: released")

	// ErrSetup says that the database, as it is set up, cannot keep the
	// guarantees; the error that wraps it names the setting and its cure.
	ErrSetup = errors.New("lease: unfit database")
)
