package scheduler

import (
	"errors"

	"github.com/cronlease/cronlease/jobs"
)

// row is a run of the ledger that the term tracks ("in hand"): from its claim, or
// from when it was found in the ledger, until its outcome is written. Meanwhile the
// ledger's record of it may be out of date, and only a cancel request in it counts.
type row struct {
	entry  *entry
	record jobs.Record
	phase  phase
	run    *run  // while it runs
	stop   error // why it is not to start, or not to go on
}

// phase is how far a row has come. It decides what the row counts towards.
type phase uint8

const (
	gone    phase = iota // not in hand
	asked                // is to wait: the ledger is being told
	waiting              // for its time, or for room in its job
	ready                // has the room, and waits for a slot of this replica
	running              // has a slot: it runs, or the ledger is being told
	closing              // will not run any more: the ledger is being told
	phases
)

// take takes a row in hand that is not yet.
func (t *term) take(e *entry, record jobs.Record) *row {
	r := &row{entry: e, record: record}
	e.rows[record.Key] = r
	return r
}

// shift moves a row to another phase: the only place that counts.
func (t *term) shift(r *row, to phase) {
	r.entry.count[r.phase]--
	r.entry.count[to]++
	if r.phase == running {
		t.running--
	}
	if to == running {
		t.running++
	}
	r.phase = to
}

// forget drops a row, and lets go on what waited for it.
func (t *term) forget(r *row) {
	t.shift(r, gone)
	delete(r.entry.rows, r.record.Key)
	t.freed(r.entry)
}

// end ends a row early. If a write of the row is under way, it ends as soon as the
// answer is clear.
func (t *term) end(r *row, why error) {
	r.stop = why
	switch {
	case r.run != nil:
		r.run.cancel(why)
	case r.phase == waiting || r.phase == ready:
		t.drop(r)
	}
}

// drop closes a row that was to end before it ran.
func (t *term) drop(r *row) {
	to := jobs.Cancelled
	if errors.Is(r.stop, jobs.ErrReplacedByTick) && r.record.Attempt == 0 {
		to = jobs.Skipped
	}
	t.close(r, to, r.stop.Error())
}

// close writes what becomes of a row that does not run.
func (t *term) close(r *row, to jobs.State, why string) {
	t.shift(r, closing)
	t.wrote.move(move(r.record, to, why), func(done bool) {
		if done && why == tooLate {
			t.skips.add(r.record.Job, gap{r.record.Tick, r.record.Tick, 1, why})
		}
		t.forget(r)
	})
}

// move is the change of a run from what its record says.
func move(r jobs.Record, to jobs.State, why string) jobs.Move {
	return jobs.Move{Key: r.Key, From: r.State, Attempt: r.Attempt, Owner: r.Owner, Token: r.Token, To: to, Error: why}
}
