package lease

import (
	"errors"
	"fmt"
)

var (
	// ErrLost ends a term whose holder may not act any more: its lease could
	// not be renewed in time, or belongs to another owner.
	ErrLost = errors.New("lease: lost")

	// ErrReleased ends a term whose lease the holder gave back.
	ErrReleased = errors.New("lease: released")

	// ErrSetup says that the database, as it is set up, cannot keep the
	// guarantees; the error that wraps it names the setting and its cure.
	ErrSetup = errors.New("unfit database")

	// ErrNotReady is the kind of [ErrSetup] that can pass while a replica
	// waits: the server is read-only, tables or grants are missing that another
	// program may be about to make, a login is refused. It never ends a
	// campaign. An error that matches it matches ErrSetup too.
	ErrNotReady = fmt.Errorf("%w, for now", ErrSetup)

	// ErrDenied is the kind of [ErrNotReady] whose login was refused: a wrong
	// or expired password, a locked account, a host that may not connect.
	ErrDenied = fmt.Errorf("%w: login refused", ErrNotReady)
)
