package zkstore

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/ledger"
)

// A ledger is parts. Each is a node below the group's, and is never changed: what changes is written to a node of another revision, and the
// group's node says which revision counts. So one transaction that writes the group's node takes all of a change over, however large it is.

// What parts have.
const (
	runsPart     = 'r' // the runs of partRuns numbers
	jobsPart     = 'j' // the jobs of one of partBuckets, with their pauses
	auditPart    = 'u' // the entries of partEntries numbers
	termsPart    = 't' // the terms of one of partBuckets
	argsPart     = 'g' // large arguments of a run. The run names the revision
	attemptsPart = 'a' // the attempts at a run. The run names the revision
)

const (
	partRuns    = 32
	partEntries = 64
	partBuckets = 256
	// inlineArgs is up to which size arguments are with the run.
	inlineArgs = 512
)

// head is the data of a group's node.
type head struct {
	Rev     uint64 // of the last change; each is higher
	Changes uint64
	Paused  bool
	Opened  jobs.Opened
	Audits  uint64
	Runs    uint64 // the highest number that a run has had
	Parts   []ref  // those that the group's node names
}

type ref struct {
	Kind        byte
	Number, Rev uint64
}

// part tells a part from the others of a group.
type part struct {
	kind   byte
	number uint64
}

func (r ref) part() part { return part{r.Kind, r.Number} }

func (r ref) String() string { return fmt.Sprintf("%c%d.%d", r.Kind, r.Number, r.Rev) }

// runRow is a run in a part.
type runRow struct {
	Number               uint64
	Record               jobs.Record
	ID                   store.ClaimID
	Args                 []byte
	ArgsRev, AttemptsRev uint64 // zero: there is no such part
	HasArgs              bool   // Args are not nil, also if they are empty or elsewhere
}

// jobRow is a job in a part, or what there is of pauses.
type jobRow struct {
	Name   string
	Known  *jobs.Known
	Pauses []jobs.Pause
}

// content is what a part has; one of the lists is not empty.
type content struct {
	rev   uint64
	Runs  []runRow
	Jobs  []jobRow
	Audit []jobs.AuditEntry
	Terms []jobs.Term
}

func bucketOf(text string) uint64 {
	h := fnv.New32a()
	_, _ = io.WriteString(h, text)
	return uint64(h.Sum32() % partBuckets)
}

func partOfRun(number uint64) part { return part{runsPart, number / partRuns} }
func partOfJob(name string) part   { return part{jobsPart, bucketOf(name)} }
func partOfEntry(id uint64) part   { return part{auditPart, id / partEntries} }
func partOfTerm(token uint64) part { return part{termsPart, bucketOf(fmt.Sprint(token))} }
func (c *content) empty() bool     { return len(c.Runs)+len(c.Jobs)+len(c.Audit)+len(c.Terms) == 0 }
func comparePart(a, b part) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.number, b.number))
}
func sortedParts[V any](of map[part]V) []part { return slices.SortedFunc(maps.Keys(of), comparePart) }

// writers are used again: each has most of a megabyte.
var writers = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // of a level that does not exist
	}
	return w
}}

// pack writes a value small.
func pack(value any) ([]byte, error) {
	return deflate(func(w io.Writer) error { return gob.NewEncoder(w).Encode(value) })
}

