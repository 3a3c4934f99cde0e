package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Tx is a page of a group's rows in a transaction. The store fills it with what is needed ([Need]); the rules read from it
// what they have put, too. Then the store writes what was put: Group where it is another one, what PutJobs and Judged name,
// Rekeyed, what PutRuns names, in that order, Attempts, what is to be deleted, NewEntries, and what PutTerms names. One
// goroutine uses it. Make one with [NewTx]: the zero value has no maps.
type Tx struct {
	Now    time.Time    // by the database's clock, in UTC and of whole microseconds
	Server string       // as in [store.Reading]
	Fence  *store.Fence // nil: there is none
	Group  Group        // the group's own row
	Jobs   map[string]Job
	Newest map[string]time.Time // the newest scheduled ticks, of jobs that have any
	Runs   map[jobs.Key]Run
	Open   int   // see [Need.Requests]
	Later  []Run // see [Need.Later]
	Terms  map[uint64]jobs.Term
	// OldestEntries and OldestTerms are those of [Need.Oldest], and Entries and TermsInAll how many there are in all.
	OldestEntries       []jobs.AuditEntry
	OldestTerms         []jobs.Term
	Entries, TermsInAll int

	// The rules fill the rest.

	Rekeyed    []Rekeyed
	Attempts   []Attempt // to keep, as [Keep] does, with runs that are there by then
	Deleted    []Run     // with their attempts
	Forgotten  string    // a job that is deleted with all its runs; empty: none
	NewEntries []jobs.AuditEntry
	// DroppedEntries and DroppedTerms are how many of OldestEntries and OldestTerms are deleted.
	DroppedEntries, DroppedTerms int

	put put
}

// put is which rows the rules have put.
type put struct {
	jobs   map[string]bool
	judged map[string]bool
	runs   map[jobs.Key]int // in which place
	places int
	terms  map[uint64]bool
}

// Rekeyed is a run that gets another key, ID, Finished and Missed, and keeps the rest, and its attempts.
type Rekeyed struct {
	Was jobs.Key
	Run
}

// NewTx returns a page without rows.
func NewTx(now time.Time, server string) *Tx {
	return &Tx{
		Now: now, Server: server, Jobs: map[string]Job{}, Newest: map[string]time.Time{}, Runs: map[jobs.Key]Run{}, Terms: map[uint64]jobs.Term{},
		put: put{jobs: map[string]bool{}, judged: map[string]bool{}, runs: map[jobs.Key]int{}, terms: map[uint64]bool{}},
	}
}

// PutJobs are the names of jobs that were put, in their order. Their rows are in Jobs.
func (tx *Tx) PutJobs() []string { return slices.Sorted(maps.Keys(tx.put.jobs)) }

// Judged are the names of jobs of which the end of a run was written: Started, Finished and Failing. Those runs were put, too.
func (tx *Tx) Judged() []string { return slices.Sorted(maps.Keys(tx.put.judged)) }

// PutRuns are the keys of runs that were put, in the order in which that was last done. Their rows are in Runs.
func (tx *Tx) PutRuns() []jobs.Key {
	return slices.SortedFunc(maps.Keys(tx.put.runs), func(a, b jobs.Key) int { return cmp.Compare(tx.put.runs[a], tx.put.runs[b]) })
}

// PutTerms are the tokens of terms that were put, in their order. Their rows are in Terms.
func (tx *Tx) PutTerms() []uint64 { return slices.Sorted(maps.Keys(tx.put.terms)) }

func (tx *Tx) putJob(name string, j Job) {
	tx.Jobs[name], tx.put.jobs[name] = j, true
}

// putRun inserts or changes a run.
func (tx *Tx) putRun(r Run) {
	if r.Number == 0 {
		tx.Group.LastRun++
		r.Number = tx.Group.LastRun
	}
	tx.put.places++
	tx.Runs[r.Key], tx.put.runs[r.Key] = r, tx.put.places
}

// rekey gives a run that was not put another key.
func (tx *Tx) rekey(was jobs.Key, r Run) {
	delete(tx.Runs, was)
	tx.Runs[r.Key] = r
	tx.Rekeyed = append(tx.Rekeyed, Rekeyed{was, r})
}

func (tx *Tx) putTerm(t jobs.Term) {
	tx.Terms[t.Token], tx.put.terms[t.Token] = t, true
}

// note records what became of an action.
func (tx *Tx) note(entry jobs.AuditEntry, result jobs.Result) {
	tx.Group.LastEntry++
	entry.ID, entry.At, entry.Result = tx.Group.LastEntry, tx.Now, result
	tx.NewEntries = append(tx.NewEntries, entry)
}

// current reports whether h is the group's holder. One that was replaced never is it again.
func (tx *Tx) current(h store.Holder) bool {
	return tx.Fence != nil && tx.Fence.Owner == h.Owner && tx.Fence.Token == h.Token
}

// elsewhere reports whether h's server is another one than that which answers.
func (tx *Tx) elsewhere(h store.Holder) bool { return h.Server != "" && h.Server != tx.Server }
