package ledgerrows

import (
	"slices"

	"github.com/cronlease/cronlease/jobs"
)

// Attempts are the attempts at a run: those that the ledger has kept, in their order, and
// the last one, which may be in the run alone.
func Attempts(r jobs.Record, kept []jobs.Attempt) []jobs.Attempt {
	if r.Attempt == 0 {
		return kept
	}
	if i := slices.IndexFunc(kept, func(a jobs.Attempt) bool { return a.Number == r.Attempt }); i >= 0 {
		if r.State == kept[i].State && r.State.Over() { // both were stamped by statements of their own
			kept[i].Finished = r.Finished
		}
		return kept
	}
	last := jobs.Attempt{
		Number: r.Attempt, State: r.State, Owner: r.Owner, Token: r.Token, Started: r.Started, Finished: r.Finished, Error: r.Error,
	}
	if r.State == jobs.Waiting { // it was moved by a program that keeps no attempts
		previous := jobs.ParsePrevious(r.Error)
		last.State, last.Error = previous.State, previous.Error
	}
	return append(kept, last)
}
