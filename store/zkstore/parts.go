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

	"github.com/cronlease/cronlease/internal/memdb"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
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
func groupOf(h head, parts map[part]*content) (memdb.Group, map[uint64]refs) {
	g := memdb.Group{
		Changes: h.Changes, Paused: h.Paused, Opened: h.Opened, Audits: h.Audits, Jobs: map[string]jobs.Known{}, Pauses: map[string][]jobs.Pause{},
	}
	of := map[uint64]refs{}
	g.Runs = map[string][]memdb.Run{}
	count := map[string]int{}
	for _, c := range parts {
		for i := range c.Runs {
			count[c.Runs[i].Record.Job]++
		}
	}
	for job, n := range count {
		g.Runs[job] = make([]memdb.Run, 0, n)
	}
	for _, p := range sortedParts(parts) {
		c := parts[p]
		for _, row := range c.Runs {
			r := memdb.Run{Record: row.Record, ID: row.ID, Number: row.Number}
			if row.HasArgs {
				r.Args = append(json.RawMessage{}, row.Args...)
			}
			g.Runs[r.Job] = append(g.Runs[r.Job], r)
			if row.ArgsRev != 0 || row.AttemptsRev != 0 {
				of[row.Number] = refs{row.ArgsRev, row.AttemptsRev}
			}
		}
		for _, row := range c.Jobs {
			if row.Known != nil {
				g.Jobs[row.Name] = *row.Known
			}
			if row.Pauses != nil {
				g.Pauses[row.Name] = row.Pauses
			}
		}
		g.Audit = append(g.Audit, c.Audit...)
		g.Terms = append(g.Terms, c.Terms...)
	}
	for _, runs := range g.Runs {
		byKey := func(a, b memdb.Run) int { return memdb.CompareKeys(a.Key, b.Key) }
		if !slices.IsSortedFunc(runs, byKey) { // numbers grow with ticks, but for runs beside the schedule
			slices.SortFunc(runs, byKey)
		}
	}
	slices.SortFunc(g.Terms, func(a, b jobs.Term) int { return cmp.Compare(a.Token, b.Token) })
	return g, of
}

// difference is what a change does to a ledger.
type difference struct {
	group    memdb.Group
	head     head
	parts    map[part]*content     // those that change; without content where one goes
	runs     map[uint64]*memdb.Run // those that change; nil where one goes
	jobs     map[string]bool       // those that change, or whose pauses do
	attempts []memdb.Run           // whose attempts change
	args     []memdb.Run           // that are new, with large arguments
	gone     []uint64              // numbers of runs
}

func (d *difference) touch(p part) { d.parts[p] = &content{} }

func (d *difference) none(was head) bool {
	return len(d.parts) == 0 && d.head.Changes == was.Changes && d.head.Paused == was.Paused && d.head.Opened == was.Opened && d.head.Audits == was.Audits
}

// differenceOf compares two states of a group, or of some of its jobs, whose parts are as given. It numbers new runs.
func differenceOf(h head, parts map[part]*content, was, is memdb.Group) *difference {
	d := &difference{group: is, head: h, parts: map[part]*content{}, runs: map[uint64]*memdb.Run{}, jobs: map[string]bool{}}
	d.head.Changes, d.head.Paused, d.head.Opened, d.head.Audits = is.Changes, is.Paused, is.Opened, is.Audits
	for name, runs := range is.Runs {
		d.compareRuns(was.Runs[name], runs)
	}
	for name, runs := range was.Runs {
		if _, ok := is.Runs[name]; !ok {
			d.compareRuns(runs, nil)
		}
	}
	for _, g := range []memdb.Group{was, is} {
		for name := range g.Jobs {
			d.compareJob(was, is, name)
		}
		for name := range g.Pauses {
			d.compareJob(was, is, name)
		}
	}
	d.compareArchive(was, is)
	d.fill(parts)
	return d
}