// deflate returns what is written, smaller.
func deflate(write func(io.Writer) error) ([]byte, error) {
	var b bytes.Buffer
	w := writers.Get().(*flate.Writer)
	defer writers.Put(w)
	w.Reset(&b)
	if err := write(w); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func unpack(n node, value any) error {
	if err := gob.NewDecoder(flate.NewReader(bytes.NewReader(n.data))).Decode(value); err != nil {
		return fmt.Errorf("zkstore: node %s: %w", n.path, err)
	}
	return nil
}

// refs are the parts of a run that its row names.
type refs struct{ args, attempts uint64 }

// groupOf puts a group together.
func groupOf(h head, parts map[part]*content) (*ledger.Content, map[uint64]refs) {
	g, of := ledger.NewContent(), map[uint64]refs{}
	g.Group = ledger.Group{Changes: h.Changes, Paused: h.Paused, Opened: h.Opened, LastEntry: h.Audits, LastRun: h.Runs}
	count := map[string]int{}
	for _, c := range parts {
		for i := range c.Runs {
			count[c.Runs[i].Record.Job]++
		}
	}
	for job, n := range count {
		g.Runs[job] = make([]*ledger.KeptRun, 0, n)
	}
	for _, p := range sortedParts(parts) {
		c := parts[p]
		for _, row := range c.Runs {
			r := &ledger.KeptRun{Run: ledger.Run{Record: row.Record, ID: row.ID, Number: row.Number}}
			if row.HasArgs {
				r.Args = append(json.RawMessage{}, row.Args...)
			}
			g.Runs[r.Job] = append(g.Runs[r.Job], r)
			if row.ArgsRev != 0 || row.AttemptsRev != 0 {
				of[row.Number] = refs{row.ArgsRev, row.AttemptsRev}
			}
		}
		for _, row := range c.Jobs {
			if row.Name == "" {
				g.Pauses = row.Pauses
			} else if row.Known != nil {
				g.Jobs[row.Name] = ledger.Job{Known: *row.Known, Pauses: row.Pauses}
			}
		}
		g.Audit = append(g.Audit, c.Audit...)
		g.Terms = append(g.Terms, c.Terms...)
	}
	g.Sort()
	return g, of
}

// change is what becomes of the parts of a ledger.
type change struct {
	was      map[part]*content
	parts    map[part]*content          // those that change; without content where one goes
	args     map[uint64]json.RawMessage // large ones, of new runs
	attempts map[uint64][]jobs.Attempt  // those that change, by run
	gone     []uint64                   // numbers of runs
}

// changeOf finds out what is to be written of a ledger.
func changeOf(l *mirror, tx *ledger.Tx) *change {
	c := &change{was: l.parts, parts: map[part]*content{}, args: map[uint64]json.RawMessage{}, attempts: map[uint64][]jobs.Attempt{}}
	for _, key := range tx.PutRuns() {
		r := tx.Runs[key]
		c.putRun(r)
		if len(r.Args) > inlineArgs && l.group.Find(key) == nil {
			c.args[r.Number] = r.Args
		}
	}
	for _, r := range tx.Rekeyed {
		c.putRun(r.Run)
	}
	for _, a := range tx.Attempts {
		r := l.group.Find(a.Key)
		kept, ok := c.attempts[r.Number]
		if !ok {
			kept = r.Attempts
		}
		c.attempts[r.Number] = ledger.Keep(kept, a.Attempt)
	}
	for _, r := range tx.Deleted {
		c.deleteRun(r.Number)
	}
	if tx.Forgotten != "" {
		c.putJob(tx.Forgotten, nil, nil)
		for _, r := range l.group.Runs[tx.Forgotten] {
			c.deleteRun(r.Number)
		}
	}
	for _, name := range slices.Concat(tx.PutJobs(), tx.Judged()) {
		known := tx.Jobs[name]
		c.putJob(name, &known.Known, known.Pauses)
	}
	if !slices.Equal(tx.Group.Pauses, l.group.Pauses) {
		c.putJob("", nil, tx.Group.Pauses)
	}
	for _, e := range tx.OldestEntries[:tx.DroppedEntries] {
		p := c.part(partOfEntry(e.ID))
		p.Audit = slices.DeleteFunc(p.Audit, func(of jobs.AuditEntry) bool { return of.ID == e.ID })
	}
	for _, e := range tx.NewEntries {
		p := c.part(partOfEntry(e.ID))
		p.Audit = append(p.Audit, e)
	}
	for _, t := range tx.OldestTerms[:tx.DroppedTerms] {
		c.deleteTerm(t.Token)
	}
	for _, token := range tx.PutTerms() {
		p := c.deleteTerm(token)
		p.Terms = append(p.Terms, tx.Terms[token])
	}
	return c
}

// part is the content that a part gets.
func (c *change) part(p part) *content {
	if c.parts[p] == nil {
		c.parts[p] = &content{}
		if was := c.was[p]; was != nil {
			c.parts[p] = &content{Runs: slices.Clone(was.Runs), Jobs: slices.Clone(was.Jobs), Audit: slices.Clone(was.Audit), Terms: slices.Clone(was.Terms)}
		}
	}
	return c.parts[p]
}

func (c *change) putRun(r ledger.Run) {
	row := runRow{Number: r.Number, Record: r.Record, ID: r.ID, HasArgs: r.Args != nil}
	if len(r.Args) <= inlineArgs {
		row.Args = r.Args
	}
	p := c.withoutRun(r.Number)
	p.Runs = append(p.Runs, row)
}

func (c *change) deleteRun(number uint64) {
	c.withoutRun(number)
	c.gone = append(c.gone, number)
}

func (c *change) withoutRun(number uint64) *content {
	p := c.part(partOfRun(number))
	p.Runs = slices.DeleteFunc(p.Runs, func(row runRow) bool { return row.Number == number })
	return p
}

// putJob writes a job, or the pauses of the group, or deletes what there is of one.
func (c *change) putJob(name string, known *jobs.Known, pauses []jobs.Pause) {
	p := c.part(partOfJob(name))
	p.Jobs = slices.DeleteFunc(p.Jobs, func(row jobRow) bool { return row.Name == name })
	if known != nil || len(pauses) > 0 {
		p.Jobs = append(p.Jobs, jobRow{name, known, pauses})
	}
}

func (c *change) deleteTerm(token uint64) *content {
	p := c.part(partOfTerm(token))
	p.Terms = slices.DeleteFunc(p.Terms, func(t jobs.Term) bool { return t.Token == token })
	return p
}
