package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// attempts reads those at a run, and compares all but their instants with those that are
// wanted.
func (e *ledgerEnv) attempts(s archiveStore, k jobs.Key, want ...jobs.Attempt) []jobs.Attempt {
	e.Helper()
	got, err := s.Attempts(e.ctx(), group, k)
	e.ok(err, "Attempts")
	if len(got) != len(want) {
		e.Fatalf("Attempts at %v: %d, want %d: %+v", k, len(got), len(want), got)
	}
	for i := range got {
		plain := got[i]
		plain.Started, plain.Finished = time.Time{}, time.Time{}
		if fmt.Sprintf("%+v", plain) != fmt.Sprintf("%+v", want[i]) {
			e.Errorf("attempt %d at %v: %+v, want %+v", i, k, plain, want[i])
		}
	}
	return got
}

func attempt(number int, state jobs.State, h store.Holder, why string, output []byte) jobs.Attempt {
	return jobs.Attempt{Number: number, State: state, Owner: h.Owner, Token: h.Token, Error: why, Output: output}
}

// fails is a move of a run to its next attempt.
func fails(r jobs.Record, why string, output []byte) store.Move {
	m := to(jobs.Waiting, r)
	m.Error, m.Output = jobs.Previous{State: jobs.TimedOut, Error: why}.String(), output
	return m
}

