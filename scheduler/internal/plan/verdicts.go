package plan

import "github.com/cronlease/cronlease/store"

// Order keeps the verdicts on a job in the order in which its runs ended: the ledger keeps the one that is
// written last. While ends are being written, later ones wait for the answer ([Order.MayWrite]), and then go
// together. An end whose row was set aside is not waited for, and may be written after later ones: then its
// verdict does not count ([Order.Counts]).
type Order struct {
	failing bool // by the ends that were sent, in their order
	sent    int  // the number of the latest that was sent
	written int  // and of the latest that is written
	failed  bool // the job was failing after that one
	waits   int  // how many are being written, without those that are set aside
	stuck   int  // how many are set aside
}

// Rank is that of an end among those of its job.
type Rank struct {
	number   int
	aside    bool
	works    bool // what the end says of its job
	Recovers bool // it is the job's recovery
}

// NewOrder returns that of a job which was failing by its last end, or not.
func NewOrder(failing bool) Order { return Order{failed: failing} }

// MayWrite reports whether the next ends may be written.
func (o *Order) MayWrite() bool { return o.waits == 0 }

// Send gives the ends with these verdicts their ranks. Where none is under way,
// they go on from the last one that was written: ends that were refused do not count.
func (o *Order) Send(verdicts []store.Verdict) []Rank {
	if o.waits+o.stuck == 0 {
		o.failing = o.failed
	}
	ranks := make([]Rank, len(verdicts))
	for i, v := range verdicts {
		o.sent++
		works := v == store.JobWorks
		ranks[i] = Rank{number: o.sent, works: works, Recovers: works && o.failing}
		o.failing = !works
	}
	o.waits += len(verdicts)
	return ranks
}

// Counts reports whether the verdict of an end is to be written: not once that of a later one is.
func (o *Order) Counts(p Rank) bool { return p.number >= o.written }

// SetAside notes that the row of an end is set aside, once.
func (o *Order) SetAside(p *Rank) {
	if !p.aside {
		p.aside = true
		o.stuck++
		o.waits--
	}
}

// Written takes in whether an end is written. One whose answer is not known counts as written.
func (o *Order) Written(p Rank, is bool) {
	if is && o.Counts(p) {
		o.written, o.failed = p.number, !p.works
	}
	if p.aside {
		o.stuck--
	} else {
		o.waits--
	}
}
