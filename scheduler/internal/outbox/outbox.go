// Package outbox decides which writes of a term go into its next statement, and what becomes of those of a
// statement that failed. It sends nothing, and is told the time.
//
// One row that the database rejects, or that another transaction keeps locked, fails the whole statement. So
// the writes of a statement that failed are sent again, a quarter at a time, until the row is alone. If it fails alone
// twice while others succeed, it is set aside: it is tried again by itself, beside the others. While nothing
// succeeds, as in an outage, nothing is set aside. No write is dropped but by its sender.
//
// The parts of one write ([Write.Cut]) are sent one at a time, in their order, until one of them is set aside.
package outbox

import (
	"crypto/rand"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
)

const (
	// asideEvery is how long a write that was set aside waits at least until it is tried again.
	asideEvery = time.Second
	// notReadyFor is how long it is not the fault of a row that the database says it is not ready, though it
	// takes others: a server at the limit of its memory refuses some statements and takes others.
	notReadyFor = 10 * time.Second
)

// Write is what one job wants written.
type Write[W any] interface {
	Name() string // of the job
	Rows() int
	Cut() []W // the write in parts; nil: it has one row, or its rows stay together
}

// Outbox has the writes of one kind. Its user owns it: no method is called concurrently.
type Outbox[W Write[W]] struct {
	rows   int         // of a statement, at most
	fresh  []W         // not sent yet
	failed []*Batch[W] // to be sent again
	again  bool        // the turn of failed, and not of fresh
	aside  []*Batch[W] // of one write each
	apart  bool        // one of these is under way

	sending  int // statements under way, without those of what is set aside
	wait     *backoff.ExponentialBackOff
	next     time.Time        // nothing is sent earlier, except what is set aside
	worked   time.Time        // when a statement last succeeded
	rejected map[string]error // why a job's write was set aside
}

// New returns an outbox for statements of at most so many rows, that waits so after those that fail.
func New[W Write[W]](rows int, wait *backoff.ExponentialBackOff) *Outbox[W] {
	return &Outbox[W]{rows: rows, wait: wait, rejected: map[string]error{}}
}

// Batch is what one statement was to write. After a failure its parts go one by one.
type Batch[W Write[W]] struct {
	ID    ID  // of all its statements
	Part  []W // what is sent now
	rest  []item[W]
	lone  []int // how often each of Part failed alone
	size  int   // how many writes the next statement takes at most
	most  int   // the bound that size doubles up to; size, once others succeed
	since time.Time
	err   error // of the last statement
	// ordered says that these are parts of one write: they stay in their order, unless one is set aside.
	ordered bool
	// passed says that the second of them is sent ahead of the first, which has failed alone: if
	// it succeeds, the first is to blame. Perhaps nothing else in the group would tell.
	passed bool
	aside  bool
	next   time.Time // if aside: it is not sent earlier
}

// ID tells one batch from all others.
type ID [16]byte

