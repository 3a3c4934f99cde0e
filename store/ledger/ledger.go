// Package ledger has the rules of the ledger: what a claim, a move, a follower, a verdict, a pause, a trigger, a
// backfill, a cancel request, a prune, a pass-over, a forgotten job and a term's note may change. They are written once,
// over rows in memory: a store reads the rows that a call needs ([Need]), and writes those that the rules have
// put ([Tx]), both in one transaction.
package ledger

import (
	"context"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Ledger has those methods of [store.Ledger], [store.Replicas] and [store.Archive] that write, on rows.
type Ledger struct {
	pkg  string // names the store in errors
	rows Rows
}

// New returns the ledger of a package that has such rows.
func New(pkg string, rows Rows) Ledger { return Ledger{pkg, rows} }

// Rows is a database of rows.
type Rows interface {
	// Do reads what is needed of a group, calls f, and writes what f has put, all as one transaction that sees the
	// writes of every earlier one. Where others get in between, it calls f again with what they have left. It returns
	// the error of a context that has ended.
	Do(ctx context.Context, group string, need Need, f func(*Tx)) error
}

// Need says what a call needs to know. The group's own row, its fence and the clock always are there.
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

// batch is how many rows one transaction writes at most, so that it is over soon: heartbeats wait for it.
const batch = 500

// current reports whether h is the group's holder. One that was replaced never is it again.
func (tx *Tx) current(h store.Holder) bool {
	return tx.Fence != nil && tx.Fence.Owner == h.Owner && tx.Fence.Token == h.Token
}

// elsewhere reports whether h's server is another one than that which answers.
func (tx *Tx) elsewhere(h store.Holder) bool { return h.Server != "" && h.Server != tx.Server }
