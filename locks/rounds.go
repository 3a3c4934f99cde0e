package locks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// writers is how many statements that write rows are in flight at most, with that of
	// a caller, and beside the one for rows that are set aside.
	writers = 3
	// While statements are in flight, another one begins once there are rows for a
	// full one, or once the newest takes longer than a database that waits for
	// nothing takes to execute it: many rows in one statement cost the database much
	// less than each in its own.
	patience       = 2 * time.Millisecond
	patienceForRow = 50 * time.Microsecond
	// batchMost is how many locks' rows one statement writes at most.
	batchMost = 256
	// After a round of one row that took no longer than quick, while nobody else wanted
	// anything, the next caller carries out its round itself: waking another goroutine
	// costs as much as half of such a round.
	quick = time.Millisecond
)

// rounds says which locks have to be written, and which of them together.
//
// A lock's row is in one round at most: only take begins one, with locks that are due
// and in none. And no lock that is due is left behind: whenever one becomes so, or can
// be taken again, a writer is poked. Only while others gather for the next statement
// it is not: then a writer was poked before, and comes back at until at the latest.
type rounds struct {
	writes chan struct{} // capacity 1: some lock is due
	asides chan struct{} // capacity 1: some lock that is set aside is due

	list   []*name   // the locks that are due, in the order in which they became so
	flying int       // rounds that are under way, of locks that are not set aside
	until  time.Time // when the newest of them has taken so long that another may begin
	// gathering: a writer was poked since the last round began, and waits for the next
	// one to grow.
	gathering bool
	// waiting is the first lock of the round whose only write may wait if its row is
	// locked, nil when there is none.
	waiting *name
	alone   bool      // the last round was quick, of one row, and nobody else wanted anything
	wrote   time.Time // when a row was last written
	failure error     // of the last statement, nil after a successful one
}

// round is one reading and one writing of some locks' rows. A lock is in one at most.
type round struct {
	names []*name
	aside bool // its row is one that is set aside
}

// phase is how far a lock is on its way to the next round, which takes it from due to busy.
type phase int

const (
	resting phase = iota
	due           // it has to be written
	busy          // it is in a round
	busyAndDue
)

var (
	whenTouched = [...]phase{resting: due, busy: busyAndDue}
	whenLanded  = [...]phase{busy: resting, busyAndDue: due}
)

// turn is what rounds knows of one lock.
type turn struct {
	phase phase
	// aside: its row is written separately from all others, because another
	// transaction keeps it locked, or because it cannot be written.
	aside bool
	// most is the largest round that it may be written in, 0 for no limit; failed is
	// when a write of it alone last failed, and failure the error of the last read
	// or write of its row, nil if that succeeded.
	most    int
	failed  time.Time
	failure error
}

func (t *turn) isDue() bool   { return t.phase == due || t.phase == busyAndDue }
func (t *turn) isBusy() bool  { return t.phase == busy || t.phase == busyAndDue }
func (t *turn) isAside() bool { return t.aside }

// touch schedules the lock for the writer.
func (rs *rounds) touch(n *name) {
	if n.turn.isDue() {
		return
	}
	rs.add(n)
	switch {
	case n.turn.aside:
		poke(rs.asides)
	case !rs.mayGather() || !rs.gathering || len(rs.list) >= batchMost:
		rs.gathering = true
		poke(rs.writes)
	}
}

func (rs *rounds) add(n *name) {
	n.turn.phase = whenTouched[n.turn.phase]
	rs.list = append(rs.list, n)
}

// mayGather reports whether a round is under way that will not wait for a row, so that
// its end is near.
func (rs *rounds) mayGather() bool { return rs.flying > 1 || rs.flying == 1 && rs.waiting == nil }

// own schedules the lock as touch does. If its caller is alone, and the database is quick,
// it returns the round for the caller to carry out instead.
func (rs *rounds) own(n *name) (r round) {
	if !rs.alone || rs.flying > 0 || len(rs.list) > 0 || n.turn.isBusy() || n.turn.aside {
		rs.touch(n)
		return r
	}
	rs.add(n)
	r, _ = rs.take(false)
	return r
}

// take begins the next round, of those locks that became due first, sorted by name,
// because statements that lock rows in one order do not deadlock. If there are none
// yet, it returns how long to wait unless poked.
func (rs *rounds) take(aside bool) (r round, wait time.Duration) {
	if aside {
		return round{rs.pick(1, aside), aside}, time.Hour
	}
	if wait := rs.gather(); wait > 0 {
		return r, wait
	}
	rs.gathering = false
	if r.names = rs.pick(batchMost, aside); len(r.names) == 0 {
		return r, time.Hour
	}
	rs.flying++
	rs.until = time.Now().Add(patience + time.Duration(len(r.names))*patienceForRow)
	if len(rs.list) > 0 {
		poke(rs.writes) // for another writer
	}
	return r, 0
}