// NewID returns one that no batch has.
func NewID() (id ID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

type item[W any] struct {
	write W
	lone  int
}

func newBatch[W Write[W]](writes ...W) *Batch[W] {
	b := &Batch[W]{ID: NewID(), size: len(writes), most: len(writes)}
	for _, w := range writes {
		b.rest = append(b.rest, item[W]{write: w})
	}
	return b
}

// IsAside reports whether it has a write that was set aside.
func (b *Batch[W]) IsAside() bool { return b.aside }

// cut makes the first writes the part that is sent.
func (b *Batch[W]) cut() *Batch[W] {
	n := min(b.size, len(b.rest))
	b.Part, b.lone = nil, nil
	for _, x := range b.rest[:n] {
		b.Part, b.lone = append(b.Part, x.write), append(b.lone, x.lone)
	}
	b.rest = b.rest[n:]
	return b
}

// Add takes in a write. That of a job of which one is set aside goes there at once.
func (o *Outbox[W]) Add(w W) {
	if o.rejected[w.Name()] == nil {
		o.fresh = append(o.fresh, w)
		return
	}
	b := newBatch(w)
	b.aside = true
	o.aside = append(o.aside, b)
}

// Fresh are the writes that were never sent.
func (o *Outbox[W]) Fresh() []W { return o.fresh }

// TakeFresh takes out the writes that were never sent.
func (o *Outbox[W]) TakeFresh() []W {
	fresh := o.fresh
	o.fresh = nil
	return fresh
}

// Next returns what is to be sent now, with at most so many statements under way; nil: nothing. New writes and
// those that failed take turns.
func (o *Outbox[W]) Next(now time.Time, most int) *Batch[W] {
	if o.sending >= most || o.next.After(now) || len(o.fresh)+len(o.failed) == 0 {
		return nil
	}
	o.sending++
	if len(o.failed) == 0 || len(o.fresh) > 0 && !o.again {
		o.again = true
		n, rows := 0, 0
		for n < len(o.fresh) && (n == 0 || rows+o.fresh[n].Rows() <= o.rows) {
			rows += o.fresh[n].Rows()
			n++
		}
		b := newBatch(o.fresh[:n]...)
		o.fresh = o.fresh[n:]
		return b.cut()
	}
	b := o.failed[0]
	o.again, o.failed = false, o.failed[1:]
	return b.cut()
}

// NextAside returns a write that was set aside and is to be tried now; nil: none, or one is under way. all says
// that none waits any longer.
func (o *Outbox[W]) NextAside(now time.Time, all bool) *Batch[W] {
	at := slices.IndexFunc(o.aside, func(b *Batch[W]) bool { return all || !b.next.After(now) })
	if at < 0 || o.apart {
		return nil
	}
	b := o.aside[at]
	o.aside = slices.Delete(o.aside, at, at+1)
	o.apart = true
	return b.cut()
}

// answered notes that a statement is under way no more.
func (o *Outbox[W]) answered(b *Batch[W]) {
	if b.aside {
		o.apart = false
	} else {
		o.sending--
	}
}

// queue has what is left of a batch sent again.
func (o *Outbox[W]) queue(b *Batch[W]) {
	if len(b.rest) > 0 {
		o.failed = append(o.failed, b)
	}
}

// Succeeded takes in that a statement succeeded. mended says that the database takes the rows of the job again.
func (o *Outbox[W]) Succeeded(b *Batch[W], now time.Time) (mended bool) {
	o.answered(b)
	if b.aside {
		job := b.Part[0].Name()
		if mended = o.rejected[job] != nil && !o.hasAside(job); mended {
			delete(o.rejected, job)
		}
		return mended
	}
	b.size, b.passed = min(2*b.size, b.most), false
	o.worked, o.next = now, time.Time{}
	o.wait.Reset()
	o.queue(b)
	return false
}

func (o *Outbox[W]) hasAside(job string) bool {
	return slices.ContainsFunc(o.aside, func(b *Batch[W]) bool { return b.rest[0].write.Name() == job })
}

// Dropped takes in that a statement is not repeated: what becomes of its writes is its sender's.
func (o *Outbox[W]) Dropped(b *Batch[W]) {
	o.answered(b)
	o.queue(b)
}

// Failure is why a statement failed, as far as that says which writes are to blame.
type Failure struct {
	Err       error
	NotReady  bool // the database says that it is not ready
	Blameless bool // no write is to blame, whatever succeeds meanwhile
}

// Trouble is what a failure of a statement leads to.
type Trouble struct {
	Outage bool          // nothing succeeds: the database is to blame
	Wait   time.Duration // after which Next, or NextAside, has something again; zero: at once
	Aside  bool          // the one write of the statement is set aside, maybe again
	New    bool          // and was not before
}

// Failed takes in that a statement failed, and has its writes sent again: a quarter at a time, behind the rest of
// their batch; parts of one write stay in front.
func (o *Outbox[W]) Failed(b *Batch[W], f Failure, now time.Time) (t Trouble) {
	o.answered(b)
	alone := len(b.Part) == 1
	if b.since.IsZero() {
		b.since = now
	}
	b.err = f.Err
	part := make([]item[W], 0, len(b.Part))
	for i, w := range b.Part {
		part = append(part, item[W]{w, b.lone[i]})
	}
	if parts := b.Part[0].Cut(); alone && len(parts) > 0 { // one of its rows may be to blame
		alone, part = false, part[:0]
		for _, w := range parts {
			part = append(part, item[W]{write: w})
		}
		if !b.aside && !b.ordered {
			o.queue(b)
			b = &Batch[W]{ID: b.ID, since: now, err: f.Err, ordered: true}
		}
	}
	switch {
	case b.aside && alone:
		return o.putAside(b, part[0], now)
	case b.aside:
		for i, x := range part { // at once, in their order
			o.aside = slices.Insert(o.aside, i, &Batch[W]{ID: b.ID, rest: []item[W]{x}, size: 1, since: b.since, err: f.Err, aside: true})
		}
		return t
	}
	others := o.worked.After(b.since) && !f.Blameless && (!f.NotReady || now.Sub(b.since) >= notReadyFor)
	b.size, b.most = max(1, len(part)/4), max(b.most, len(b.rest)+len(part))
	if others {
		b.most = b.size // one of its rows is to blame, and there is nothing to wait for
	} else {
		t.Outage, t.Wait = !f.Blameless, o.wait.NextBackOff()
		o.next = now.Add(t.Wait)
	}
	at := len(b.rest)
	if b.ordered {
		at = 0
		if b.passed {
			at, b.passed = 1, false
		}
	}
	if alone && !f.Blameless {
		part[0].lone++
		if part[0].lone > 1 && others {
			t = o.putAside(&Batch[W]{ID: b.ID, since: b.since, err: f.Err}, part[0], now)
			t.New, part = true, nil
		}
	}
	b.rest = slices.Insert(slices.Clip(b.rest), at, part...)
	if b.ordered && at == 0 && len(part) == 1 && part[0].lone > 1 && len(b.rest) > 1 {
		b.rest[0], b.rest[1] = b.rest[1], b.rest[0]
		b.passed = true
	}
	o.queue(b)
	return t
}

// putAside keeps a write that failed alone for later.
func (o *Outbox[W]) putAside(b *Batch[W], x item[W], now time.Time) Trouble {
	b.rest, b.size, b.aside, b.next = []item[W]{x}, 1, true, now.Add(asideEvery)
	o.rejected[x.write.Name()] = b.err
	o.aside = append(o.aside, b)
	return Trouble{Wait: asideEvery, Aside: true}
}

// Hurry has what has failed sent again at once.
func (o *Outbox[W]) Hurry() {
	o.next = time.Time{}
	o.wait.Reset()
	for _, b := range o.aside {
		b.next = time.Time{}
	}
}

// GiveUp takes out what has failed, with why it last did.
func (o *Outbox[W]) GiveUp(tell func(writes []W, err error)) {
	all := slices.Concat(o.failed, o.aside)
	o.failed, o.aside = nil, nil
	for _, b := range all {
		var writes []W
		for _, x := range b.rest {
			writes = append(writes, x.write)
		}
		tell(writes, b.err)
	}
}

// Rejected is why a write of the job was set aside; nil: none is.
func (o *Outbox[W]) Rejected(job string) error { return o.rejected[job] }

// IsSending reports whether a statement is under way, besides those of what is set aside.
func (o *Outbox[W]) IsSending() bool { return o.sending > 0 }

// IsSettled reports whether nothing is left to write but what is set aside.
func (o *Outbox[W]) IsSettled() bool { return len(o.fresh)+len(o.failed)+o.sending == 0 }

// IsIdle reports whether nothing is left to write.
func (o *Outbox[W]) IsIdle() bool { return o.IsSettled() && len(o.aside) == 0 && !o.apart }