var attemptCases = []ledgerCase{
	{"attempts/of a run that is retried", func(e *ledgerEnv) {
		s := e.openArchive()
		h := e.begin(s)
		first := e.running(s, h, key(report, 1))
		e.attempts(s, first.Key, attempt(1, jobs.Running, h, "", nil))
		before := e.now()
		r := e.moved(s, h, fails(first, "too slow", []byte("out")))
		one := attempt(1, jobs.TimedOut, h, "too slow", []byte("out"))
		got := e.attempts(s, r.Key, one)
		e.equal(got[0].Started, first.Started, "the start of the first attempt")
		e.between(got[0].Finished, before, "the end of the first attempt")
		again := e.moved(s, h, to(jobs.Running, r))
		got = e.attempts(s, r.Key, one, attempt(2, jobs.Running, h, "", nil))
		e.equal(got[0].Started, first.Started, "the start of the first attempt, when the second goes on")
		e.equal(got[1].Started, again.Started, "the start of the second attempt")
		m := to(jobs.Failed, again)
		m.Error = "broken"
		over := e.moved(s, h, m)
		got = e.attempts(s, r.Key, one, attempt(2, jobs.Failed, h, "broken", nil))
		e.equal(got[1].Started, again.Started, "the start of the last attempt")
		e.equal(got[1].Finished, over.Finished, "the end of the last attempt")
		e.attempts(s, e.running(s, h, key(cleanup, 1)).Key, attempt(1, jobs.Running, h, "", nil))
	}},

	{"attempts/of a run that is recovered", func(e *ledgerEnv) {
		s := e.openArchive()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		heir := e.take(s, group, bob)
		was := r
		r = e.moved(s, heir, to(jobs.Running, r))
		got := e.attempts(s, r.Key, attempt(1, jobs.Interrupted, h, "", nil), attempt(2, jobs.Running, heir, "", nil))
		e.equal(got[0].Started, was.Started, "the start of the interrupted attempt")
		e.equal(got[0].Finished, time.Time{}, "the end of the interrupted attempt")
		unbegun := e.moved(s, heir, to(jobs.Waiting, r))
		e.attempts(s, unbegun.Key, attempt(1, jobs.Interrupted, h, "", nil), attempt(2, jobs.Interrupted, heir, "", nil))
		e.moved(s, heir, to(jobs.Cancelled, unbegun))
		e.attempts(s, unbegun.Key, attempt(1, jobs.Interrupted, h, "", nil), attempt(2, jobs.Interrupted, heir, "", nil))
	}},

	{"attempts/with the end of what they print", func(e *ledgerEnv) {
		s := e.openArchive()
		h := e.begin(s)
		var moves []store.Move
		var outputs [][]byte
		for n := range 250 {
			r := e.running(s, h, key(report, n))
			m := to(outcomes[n%len(outcomes)], r)
			m.Error = "why"
			switch {
			case n == 0:
				m.Output = append([]byte("the beginning"), bytes.Repeat([]byte("0123456789\x00\xff\n'\"\\"), 1000)...)
			case n%3 > 0:
				m.Output = fmt.Appendf(nil, "output %d", n)
			}
			if n%5 == 0 {
				m.Then = []store.Follower{{Key: jobs.Key{Job: cleanup, Tick: tick(n), Trigger: 1 << 52}}}
			}
			moves, outputs = append(moves, m), append(outputs, m.Output)
		}
		if slices.Contains(e.move(s, h, moves...), false) {
			e.Fatal("Move did not move all")
		}
		outputs[0] = outputs[0][len(outputs[0])-jobs.MaxOutput:]
		for n, m := range moves {
			got := e.attempts(s, m.Key, attempt(1, m.To, h, "why", outputs[n]))
			if over := e.record(group, m.Key); n%50 == 0 && (!got[0].Started.Equal(over.Started) || !got[0].Finished.Equal(over.Finished)) {
				e.Errorf("attempt from %v to %v, the run from %v to %v", got[0].Started, got[0].Finished, over.Started, over.Finished)
			}
		}
		e.equal(e.count(group), 300, "runs with those that follow")
	}},

	{"attempts/none of a move that changes nothing", func(e *ledgerEnv) {
		s := e.openArchive()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		wrong := fails(r, "wrong", []byte("wrong"))
		wrong.Attempt++
		e.refused(s, h, wrong, "a move of another attempt")
		wrong = fails(r, "wrong", []byte("wrong"))
		wrong.Token--
		e.refused(s, h, wrong, "a move of another term's run")
		e.attempts(s, r.Key, attempt(1, jobs.Running, h, "", nil))
		m := fails(r, "right", []byte("right"))
		e.moved(s, h, m)
		want := attempt(1, jobs.TimedOut, h, "right", []byte("right"))
		got := e.attempts(s, r.Key, want)
		m.Output = []byte("again")
		e.equal(e.move(s, h, m)[0], true, "that a repeated move says so")
		again := e.attempts(s, r.Key, want)
		e.equal(again[0].Finished, got[0].Finished, "the end of the attempt after a repeated move")
		late := e.running(s, h, key(report, 2))
		e.take(s, group, bob)
		_, err := s.Move(e.ctx(), h, []store.Move{fails(late, "late", []byte("late"))})
		e.is(err, store.ErrReplaced, "Move of a replaced holder")
		e.attempts(s, late.Key, attempt(1, jobs.Running, h, "", nil))
	}},

	{"attempts/none of a move by another holder", func(e *ledgerEnv) {
		s := e.openArchive()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		holders := replaced(h)
		other := e.take(s, otherOne, alice)
		other.Group = group
		holders["the owner's term in another group"] = other
		for what, not := range holders {
			_, err := s.Move(e.ctx(), not, []store.Move{fails(r, "late", []byte("late"))})
			e.is(err, store.ErrReplaced, "Move by "+what)
			e.attempts(s, r.Key, attempt(1, jobs.Running, h, "", nil))
		}
	}},

	{"attempts/none of a run that was never started", func(e *ledgerEnv) {
		s := e.openArchive()
		h := e.begin(s)
		e.attempts(s, e.waiting(s, h, key(report, 1)).Key)
		e.attempts(s, e.skipped(s, h, key(report, 2)).Key)
		e.attempts(s, e.trigger(s, report))
		_, err := s.Attempts(e.ctx(), group, key(report, 3))
		e.is(err, jobs.ErrNoRun, "Attempts at a run that there is not")
		_, err = s.Attempts(e.ctx(), otherOne, key(report, 1))
		e.is(err, jobs.ErrNoRun, "Attempts at a run of another group")
		_, err = s.Attempts(e.ctx(), group, jobs.Key{Job: report, Tick: tick(1), Trigger: 5})
		e.is(err, jobs.ErrNoRun, "Attempts under another number")
	}},

	{"attempts/not those of a run that had the key before", func(e *ledgerEnv) {
		s := e.openArchive()
		h := e.begin(s)
		ask := jobs.Request{Tick: tick(1), Trigger: 7}
		k, err := s.Trigger(e.ctx(), group, report, ask)
		e.ok(err, "Trigger")
		r := e.moved(s, h, to(jobs.Running, e.record(group, k)))
		r = e.moved(s, h, to(jobs.Running, e.moved(s, h, fails(r, "", []byte("before")))))
		e.moved(s, h, to(jobs.Succeeded, r))
		e.running(s, h, key(report, 5))
		e.equal(e.prune(s, report, jobs.History{Keep: 1}, 0), 1, "runs that were pruned")
		_, err = s.Attempts(e.ctx(), group, k)
		e.is(err, jobs.ErrNoRun, "Attempts at a run that was pruned")
		_, err = s.Trigger(e.ctx(), group, report, ask)
		e.ok(err, "Trigger")
		e.attempts(s, k)

		later := e.running(s, h, key(cleanup, 100))
		e.moved(s, h, fails(later, "", []byte("before")))
		before := attempt(1, jobs.TimedOut, h, "", []byte("before"))
		h = e.take(s, group, bob)
		n, err := s.PassOver(e.ctx(), h, cleanup, tick(50))
		e.ok(err, "PassOver")
		e.equal(n, 1, "runs that were passed over")
		e.running(s, h, later.Key)
		e.attempts(s, later.Key, attempt(1, jobs.Running, h, "", nil))
		later.Trigger = h.Token
		e.attempts(s, later.Key, before) // which go with their run
	}},
}
