package fence

import (
	"context"
	"errors"
	"fmt"

	"github.com/cronlease/cronlease/lease"
)

var (
	// ErrFenced says that the holder has been replaced, or that its term is
	// over: nothing of the transaction is stored, but for what a [Commit] without a [Guard]
	// cannot see. The error is a [*FencedError].
	ErrFenced = errors.New("fence: refused")

	// ErrBroken says that the transaction could not be taken to its end, and why:
	// the database has rolled it back, or a part of it, or cannot be reached any
	// more. Nothing of it is stored, and it may be tried again as a whole, under the
	// same hold.
	ErrBroken = errors.New("fence: broken transaction")

	// ErrUnfenced says that something has ended the transaction without its check, or
	// may have: a stored procedure or dynamic SQL; before a [Commit] without a
	// [Guard] also the server, after an error or for a CREATE TABLE. What came before
	// that may be stored, also by a holder that was replaced, and what came after
	// it too, each statement by itself. Only its rows can tell.
	ErrUnfenced = errors.New("fence: transaction ended without its check")

	// ErrUnknown says that the answer to COMMIT was lost: the transaction is
	// stored as a whole or not at all, and only its rows can tell which. If it is
	// stored, that happened before the next holder's term.
	ErrUnknown = errors.New("fence: the outcome of COMMIT is unknown")

	// ErrNoHold says that the context carries neither a lease nor a lock, so
	// that there is no token to fence with.
	ErrNoHold = errors.New("fence: the context is of no term's work: hand on the one that a job or a leading function was called with")
)

// FencedError is an [ErrFenced]: the hold whose transaction was refused and, as far
// as is known, its present holder.
type FencedError struct {
	Hold lease.Hold
	// Owner and Token are the present holder's; empty and zero when there is
	// none, or it is not known.
	Owner string
	Token uint64
	// Cause is why the context ended, if it did.
	Cause error
}

func (e *FencedError) Error() string {
	over := "the term is over"
	if e.Hold.Kind == lease.HoldRun {
		over = "the attempt is over"
	}
	text := fmt.Sprintf("%v: %v: %s", ErrFenced, e.Hold, over)
	if e.Token != 0 {
		text += fmt.Sprintf(": %s has it now under token %d", e.Owner, e.Token)
	}
	if e.Cause != nil {
		text += fmt.Sprintf(": %v", e.Cause)
	}
	return text
}

// Is makes it an [ErrFenced].
func (e *FencedError) Is(target error) bool { return target == ErrFenced }

// Unwrap returns Cause.
func (e *FencedError) Unwrap() error { return e.Cause }

// ended returns why the work of ctx may not go on: a term that is over, or else
// an end of the context.
func ended(ctx context.Context, holds []lease.Hold) error {
	var cause error
	if ctx.Err() != nil {
		cause = context.Cause(ctx)
	}
	for _, h := range holds {
		if h.Trusted != nil && !h.Trusted() {
			return &FencedError{Hold: h, Cause: cause}
		}
	}
	switch {
	case cause == nil:
		return nil
	case errors.Is(cause, ctx.Err()):
		return fmt.Errorf("fence: %w", cause)
	default:
		return fmt.Errorf("fence: %w: %w", ctx.Err(), cause)
	}
}
