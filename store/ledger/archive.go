package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// NoteResign records that the holder of a term was asked to resign, and what became of that: what [store.Leases].AskResign
// leaves in the audit. The result is [jobs.Done], [jobs.Unchanged], or [jobs.Refused] if that term is over. The actor is of the context.
func (tx *Tx) NoteResign(ctx context.Context, token uint64, result jobs.Result) {
	tx.note(ledgerrows.Entry(ctx, jobs.ActionResign, jobs.Key{}, fmt.Sprintf("token %d", token)), result)
}

// NoteTerm implements [store.Archive].
func (l Ledger) NoteTerm(ctx context.Context, note store.TermNote) error {
	return l.rows.Do(ctx, note.Group, Need{Doing: "note the term", Term: note.Token}, func(tx *Tx) {
		was, ok := tx.Terms[note.Token]
		t := was
		if !ok {
			t = jobs.Term{Token: note.Token, Owner: note.Owner, Began: tx.Now.Add(-note.Began.Truncate(time.Microsecond)), Early: note.Early}
		}
		if note.Over {
			end(&t, tx.Now.Add(-note.Ended.Truncate(time.Microsecond)), ledgerrows.CutWhy(note.Why))
		}
		if t != was {
			tx.putTerm(t)
		}
		for token, t := range tx.Terms {
			if token < note.Token && !note.Before.IsZero() { // whose end is not known: see [Need.Term]
				end(&t, note.Before, store.WhyUntold)
				tx.putTerm(t)
			}
		}
	})
}

// end ends a term, but not before it began.
func end(t *jobs.Term, at time.Time, why string) {
	if t.Ended, t.Why = at, why; at.Before(t.Began) {
		t.Ended = t.Began
	}
}

// PruneArchive implements [store.Archive].
func (l Ledger) PruneArchive(ctx context.Context, group string, most int) (deleted int, err error) {
	if most <= 0 {
		most = batch
	}
	err = l.rows.Do(ctx, group, Need{Doing: "prune the archive", Oldest: most}, func(tx *Tx) {
		oldest := tx.Now.Add(-store.KeepArchive)
		for i, e := range tx.OldestEntries {
			if tx.Entries-i <= store.MaxAudit && !e.At.Before(oldest) {
				break
			}
			tx.DroppedEntries++
		}
		for i, t := range tx.OldestTerms {
			at := t.Ended
			if at.IsZero() {
				at = t.Began
			}
			if tx.TermsInAll-i <= store.MaxTerms && !at.Before(oldest) {
				break
			}
			tx.DroppedTerms++
		}
		deleted = tx.DroppedEntries + tx.DroppedTerms
	})
	if err != nil {
		return 0, err
	}
	return deleted, nil
}
