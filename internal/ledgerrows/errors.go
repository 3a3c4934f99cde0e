// Package ledgerrows has what the ledgers of this module share: which claims and
// moves they take, how they bound an error's text, keep pauses as text, and count
// starts.
package ledgerrows

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// CutError bounds an error's text for the ledger, at the end of a character.
func CutError(text string) string {
	if len(text) <= store.MaxError {
		return text
	}
	end := store.MaxError
	for end > store.MaxError-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// NoRun is the error about a run that does not exist, or is over and was to be cancelled.
func NoRun(group string, k jobs.Key) error {
	return fmt.Errorf("%w: tick %s of job %q in group %q", jobs.ErrNoRun, k.Tick.UTC().Format(time.RFC3339Nano), k.Job, group)
}

// NoJob is the error about a job that does not exist.
func NoJob(group, job string) error {
	return fmt.Errorf("%w: %q in group %q", jobs.ErrNoJob, job, group)
}

// ManyOpen is the answer to a request for a run of a job that has too many.
func ManyOpen(group, job string) error {
	return fmt.Errorf("%w: %.80q in group %.80q has %d that wait or go on, which is the most: try again when some have ended, or cancel some",
		jobs.ErrManyOpen, job, group, jobs.MaxOpen)
}
