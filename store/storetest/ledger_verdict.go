package storetest

import (
	"fmt"
	"slices"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// saying is the move of a run to an end with a verdict.
func saying(v store.Verdict, r jobs.Record) store.Move {
	m := to(map[store.Verdict]jobs.State{store.NoVerdict: jobs.Cancelled, store.JobWorks: jobs.Succeeded, store.JobFails: jobs.Failed}[v], r)
	m.Verdict = v
	return m
}

func (e *ledgerEnv) failing(job string, want bool, what string) {
	e.Helper()
	e.equal(e.known(group, job).Failing, want, "Failing of "+job+" "+what)
}

var verdictCases = []ledgerCase{
	{"verdict/a job fails and works again", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		other := e.take(s, otherOne, alice)
		e.declareJobs(s, other, report)
		e.failing(report, false, "before its first run")
		r := e.running(s, h, key(report, 1))
		e.failing(report, false, "beside its first run")
		e.moved(s, h, saying(store.JobFails, r))
		e.failing(report, true, "after a failure")
		e.failing(cleanup, false, "beside a job that fails")
		e.equal(e.known(otherOne, report).Failing, false, "Failing of the job of another group")
		e.running(s, h, key(report, 2))
		e.skipped(s, h, key(report, 3))
		e.failing(report, true, "after claims")
		e.prune(s, report, jobs.History{Keep: 1}, 0)
		e.failing(report, true, "after its failure is pruned")
		h = e.take(s, group, bob)
		e.declare(s, h, store.Declared{Name: report, Schedule: "every 7m"})
		e.failing(report, true, "in the next term, which has changed its schedule")
		e.moved(s, h, saying(store.JobWorks, e.running(s, h, key(report, 4))))
		e.failing(report, false, "after a success")
	}},

	{"verdict/whatever the state", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		n, want := 0, false
		for _, verdict := range []store.Verdict{store.JobFails, store.NoVerdict, store.JobWorks, store.NoVerdict} {
			for _, state := range outcomes {
				n++
				m := to(state, e.running(s, h, key(report, n)))
				if n%2 == 0 {
					m = to(state, e.record(group, e.trigger(s, report)))
				}
				m.Verdict = verdict
				e.moved(s, h, m)
				if verdict != store.NoVerdict {
					want = verdict == store.JobFails
				}
				e.failing(report, want, fmt.Sprintf("after %v with verdict %d", state, verdict))
			}
		}
	}},

	{"verdict/not of an earlier tick alone", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		first, second := e.running(s, h, key(report, 1)), e.running(s, h, key(report, 2))
		e.moved(s, h, saying(store.JobWorks, second))
		e.moved(s, h, saying(store.JobFails, first))
		e.failing(report, true, "after an earlier tick has failed later")
	}},

	{"verdict/not of a run that goes on", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		for _, state := range []jobs.State{jobs.Waiting, jobs.Running} {
			m := to(state, r)
			m.Verdict = store.JobFails
			r = e.moved(s, h, m)
			e.failing(report, false, "after a move to "+state.String())
		}
		e.moved(s, h, to(jobs.Failed, r))
		e.failing(report, false, "after an end that says nothing")
	}},

	{"verdict/not of a move that is refused", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		m := saying(store.JobFails, r)
		m.Attempt++
		e.refused(s, h, m, "another attempt")
		e.failing(report, false, "after a move of another attempt")
		m = saying(store.JobFails, r)
		m.Tick = tick(2)
		e.refused(s, h, m, "another tick")
		e.failing(report, false, "after a move of a run that there is not")
		next := e.take(s, group, bob)
		_, err := s.Move(e.ctx(), h, []store.Move{saying(store.JobFails, r)})
		e.is(err, store.ErrReplaced, "a move of the term before")
		e.failing(report, false, "after a move of the term before")
		unknown := e.running(s, next, key("unknown", 1))
		e.moved(s, next, saying(store.JobFails, unknown))
		if k, ok := e.load(group).Jobs["unknown"]; ok {
			e.Errorf("a verdict has made the job known: %+v", k)
		}
		e.declareJobs(s, next, "unknown")
		e.failing("unknown", false, "that was not known when its run failed")
	}},

	{"verdict/not of a repetition", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		fails := saying(store.JobFails, e.running(s, h, key(report, 1)))
		works := saying(store.JobWorks, e.running(s, h, key(report, 2)))
		e.moved(s, h, fails)
		e.moved(s, h, works)
		e.equal(e.move(s, h, fails)[0], true, "the failure again")
		e.failing(report, false, "after the failure again")
		third := saying(store.NoVerdict, e.running(s, h, key(report, 3)))
		e.equal(slices.Equal(e.move(s, h, third, fails), []bool{true, true}), true, "the failure again, beside another end")
		e.failing(report, false, "after the failure again, beside another end")
		e.take(s, group, bob)
		e.move(s, h, fails)
		e.failing(report, false, "after the failure again, by a term that was replaced")
	}},

	{"verdict/the last of a call", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		n := 0
		for _, scene := range []struct {
			verdicts []store.Verdict
			refused  int // 0: none of them
			want     bool
		}{
			{[]store.Verdict{store.JobWorks, store.JobFails}, 0, true},
			{[]store.Verdict{store.JobFails, store.JobWorks}, 0, false},
			{[]store.Verdict{store.JobFails, store.NoVerdict}, 0, true},
			{[]store.Verdict{store.NoVerdict, store.JobWorks}, 0, false},
			{[]store.Verdict{store.JobWorks, store.NoVerdict, store.JobFails, store.NoVerdict}, 0, true},
			{[]store.Verdict{store.NoVerdict, store.NoVerdict}, 0, true},
			{[]store.Verdict{store.JobWorks, store.JobFails}, 2, false},
			{[]store.Verdict{store.JobFails, store.JobWorks}, 2, true},
			{[]store.Verdict{store.JobFails, store.JobWorks, store.NoVerdict}, 2, true},
			{[]store.Verdict{store.JobFails, store.JobWorks}, 1, false},
		} {
			for _, backwards := range []bool{false, true} {
				var moves []store.Move
				for i, v := range scene.verdicts {
					at := n + i
					if backwards {
						at = n + len(scene.verdicts) - 1 - i
					}
					k := jobs.Key{Job: report, Tick: tick(at), Trigger: 7} // in any order
					m := saying(v, e.mine(s, h, store.Claim{Key: k, State: jobs.Running}))
					if i == scene.refused-1 {
						m.Attempt++
					}
					moves = append(moves, m)
				}
				n += len(moves)
				e.move(s, h, moves...)
				e.failing(report, scene.want, fmt.Sprintf("after %v in one call, with number %d refused, backwards %t", scene.verdicts, scene.refused, backwards))
			}
		}
	}},
}