// gather is for how long no round may begin unless a writer is poked, zero or less is now.
func (rs *rounds) gather() time.Duration {
	switch {
	case rs.flying >= writers: // one of them is a caller's
		return time.Hour
	case rs.mayGather() && len(rs.list) > 0 && len(rs.list) < batchMost:
		return time.Until(rs.until)
	}
	return 0
}

// pick takes locks off the list.
func (rs *rounds) pick(most int, aside bool) (names []*name) {
	rs.list = slices.DeleteFunc(rs.list, func(n *name) bool {
		least := most
		if n.turn.most > 0 {
			least = min(most, n.turn.most)
		}
		if n.turn.aside != aside || n.turn.phase != due || len(names) >= least {
			return false
		}
		most = least
		names = append(names, n)
		n.turn.phase = busy
		return true
	})
	slices.SortFunc(names, func(a, b *name) int { return strings.Compare(a.text, b.text) })
	return names
}

// mayWait allows a round to have its only write wait for its row, one round at a time.
func (rs *rounds) mayWait(r round) bool {
	if rs.waiting != nil {
		return false
	}
	rs.waiting = r.names[0]
	if len(rs.list) > 0 {
		poke(rs.writes) // these need not gather any more
	}
	return true
}

// ended ends a round that began then.
func (rs *rounds) ended(r round, began time.Time) {
	if !r.aside {
		rs.alone = len(r.names) == 1 && len(rs.list) == 0 && time.Since(began) < quick
	}
	rs.failure = nil
	rs.land(r)
	for _, n := range r.names {
		n.turn.failure = nil
	}
}

// failed ends a round whose outcome is unknown.
func (rs *rounds) failed(r round, err error, written bool) {
	if !r.names[0].turn.aside {
		rs.failure = err
	}
	rs.lost(r)
	if written {
		rs.narrow(r)
	}
	for _, n := range r.names {
		n.turn.failure = err
	}
}

// lost is failed for a round that says nothing about the database.
func (rs *rounds) lost(r round) {
	rs.alone = false
	rs.land(r)
}

func (rs *rounds) land(r round) {
	if !r.aside {
		rs.flying--
	}
	if rs.waiting == r.names[0] {
		rs.waiting = nil
	}
	for _, n := range r.names {
		n.turn.phase = whenLanded[n.turn.phase]
	}
}

// noted notes how another statement went.
func (rs *rounds) noted(failure error) { rs.failure = failure }

// trouble is what is in the way of writing the lock.
func (rs *rounds) trouble(n *name) string {
	if err := cmp.Or(n.turn.failure, rs.failure); err != nil {
		return fmt.Sprintf("the database: %v", err)
	}
	if n.turn.aside {
		return "another transaction keeps its row locked"
	}
	return ""
}

// narrow narrows down which row made a round fail, if it was not the database: each
// row is retried in a round of at most half the size, and a row that fails alone
// while others are written is set aside.
func (rs *rounds) narrow(r round) {
	for _, n := range r.names {
		n.turn.most = max(1, len(r.names)/2)
	}
	if n := r.names[0]; len(r.names) == 1 {
		if !n.turn.failed.IsZero() && rs.wrote.After(n.turn.failed) {
			rs.setAside(n)
		}
		n.turn.failed = time.Now()
	}
}

// setAside leaves a row to the goroutine that writes such rows one by one. Without the
// poke, a name that is due already would wait for the next time that another one is
// set aside.
func (rs *rounds) setAside(n *name) {
	n.turn.aside = true
	if n.turn.isDue() {
		poke(rs.asides)
	}
}

// putBack has a row written together with others again.
func (rs *rounds) putBack(n *name) { n.turn.aside = false }

// written notes that the lock's row was written: nothing is in the way of the next write.
func (rs *rounds) written(n *name) {
	rs.putBack(n)
	n.turn.most, n.turn.failure = 0, nil
	rs.wrote = time.Now()
}

// pokeWriters wakes the goroutines that have something to write.
func (rs *rounds) pokeWriters() {
	aside := func(n *name) bool { return n.turn.aside }
	if slices.ContainsFunc(rs.list, aside) {
		poke(rs.asides)
	}
	if slices.ContainsFunc(rs.list, func(n *name) bool { return !aside(n) }) {
		poke(rs.writes)
	}
}
