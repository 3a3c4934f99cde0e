package memdb

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/cronlease/cronlease/internal/ledgerrows"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store/ledger"
)

// Group is the rows of a group's ledger in memory. A store whose database knows no more than nodes keeps what it has read of them in one.
type Group struct {
	ledger.Group
	Jobs  map[string]ledger.Job
	Runs  map[string][]*Run // by job, in the order of their keys
	Audit []jobs.AuditEntry // the oldest first
	Terms []jobs.Term       // by token
}

// Run is a run in a group. [Group.Take] does not change it, but puts another one in its place.
type Run struct {
	ledger.Run
	Attempts []jobs.Attempt // as store.Archive says, but for the last one
}

// NewGroup returns a group without rows.
func NewGroup() *Group {
	return &Group{Jobs: map[string]ledger.Job{}, Runs: map[string][]*Run{}}
}

// clone copies what is changed in place.
func (g *Group) clone() *Group {
	c := *g
	c.Jobs, c.Runs, c.Audit, c.Terms = maps.Clone(g.Jobs), map[string][]*Run{}, slices.Clone(g.Audit), slices.Clone(g.Terms)
	for job, runs := range g.Runs {
		c.Runs[job] = slices.Clone(runs)
	}
	return &c
}

// CompareRuns is the order of the runs of a job.
func CompareRuns(a, b *Run) int { return ledgerrows.CompareKeys(a.Key, b.Key) }

// find returns where the run of the key is, or belongs.
func (g *Group) find(key jobs.Key) (int, bool) {
	return slices.BinarySearchFunc(g.Runs[key.Job], key, func(r *Run, k jobs.Key) int { return ledgerrows.CompareKeys(r.Key, k) })
}

// Find returns the run of a key, nil when there is none.
func (g *Group) Find(key jobs.Key) *Run {
	if i, ok := g.find(key); ok {
		return g.Runs[key.Job][i]
	}
	return nil
}

// newest is the job's newest scheduled tick; zero when there is none.
func (g *Group) newest(job string) time.Time {
	for _, r := range slices.Backward(g.Runs[job]) {
		if r.Trigger == 0 {
			return r.Tick
		}
	}
	return time.Time{}
}

// Page returns a page with what is needed, but for the fence.
func (g *Group) Page(need ledger.Need, now time.Time, server string) *ledger.Tx {
	tx := ledger.NewTx(now, server)
	tx.Group = g.Group
	for _, name := range need.Jobs {
		if known, ok := g.Jobs[name]; ok {
			tx.Jobs[name] = known
		}
		if at := g.newest(name); !at.IsZero() {
			tx.Newest[name] = at
		}
	}
	for _, key := range need.Runs {
		if r := g.Find(key); r != nil {
			tx.Runs[key] = r.Run
		}
	}
	at := cmp.Or(need.At, now)
	for _, r := range g.Runs[need.Requests] {
		if !r.State.Over() {
			tx.Open++
		}
		if r.Tick.Equal(at) {
			tx.Runs[r.Key] = r.Run
		}
	}
	for _, r := range g.Runs[need.Later] {
		if need.After.IsZero() || r.Tick.After(need.After) {
			tx.Later = append(tx.Later, r.Run)
		}
	}
	if need.Term != 0 {
		for _, t := range g.Terms {
			if t.Token == need.Term || t.Token < need.Term && t.Ended.IsZero() {
				tx.Terms[t.Token] = t
			}
		}
	}
	tx.OldestEntries, tx.Entries = g.Audit[:min(need.Oldest, len(g.Audit))], len(g.Audit)
	tx.OldestTerms, tx.TermsInAll = g.Terms[:min(need.Oldest, len(g.Terms))], len(g.Terms)
	return tx
}

// Take writes what was put.
func (g *Group) Take(tx *ledger.Tx) {
	g.Group = tx.Group
	for _, name := range slices.Concat(tx.PutJobs(), tx.Judged()) {
		g.Jobs[name] = tx.Jobs[name]
	}
	for _, r := range tx.Rekeyed {
		attempts := g.Find(r.Was).Attempts
		g.remove(r.Was)
		g.put(&Run{r.Run, attempts})
	}
	for _, key := range tx.PutRuns() {
		r := &Run{Run: tx.Runs[key]}
		if was := g.Find(key); was != nil {
			r.Attempts = was.Attempts
		}
		g.put(r)
	}
	for _, a := range tx.Attempts {
		r := g.Find(a.Key)
		g.put(&Run{r.Run, ledger.Keep(r.Attempts, a.Attempt)})
	}
	for _, r := range tx.Deleted {
		g.remove(r.Key)
	}
	if tx.Forgotten != "" {
		delete(g.Jobs, tx.Forgotten)
		delete(g.Runs, tx.Forgotten)
	}
	g.Audit = append(g.Audit[tx.DroppedEntries:], tx.NewEntries...)
	g.Terms = g.Terms[tx.DroppedTerms:]
	for _, token := range tx.PutTerms() {
		i, ok := slices.BinarySearchFunc(g.Terms, token, func(t jobs.Term, token uint64) int { return cmp.Compare(t.Token, token) })
		if !ok {
			g.Terms = slices.Insert(g.Terms, i, jobs.Term{})
		}
		g.Terms[i] = tx.Terms[token]
	}
}

// put inserts a run, or replaces that of its key.
func (g *Group) put(r *Run) {
	i, ok := g.find(r.Key)
	if ok {
		g.Runs[r.Job][i] = r
		return
	}
	g.Runs[r.Job] = slices.Insert(g.Runs[r.Job], i, r)
}

func (g *Group) remove(key jobs.Key) {
	if i, ok := g.find(key); ok {
		g.Runs[key.Job] = slices.Delete(g.Runs[key.Job], i, i+1)
	}
}
