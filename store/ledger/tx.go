package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// Tx is a page of a group's rows in a transaction. The row store fills it with what is needed; the rules read from it
// what they have put, too, and it remembers that.
type Tx struct {
	Now    time.Time
	Server string
	Fence  *store.Fence // nil: there is none
	// Group is the group's own row. It is written where it has become another one.
	Group  Group
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

	put
}

// put is what the rules have put and deleted.
type put struct {
	jobs   map[string]bool
	judged map[string]bool
	runs   map[jobs.Key]int // in which place
	places int
	terms  map[uint64]bool

	Rekeyed    []Rekeyed
	Attempts   []Attempt // to keep, as [Keep] does
	NewEntries []jobs.AuditEntry
	Deleted    []Run
	Forgotten  string // a job that is deleted with all its runs; empty: none
	// DroppedEntries and DroppedTerms are how many of the oldest are deleted.
	DroppedEntries, DroppedTerms int
}

// Rekeyed is a run that gets another key, and keeps its state and its attempts.
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

// PutJobs are the names of jobs that were put, in their order.
func (tx *Tx) PutJobs() []string { return slices.Sorted(maps.Keys(tx.jobs)) }

// Judged are the names of jobs of which the end of a run was written: Started, Finished and Failing. Those runs were put, too.
func (tx *Tx) Judged() []string { return slices.Sorted(maps.Keys(tx.judged)) }

// PutRuns are the keys of runs that were put, in the order in which that was last done.
func (tx *Tx) PutRuns() []jobs.Key {
	return slices.SortedFunc(maps.Keys(tx.runs), func(a, b jobs.Key) int { return cmp.Compare(tx.runs[a], tx.runs[b]) })
}

// PutTerms are the tokens of terms that were put.
func (tx *Tx) PutTerms() []uint64 { return slices.Sorted(maps.Keys(tx.terms)) }

func (tx *Tx) putJob(name string, j Job) {
	tx.Jobs[name], tx.jobs[name] = j, true
}

// putRun inserts or changes a run.
func (tx *Tx) putRun(r Run) {
	if r.Number == 0 {
		tx.Group.Runs++
		r.Number = tx.Group.Runs
	}
	tx.places++
	tx.Runs[r.Key], tx.runs[r.Key] = r, tx.places
}

// rekey gives a run that was not put another key.
func (tx *Tx) rekey(was jobs.Key, r Run) {
	delete(tx.Runs, was)
	tx.Runs[r.Key] = r
	tx.Rekeyed = append(tx.Rekeyed, Rekeyed{was, r})
}

func (tx *Tx) putTerm(t jobs.Term) {
	tx.Terms[t.Token], tx.terms[t.Token] = t, true
}

// Note records what became of an action.
func (tx *Tx) Note(entry jobs.AuditEntry, result jobs.Result) {
	tx.Group.Audits++
	entry.ID, entry.At, entry.Result = tx.Group.Audits, tx.Now, result
	tx.NewEntries = append(tx.NewEntries, entry)
}
