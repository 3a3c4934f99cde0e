package ledger

import (
	"context"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Rows is a database of rows. It is safe for concurrent use.
type Rows interface {
	// Do reads what is needed of a group, calls f, and writes what f has put, all as one transaction that sees the writes
	// of every earlier one. A takeover ([store.Leases].Acquire) writes the fence before it, and f sees that, or after it.
	// Where others get in between, Do calls f again, with a new page of what they have left. A group that is not there has
	// no rows. f waits for nothing.
	//
	// Do returns the error of a context that has ended before it began. After any error nothing was written, or the
	// outcome is unknown, and the call may be repeated.
	Do(ctx context.Context, group string, need Need, f func(*Tx)) error
}

// Need says what a call needs to know. The group's own row, its fence and the clock always are there, and no other rows
// have to be.
type Need struct {
	// Doing names the call in errors.
	Doing string
	// By is the term that does so, whose fence is compared; zero: none is.
	By store.Holder
	// Held: a leader does so all the time.
	Held bool
	// Jobs are those whose rows and newest scheduled ticks are needed.
	Jobs []string
	// Runs are the keys of runs; Args: with their arguments.
	Runs []jobs.Key
	Args bool
	// Requests is a job whose open runs are counted, and At the tick (zero: now) of which all runs of it are needed.
	Requests string
	At       time.Time
	// Later is a job whose runs are needed that are later than After (zero: all), in the order of their keys.
	Later string
	After time.Time
	// Term is the token of a term that is needed, with those before it whose end is not known.
	Term uint64
	// Oldest is how many of the oldest entries of the audit and of the oldest terms are needed, and how many there are in all; zero:
	// neither.
	Oldest int
}
