package store

import (
	"context"
	"time"

	"github.com/cronlease/cronlease/jobs"
)

// Archive is implemented by ledgers that keep what people look at later: who asked for
// what, the terms, each attempt at a run and what it printed. None of its rows decides
// who leads or what runs, and a leader without it works as with it, but for one thing: a changed schedule
// rules from when the term before has told that it ended, and without that from its last heartbeat.
//
// Two kinds of rows are written by other methods:
//
//   - An action ([jobs.Control], [jobs.Registry] and [Leases.AskResign]) leaves an entry
//     of the audit, by [jobs.ActorOf] its context: [jobs.Done], [jobs.Unchanged], or
//     [jobs.Refused] with the answer that it returns. It is in the transaction of the
//     action; that of AskResign may come right after it, and then an error may mean that
//     only the entry is missing. A call that fails for another reason may leave one or
//     none. Args and reads leave none.
//   - [Ledger.Move] leaves an attempt where a run that was Running becomes Running again
//     or Waiting, and where the move has an Output. It is as [AttemptOf] says, in the
//     transaction of the move, and is left by the call that changes the row. Of
//     a run, the last [jobs.MaxAttempts] are kept, and [Ledger.Prune] and
//     [jobs.Registry] delete them with it. They are never those of another run that
//     has had the same key.
type Archive interface {
	Ledger
	jobs.Archive

	// NoteTerm writes down a term of a group, once it has begun and once it is over. It
	// compares no token: what arrives late, twice or after the holder was replaced
	// completes the row of that term, and of earlier ones.
	NoteTerm(ctx context.Context, note TermNote) error

	// PruneArchive deletes up to batch (zero: 500) of the group's entries of the audit
	// and of its terms each, the oldest first: those beyond the newest [MaxAudit] and
	// [MaxTerms], and those that are older than [KeepArchive]. It returns how many it
	// deleted. A term whose end is not known is as old as its beginning.
	PruneArchive(ctx context.Context, group string, batch int) (int, error)
}

const (
	// MaxAudit is how many entries of the audit a group keeps.
	MaxAudit = 100_000
	// MaxTerms is how many terms a group keeps.
	MaxTerms = 10_000
	// KeepArchive is for how long entries of the audit and terms are kept.
	KeepArchive = 400 * 24 * time.Hour
	// MaxNote is how much of an audit's note is kept, in bytes.
	MaxNote = 255
	// MaxWhy is how much is kept of why a term ended, in bytes.
	MaxWhy = 500
)

// TermNote is what a term tells of itself.
type TermNote struct {
	Holder
	// Began is how long ago it began. The first note counts.
	Began time.Duration
	// Early is as in [jobs.Term]. The first note counts.
	Early bool
	// Over says that it is over: since so long ago as Ended says, but not before it began
	// (the database's clock may have been set back), because of Why. The last note that
	// says so counts.
	Over  bool
	Ended time.Duration
	Why   string
	// Before is the last heartbeat of the term before, as the database told; zero: not
	// known. Earlier terms of the group of which no end is known have ended then, but
	// not before they began, because of [WhyUntold].
	Before time.Time
}

// WhyUntold is why a term ended that did not tell of its end.
const WhyUntold = "it did not tell: its process died, or lost the database"

// AttemptOf is the attempt that a move leaves behind, without its instants; false: none.
func AttemptOf(m Move) (jobs.Attempt, bool) {
	a := jobs.Attempt{Number: m.Attempt, State: m.To, Owner: m.Owner, Token: m.Token, Error: m.Error, Output: m.Output}
	if n := len(a.Output); n > jobs.MaxOutput {
		a.Output = a.Output[n-jobs.MaxOutput:]
	}
	switch {
	case m.From != jobs.Running || m.Attempt == 0:
		return jobs.Attempt{}, false
	case m.To == jobs.Running:
		a.State = jobs.Interrupted
	case m.To == jobs.Waiting:
		previous := jobs.ParsePrevious(m.Error)
		a.State, a.Error = previous.State, previous.Error
	case len(m.Output) == 0:
		return jobs.Attempt{}, false
	}
	return a, true
}
