package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
)

// Content is all that a group's ledger has, in memory: for a store whose database knows documents and no tables. Such a
// store answers each [Rows] call with [Content.Page] and [Content.Take], and all reads by [Reads]. Make one with
// [NewContent]: the zero value has no maps. It has no lock of its own.
//
// encoding/gob writes it, and reads the same into a new content. encoding/json does not: it changes arguments, and texts
// that are not UTF-8.
type Content struct {
	Group
	Jobs  map[string]Job
	Runs  map[string][]*KeptRun // by job, in the order of their keys: by tick, then by trigger
	Audit []jobs.AuditEntry     // by ID: the oldest first
	Terms []jobs.Term           // by token
}

// KeptRun is a run in a [Content]. [Content.Take] does not change it, but puts another one in its place.
type KeptRun struct {
	Run
	Attempts []jobs.Attempt // those that [Keep] keeps
}

// NewContent returns a content without rows.
func NewContent() *Content {
	return &Content{Jobs: map[string]Job{}, Runs: map[string][]*KeptRun{}}
}

// Sort puts runs, entries and terms in their order, for a store that puts a content together from parts.
func (c *Content) Sort() {
	for _, runs := range c.Runs {
		sort(runs, func(a, b *KeptRun) int { return ledgerrows.CompareKeys(a.Key, b.Key) })
	}
	sort(c.Audit, func(a, b jobs.AuditEntry) int { return cmp.Compare(a.ID, b.ID) })
	sort(c.Terms, func(a, b jobs.Term) int { return cmp.Compare(a.Token, b.Token) })
}

// sort sorts a list that mostly is in order.
func sort[T any](list []T, compare func(a, b T) int) {
	if !slices.IsSortedFunc(list, compare) {
		slices.SortFunc(list, compare)
	}
}

// find returns where the run of the key is, or belongs.
func (c *Content) find(key jobs.Key) (int, bool) {
	return slices.BinarySearchFunc(c.Runs[key.Job], key, func(r *KeptRun, k jobs.Key) int { return ledgerrows.CompareKeys(r.Key, k) })
}

// Find returns the run of a key, nil when there is none.
func (c *Content) Find(key jobs.Key) *KeptRun {
	if i, ok := c.find(key); ok {
		return c.Runs[key.Job][i]
	}
	return nil
}

// newest is the job's newest scheduled tick; zero when there is none.
func (c *Content) newest(job string) time.Time {
	for _, r := range slices.Backward(c.Runs[job]) {
		if r.Trigger == 0 {
			return r.Tick
		}
	}
	return time.Time{}
}

// Page returns a page with what is needed, but for the fence ([Tx.Fence]), which the store adds. Now is the database's
// clock, and server the identity of the server, as in [store.Reading]. Page leaves the content as it is.
func (c *Content) Page(need Need, now time.Time, server string) *Tx {
	tx := NewTx(now, server)
	tx.Group = c.Group
	for _, name := range need.Jobs {
		if known, ok := c.Jobs[name]; ok {
			tx.Jobs[name] = known
		}
		if at := c.newest(name); !at.IsZero() {
			tx.Newest[name] = at
		}
	}
	for _, key := range need.Runs {
		if r := c.Find(key); r != nil {
			tx.Runs[key] = r.Run
		}
	}
	at := cmp.Or(need.At, now)
	for _, r := range c.Runs[need.Requests] {
		if !r.State.Over() {
			tx.Open++
		}
		if r.Tick.Equal(at) {
			tx.Runs[r.Key] = r.Run
		}
	}
	for _, r := range c.Runs[need.Later] {
		if need.After.IsZero() || r.Tick.After(need.After) {
			tx.Later = append(tx.Later, r.Run)
		}
	}
	if need.Term != 0 {
		for _, t := range c.Terms {
			if t.Token == need.Term || t.Token < need.Term && t.Ended.IsZero() {
				tx.Terms[t.Token] = t
			}
		}
	}
	tx.OldestEntries, tx.Entries = c.Audit[:min(need.Oldest, len(c.Audit))], len(c.Audit)
	tx.OldestTerms, tx.TermsInAll = c.Terms[:min(need.Oldest, len(c.Terms))], len(c.Terms)
	return tx
}

// Take writes what was put on a page of the content, which has not changed since [Content.Page].
func (c *Content) Take(tx *Tx) {
	c.Group = tx.Group
	for _, name := range slices.Concat(tx.PutJobs(), tx.Judged()) {
		c.Jobs[name] = tx.Jobs[name]
	}
	for _, r := range tx.Rekeyed {
		attempts := c.Find(r.Was).Attempts
		c.remove(r.Was)
		c.put(&KeptRun{r.Run, attempts})
	}
	for _, key := range tx.PutRuns() {
		r := &KeptRun{Run: tx.Runs[key]}
		if was := c.Find(key); was != nil {
			r.Attempts = was.Attempts
		}
		c.put(r)
	}
	for _, a := range tx.Attempts {
		r := c.Find(a.Key)
		c.put(&KeptRun{r.Run, Keep(r.Attempts, a.Attempt)})
	}
	for _, r := range tx.Deleted {
		c.remove(r.Key)
	}
	if tx.Forgotten != "" {
		delete(c.Jobs, tx.Forgotten)
		delete(c.Runs, tx.Forgotten)
	}
	c.Audit = append(c.Audit[tx.DroppedEntries:], tx.NewEntries...)
	c.Terms = c.Terms[tx.DroppedTerms:]
	for _, token := range tx.PutTerms() {
		i, ok := slices.BinarySearchFunc(c.Terms, token, func(t jobs.Term, token uint64) int { return cmp.Compare(t.Token, token) })
		if !ok {
			c.Terms = slices.Insert(c.Terms, i, jobs.Term{})
		}
		c.Terms[i] = tx.Terms[token]
	}
}

// put inserts a run, or replaces that of its key.
func (c *Content) put(r *KeptRun) {
	i, ok := c.find(r.Key)
	if ok {
		c.Runs[r.Job][i] = r
		return
	}
	c.Runs[r.Job] = slices.Insert(c.Runs[r.Job], i, r)
}

func (c *Content) remove(key jobs.Key) {
	if i, ok := c.find(key); ok {
		c.Runs[key.Job] = slices.Delete(c.Runs[key.Job], i, i+1)
	}
}
