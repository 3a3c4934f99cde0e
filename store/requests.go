package store

import (
	"context"
	"time"
)

// Heartbeats is implemented by stores of leases and ledgers whose heartbeat can look at
// the ledger too, so that a leader at rest sends nothing else. A scheduler on a store
// without it calls [Ledger.Changes] once a second.
type Heartbeats interface {
	// Beat is [Leases.Renew] of one lease. In the same statement it reads what
	// [Ledger.Changes] does of that group, and compares the number with the one that
	// the caller knows. Whether the lease is renewed does not depend on what it reads,
	// nor on locks of the ledger's rows. A lock on a table of the ledger may hold it up,
	// as an ALTER TABLE takes: after an error, the caller uses Renew for a while.
	Beat(ctx context.Context, owner string, heartbeat uint64, r Renewal, known uint64) (Beat, error)
}

// Beat is an answer of [Heartbeats.Beat]. It has nothing else when the lease was not
// renewed.
type Beat struct {
	Renewed bool
	// Asked says that the number of [Ledger.Changes] is not the one that the caller knows.
	Asked bool
	// Now and Server are as in [Changes].
	Now    time.Time
	Server string
}

// RequestSignal wakes the holder of a lease when something is asked of it, so that it
// need not wait for its next heartbeat. It is a signal and decides nothing: it may come
// for nothing or not at all, and then the heartbeat finds out.
type RequestSignal interface {
	// Wait returns nil when it is worth looking: when the holder was asked to resign, or
	// when known is not nil and the number of [Ledger.Changes] is another one, which may
	// have been so before. Any error but the context's: the signal cannot be listened to
	// now. Only one goroutine calls Wait.
	Wait(ctx context.Context, known *uint64) error
	// Close frees what it uses, once Wait has returned.
	Close() error
}

// RequestSignals is implemented by stores that have a [RequestSignal]. Their
// [Leases.AskResign] and the methods of [jobs.Control] that change something wake the
// holder.
type RequestSignals interface {
	// RequestSignal returns that of the term. It dials nothing before Wait.
	RequestSignal(group string, token uint64) RequestSignal
}
