package redisstore

import (
	"context"
	"slices"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

var rowsScript = newLedgerScript("rows")

// rules are the methods that write to a ledger. Those that are hot, and those that look at many runs, the store has
// itself: each of them is a script that has the rules again. Claim and Move are journeys that runs wait for. So is
// Trigger, which a backfill calls for each tick, and which counts open runs: a leader changes their number all the
// time. PassOver and Prune would read thousands of runs, to change some.
type rules = ledger.Ledger

// rows are those that the other rules need.
type rows struct{ *Store }

// Do implements [ledger.Rows]. One script reads the rows. The same script writes what f has put, if the rows are as
// they were, and else answers as before. Of what a leader changes all the time it compares nothing.
func (r rows) Do(ctx context.Context, group string, need ledger.Need, f func(*ledger.Tx)) error {
	what, was, puts := needed(need), "", []any(nil)
	for {
		answer, err := r.run(ctx, need.Doing, rowsScript, slices.Concat([]any{group, was}, what, puts)...)
		if err != nil || answer == int64(1) {
			return err
		}
		page := &fields{doing: need.Doing}
		page.values = page.array(answer)
		was = page.text()
		tx := page.page(need)
		if page.err != nil {
			return page.err
		}
		of := tx.Group
		f(tx)
		if puts = put(of, tx); len(puts) == 0 {
			return nil
		}
	}
}

// needed is what the script reads: as much of a need as those rules have.
func needed(need ledger.Need) []any {
	keys := slices.DeleteFunc(slices.Clone(need.Runs), func(k jobs.Key) bool { return checkKey(k) != nil }) // no run has those
	what := append([]any{len(need.Jobs)}, texts(need.Jobs)...)
	what = append(what, len(keys))
	for _, k := range keys {
		what = append(what, keyArgs(k)...)
	}
	term, first := "", 1 // from the second one to the first: none
	if need.Term != 0 {
		term = triggerText(need.Term)
	}
	if need.Oldest > 0 {
		first = 0
	}
	return append(what, term, first, max(need.Oldest-1, 0))
}

// page reads what the script answers.
func (f *fields) page(need ledger.Need) *ledger.Tx {
	tx := ledger.NewTx(f.instant(), f.text())
	tx.Entries, tx.TermsInAll = int(f.number()), int(f.number())
	all := f.nested()
	var fence store.Fence
	if all.row([]any{&fence.Owner, &fence.Token}); fence.Owner != "" && fence.Token != 0 {
		tx.Fence = &fence
	}
	all.row(groupColumns(&tx.Group))
	known := all.nested()
	for _, name := range need.Jobs {
		if known.absent() {
			known.next()
			continue
		}
		tx.Jobs[name] = known.job()
	}
	all.keep(known)
	for _, r := range rowsOf(all, runColumns) {
		tx.Runs[r.Key] = r
	}
	for _, t := range rowsOf(all, termColumns) {
		tx.Terms[t.Token] = t
	}
	tx.OldestEntries, tx.OldestTerms = rowsOf(all, entryColumns), rowsOf(all, termColumns)
	f.keep(all)
	return tx
}

// put is what the script writes, each with the name of its function there.
func put(was ledger.Group, tx *ledger.Tx) []any {
	var puts []any
	if tx.Forgotten != "" {
		puts = append(puts, "forget", tx.Forgotten)
	}
	if g := tx.Group; g.Paused != was.Paused || g.Opened != was.Opened {
		puts = append(append(puts, "group"), written("0", groupColumns(&g))...)
	}
	for _, name := range tx.PutJobs() {
		puts = append(puts, "job", name, jobText(tx.Jobs[name]))
	}
	for _, k := range tx.PutRuns() { // by Cancel
		puts = append(append(puts, "cancel"), keyArgs(k)...)
	}
	for _, token := range tx.PutTerms() {
		t := tx.Terms[token]
		row := written("", termColumns(&t))
		puts = append(append(puts, "term", triggerText(token), len(row)), row...)
		if !t.Ended.IsZero() {
			puts = append(puts, "ended", triggerText(token))
		}
	}
	if tx.DroppedEntries > 0 {
		puts = append(puts, "droppedEntries", tx.DroppedEntries)
	}
	for _, t := range tx.OldestTerms[:tx.DroppedTerms] {
		puts = append(puts, "droppedTerm", triggerText(t.Token))
	}
	for _, e := range tx.NewEntries {
		puts = append(append(puts, "note"), written("", entryColumns(&e))...)
	}
	if tx.Group.Changes != was.Changes {
		puts = append(puts, "asked")
	}
	return puts
}
