package lease

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// HoldKind says what a [Hold] is a hold on.
type HoldKind int

// The kinds of holds.
const (
	// HoldLease: the lease of a group. Its fence row names owner and token.
	HoldLease HoldKind = iota
	// HoldLock: a lock. Its row contains the mark for as long as it is held.
	HoldLock
	// HoldRun: an attempt at a run of a group that spreads its runs over its replicas. Its row in the ledger names owner,
	// token and attempt for as long as the attempt is running.
	HoldRun
)

// Hold is something that this process holds under a token, as fenced work needs
// to know it: package fence compares it with the database before it commits.
type Hold struct {
	// Store is the store that keeps its row.
	Store any
	Kind  HoldKind
	// Name is the group's, or the lock's. That of a run is its group's.
	Name  string
	Owner string
	Token uint64
	// Mark is what a lock's row contains for as long as it is held. A lease has
	// none: its fence row is compared with Owner and Token.
	Mark []byte
	// Run is the attempt of a HoldRun, and zero of other kinds.
	Run HeldRun
	// Trusted reports whether the holder may still act. It reads the clocks
	// itself, because the context of a process that was paused can look alive
	// for a while after the trust deadline. Whatever must not happen after the
	// term asks this right before. Nil: only the database can tell.
	Trusted func() bool
}

// HeldRun names an attempt at a run.
type HeldRun struct {
	Job     string
	Tick    time.Time
	Trigger uint64 // zero: the run of a scheduled tick
	Attempt int    // from 1
}

// String says what is held, for errors.
func (h Hold) String() string {
	switch h.Kind {
	case HoldLock:
		return fmt.Sprintf("lock %q, token %d", h.Name, h.Token)
	case HoldRun:
		return fmt.Sprintf("job %q of group %q, tick %s, attempt %d", h.Run.Job, h.Name, h.Run.Tick.UTC().Format(time.RFC3339Nano), h.Run.Attempt)
	default:
		return fmt.Sprintf("group %q, token %d", h.Name, h.Token)
	}
}

type holdsKey struct{}

// WithHold returns a context whose work is done under the holds, in addition to
// those that ctx already carries. It is for code that runs such work itself: the
// contexts of an election's leading function and of a scheduler's runs already
// carry their term's hold.
func WithHold(ctx context.Context, holds ...Hold) context.Context {
	return context.WithValue(ctx, holdsKey{}, append(Holds(ctx), holds...))
}

// Holds returns what the work of ctx is done under, the oldest first; nil when
// that is nothing.
func Holds(ctx context.Context) []Hold {
	holds, _ := ctx.Value(holdsKey{}).([]Hold)
	return slices.Clone(holds)
}
