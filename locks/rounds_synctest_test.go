package locks

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// planner is the rounds of a client, without its goroutines.
type planner struct {
	rounds
	t *testing.T
}

func newPlanner(t *testing.T) *planner {
	return &planner{rounds{writes: make(chan struct{}, 1), asides: make(chan struct{}, 1)}, t}
}

func names(prefix string, n int) []*name {
	all := make([]*name, n)
	for i := range all {
		all[i] = &name{text: fmt.Sprintf("%s%03d", prefix, i)}
	}
	return all
}

func (p *planner) touchAll(names []*name) {
	for _, n := range names {
		p.touch(n)
	}
}

// poked reports whether a channel was poked, and takes that back.
func poked(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (p *planner) wants(when string, c chan struct{}, want bool) {
	p.t.Helper()
	if got := poked(c); got != want {
		p.t.Errorf("%s: poked %v, want %v", when, got, want)
	}
}

// takes begins a round, which has to be of so many locks, or says how long to wait.
func (p *planner) takes(when string, aside bool, most int, wait time.Duration) round {
	p.t.Helper()
	r, got := p.take(aside)
	if len(r.names) != most || most == 0 && got != wait {
		p.t.Errorf("%s: %d locks, or %v, want %d or %v", when, len(r.names), got, most, wait)
	}
	return r
}

// While a round is under way, others gather: until there are enough for a full one, or the
// first has taken long.
func TestRoundsGather(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlanner(t)
		p.touch(&name{text: "first"})
		p.wants("the first", p.writes, true)
		first := p.takes("the first", false, 1, 0)
		p.takes("none is left", false, 0, time.Hour)

		all := names("a", batchMost)
		p.touch(all[0])
		p.wants("the next", p.writes, true)
		p.takes("the next gathers", false, 0, patience+patienceForRow)
		p.touchAll(all[1 : batchMost-1])
		p.wants("the next but one", p.writes, false)
		p.takes("they gather", false, 0, patience+patienceForRow)
		p.touch(all[batchMost-1])
		p.wants("a full round", p.writes, true)
		second := p.takes("a full round", false, batchMost, 0)
		p.wants("none is left behind", p.writes, false)
		if !slices.IsSortedFunc(second.names, func(a, b *name) int { return int(a.text[1]) - int(b.text[1]) }) {
			t.Error("not sorted")
		}
		// With more than a full round, another writer goes on.
		p.ended(first, time.Now())
		p.touchAll(names("b", batchMost+1))
		poked(p.writes)
		third := p.takes("a full round", false, batchMost, 0)
		p.wants("one is left for another writer", p.writes, true)
		time.Sleep(patience + batchMost*patienceForRow)
		fourth := p.takes("the newest has taken long", false, 1, 0)
		p.touch(&name{text: "late"})
		p.takes("as many as may be", false, 0, time.Hour)
		for _, r := range []round{second, third, fourth} {
			p.ended(r, time.Now())
		}
		p.takes("afterwards", false, 1, 0)
	})
}

// A round whose write may wait for its row holds up no others.
func TestRoundThatMayWait(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	n := &name{text: "locked"}
	p.touch(n)
	waiting := p.takes("the first", false, 1, 0)
	poked(p.writes)
	if !p.mayWait(waiting) {
		t.Error("it may not wait")
	}
	p.wants("nothing gathers", p.writes, false)
	p.touch(&name{text: "a"})
	p.wants("a lock beside it", p.writes, true)
	beside := p.takes("beside it", false, 1, 0)
	if p.mayWait(beside) {
		t.Error("two may wait")
	}
	p.touch(&name{text: "b"})
	poked(p.writes)
	p.ended(beside, time.Now())
	beside = p.takes("one behind the other", false, 1, 0)
	p.ended(waiting, time.Now())
	p.touch(&name{text: "c"})
	poked(p.writes)
	if !p.mayWait(beside) {
		t.Error("it may not wait although no other does any more")
	}
	p.wants("one that gathers need not any more", p.writes, true)
	p.lost(beside)
	p.takes("one was lost", false, 1, 0)
}

// A caller carries out its own round while nothing else is to be done, and the database is quick.
func TestOwnRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlanner(t)
		one, other := &name{text: "one"}, &name{text: "other"}
		own := func(when string, want int) round {
			t.Helper()
			r := p.own(one)
			if len(r.names) != want {
				t.Errorf("%s: %d locks, want %d", when, len(r.names), want)
			}
			return r
		}
		own("at first", 0)
		begin := time.Now()
		p.ended(p.takes("at first", false, 1, 0), begin)
		r := own("after a quick round", 1)
		if !one.turn.isBusy() || one.turn.isDue() {
			t.Error("not in a round")
		}
		p.wants("and no writer", p.writes, true) // at first
		if p.touch(one); !one.turn.isBusy() || !one.turn.isDue() {
			t.Error("not in a round, and in the next")
		}
		if p.ended(r, time.Now()); one.turn.isBusy() || !one.turn.isDue() {
			t.Error("not in the next round")
		}
		own("it is due again", 0)
		p.ended(p.takes("it is due again", false, 1, 0), time.Now())
		r = own("it is not due", 1)
		time.Sleep(quick - 1)
		p.ended(r, begin.Add(time.Since(begin)-quick+1))
		r = own("just quick enough", 1)
		begin = time.Now()
		time.Sleep(quick)
		p.ended(r, begin)
		own("after a slow round", 0)
		p.touch(other)
		p.ended(p.takes("two", false, 2, 0), time.Now())
		own("after a round of two", 0)
		p.ended(p.takes("one", false, 1, 0), time.Now())
		p.touch(other)
		own("beside another one", 0)
	})
}

// A row that cannot be written is found by halves, and then holds up no others. While the
// database is away, none is set aside.
func TestRowThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlanner(t)
		all := names("a", 4)
		bad := all[0]
		fail := func(when string, written bool, most int) {
			t.Helper()
			r := p.takes(when, false, most, 0)
			time.Sleep(time.Second)
			p.failed(r, errNoClient, written)
			p.touchAll(r.names)
		}
		p.touchAll(all)
		fail("a reading says nothing about a row", false, 4)
		fail("all", true, 4)
		fail("one half", true, 2)
		fail("the other half", true, 2)
		for range 2 * len(all) {
			fail("one by one", true, 1)
		}
		if bad.turn.isAside() {
			t.Error("set aside while none can be written")
		}
		fail("the bad one", true, 1)
		time.Sleep(time.Second)
		for range all[1:] {
			r := p.takes("a good one", false, 1, 0)
			p.written(r.names[0])
			p.ended(r, time.Now())
		}
		poked(p.asides)
		fail("the bad one again", true, 1)
		if !bad.turn.isAside() {
			t.Error("not set aside although others are written")
		}
		p.wants("the writer of such rows", p.asides, true)
		p.takes("the others' writer", false, 0, time.Hour)
		r := p.takes("the writer of such rows", true, 1, 0)
		p.takes("nothing else", true, 0, time.Hour)
		p.written(bad)
		p.ended(r, time.Now())
		p.touchAll(all)
		p.takes("all are well", false, 4, 0)
	})
}