// compareRuns compares the runs of a job.
func (d *difference) compareRuns(was, is []memdb.Run) {
	before := make(map[uint64]*memdb.Run, len(was))
	for i := range was {
		before[was[i].Number] = &was[i]
	}
	for i := range is {
		r := &is[i]
		old := before[r.Number]
		delete(before, r.Number)
		switch {
		case r.Number == 0:
			d.head.Runs++
			r.Number = d.head.Runs
			d.runs[r.Number] = r
			d.touch(partOfRun(r.Number))
			if len(r.Args) > inlineArgs {
				d.args = append(d.args, *r)
			}
		case r.Record != old.Record || r.ID != old.ID:
			d.runs[r.Number] = r
			d.touch(partOfRun(r.Number))
			if !sameAttempts(r.Attempts, old.Attempts) {
				d.attempts = append(d.attempts, *r)
			}
		}
	}
	for number := range before {
		d.runs[number] = nil
		d.touch(partOfRun(number))
		d.gone = append(d.gone, number)
	}
}

func (d *difference) compareJob(was, is memdb.Group, name string) {
	old, knew := was.Jobs[name]
	known, knows := is.Jobs[name]
	if old != known || knew != knows || !slices.Equal(was.Pauses[name], is.Pauses[name]) {
		d.jobs[name] = true
		d.touch(partOfJob(name))
	}
}

func sameAttempts(a, b []jobs.Attempt) bool {
	return slices.EqualFunc(a, b, func(a, b jobs.Attempt) bool {
		return a.Number == b.Number && a.State == b.State && a.Finished.Equal(b.Finished) && a.Error == b.Error && bytes.Equal(a.Output, b.Output)
	})
}

// compareArchive compares audits, which grow at their end and shrink at their beginning, and terms.
func (d *difference) compareArchive(was, is memdb.Group) {
	for _, lists := range [][2][]jobs.AuditEntry{{was.Audit, is.Audit}, {is.Audit, was.Audit}} {
		lacks, has := lists[0], lists[1]
		for _, e := range has {
			if len(lacks) == 0 || e.ID < lacks[0].ID || e.ID > lacks[len(lacks)-1].ID {
				d.touch(partOfEntry(e.ID))
			}
		}
	}
	before := make(map[uint64]jobs.Term, len(was.Terms))
	for _, t := range was.Terms {
		before[t.Token] = t
	}
	for _, t := range is.Terms {
		if old, ok := before[t.Token]; !ok || old != t {
			d.touch(partOfTerm(t.Token))
		}
		delete(before, t.Token)
	}
	for token := range before {
		d.touch(partOfTerm(token))
	}
}

// fill gives the parts that change their content, but for the revisions that runs name.
func (d *difference) fill(was map[part]*content) {
	for p, c := range d.parts {
		old := was[p]
		if old == nil {
			old = &content{}
		}
		for _, row := range old.Runs {
			if _, changed := d.runs[row.Number]; !changed {
				c.Runs = append(c.Runs, row)
			}
		}
		for _, row := range old.Jobs {
			if !d.jobs[row.Name] {
				c.Jobs = append(c.Jobs, row)
			}
		}
	}
	for number, r := range d.runs {
		if r == nil {
			continue
		}
		row := runRow{Number: number, Record: r.Record, ID: r.ID, HasArgs: r.Args != nil}
		if len(r.Args) <= inlineArgs {
			row.Args = r.Args
		}
		c := d.parts[partOfRun(number)]
		c.Runs = append(c.Runs, row)
	}
	for name := range d.jobs {
		row := jobRow{Name: name, Pauses: d.group.Pauses[name]}
		if known, ok := d.group.Jobs[name]; ok {
			row.Known = &known
		}
		if c := d.parts[partOfJob(name)]; row.Known != nil || len(row.Pauses) > 0 {
			c.Jobs = append(c.Jobs, row)
		}
	}
	for _, e := range d.group.Audit {
		if c := d.parts[partOfEntry(e.ID)]; c != nil {
			c.Audit = append(c.Audit, e)
		}
	}
	for _, t := range d.group.Terms {
		if c := d.parts[partOfTerm(t.Token)]; c != nil {
			c.Terms = append(c.Terms, t)
		}
	}
}
