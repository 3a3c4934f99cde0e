package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// sizeCases are about calls that a store has to cut, and about what it has much of.
var sizeCases = []ledgerCase{
	{"claim/a thousand in one call", func(e *ledgerEnv) {
		s := e.open()
		h, id := e.begin(s), newID()
		claims := many(1000, jobs.Running, jobs.Waiting, jobs.Skipped)
		first := e.claim(s, h, id, claims...)
		for i, c := range first {
			if !c.Mine || c.State != claims[i].State || c.Missed != claims[i].Missed {
				e.Fatalf("claim %d of %v in state %v, missed %d: mine %t, %s", i, claims[i].Key, claims[i].State, claims[i].Missed, c.Mine, showRecord(c.Record))
			}
		}
		e.equal(e.count(group), len(claims), "runs")
		stored := map[jobs.Key]jobs.Record{}
		for _, r := range e.runs(group, jobs.Filter{Limit: all}) {
			stored[r.Key] = r
		}
		again, others := e.claim(s, h, id, claims...), e.claim(s, h, newID(), claims...)
		for i, c := range first {
			e.same(stored[c.Key], c.Record, "read back")
			e.equal(again[i], c, "the same call again")
			e.equal(others[i], store.Claimed{Record: c.Record}, "another call")
		}
	}},

	{"extend/many in one call", func(e *ledgerEnv) {
		s := e.open()
		h, id := e.begin(s), newID()
		long := strings.Repeat("é", store.MaxError)
		e.claim(s, h, newID(), store.Claim{Key: key(report, 1), State: jobs.Skipped, Error: long}, store.Claim{Key: key(cleanup, 1), State: jobs.Skipped, Error: busy})
		claims := []store.Claim{
			skips(cleanup, 2, 1, 0), {Key: key(report, 3), State: jobs.Running}, skips(report, 2, 1, 5),
			{Key: key("third", 1), State: jobs.Skipped, Error: busy, Extends: tick(0)},
		}
		claims[2].Error = long
		first := e.claim(s, h, id, claims...)
		for i, c := range first {
			e.equal(c.Mine, true, "Mine of a claim of many")
			e.equal(c.Missed, []int{1, 0, 6, 0}[i], "Missed of a claim of many")
			e.unchanged(c.Record, "read back")
		}
		e.equal(e.count(group), 4, "runs")
		e.ok(s.Pause(e.ctx(), group, cleanup), "Pause")
		for i, c := range e.claim(s, h, id, claims[1:]...) {
			e.equal(c, first[i+1], "a part of the same call again")
		}
		e.equal(e.mine(s, h, skips(cleanup, 3, 2, 0)).Missed, 2, "Missed of a paused job's row")
		e.equal(e.count(group), 4, "runs")
		if k := e.known(group, cleanup); !k.Finished.IsZero() {
			e.Errorf("the job's Finished is %v after claims as skipped", k.Finished)
		}
	}},

	{"move/many in one call", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		claimed := e.claim(s, h, newID(), many(500, jobs.Running, jobs.Waiting)...)
		moves := make([]store.Move, len(claimed))
		for i, c := range claimed {
			moves[i] = to(jobs.Succeeded, c.Record)
			if c.State == jobs.Waiting {
				moves[i].To = jobs.Running
			}
			moves[i].Error = fmt.Sprint("error ", i)
			if i%7 == 3 {
				moves[i].Attempt++
			}
		}
		moves = append(moves, store.Move{Key: key(report, 9999), From: jobs.Running, Attempt: 1, Owner: alice, Token: h.Token, To: jobs.Failed})
		check := func(moved []bool, what string) {
			e.Helper()
			for i, is := range moved {
				if want := i%7 != 3 && i < len(claimed); is != want {
					e.Fatalf("%s: move %d of %v: %t, want %t", what, i, moves[i].Key, is, want)
				}
			}
		}
		check(e.move(s, h, moves...), "many moves")
		stored := map[jobs.Key]jobs.Record{}
		for _, r := range e.runs(group, jobs.Filter{Limit: all}) {
			stored[r.Key] = r
		}
		for i, c := range claimed {
			r := stored[c.Key]
			if i%7 == 3 {
				e.same(r, c.Record, "a run that the call did not expect")
			} else {
				e.equal(r.State, moves[i].To, "State")
				e.equal(r.Error, moves[i].Error, "Error")
			}
		}
		check(e.move(s, h, moves...), "the same moves again")
	}},

	{"follow/many", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		claimed := e.claim(s, h, newID(), many(450, jobs.Running)...)
		var moves []store.Move
		for i, c := range claimed {
			m := to(jobs.Succeeded, c.Record)
			if i%3 > 0 {
				m.Then = []store.Follower{after(c.Record)}
				m.Then[0].Job += c.Job
			}
			if i%7 == 3 {
				m.Attempt++
			}
			moves = append(moves, m)
		}
		for range 2 {
			moved := e.move(s, h, moves...)
			for i, is := range moved {
				e.equal(is, i%7 != 3, fmt.Sprint("Move of run ", i))
			}
			there := map[jobs.Key]bool{}
			for _, r := range e.runs(group, jobs.Filter{Limit: all}) {
				there[r.Key] = true
			}
			for i, m := range moves {
				for _, f := range m.Then {
					e.equal(there[f.Key], i%7 != 3, fmt.Sprint("there is a follower of run ", i))
				}
			}
		}
	}},

	{"follow/many claims", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		claims := many(650, jobs.Running, jobs.Waiting, jobs.Skipped)
		for i := range claims {
			if i%7 == 3 { // there before, and not the job's newest tick
				claims[i].Trigger = 1
				e.mine(s, h, claims[i])
			}
			if i%3 > 0 {
				f := told(claims[i].Key)
				f.Job += claims[i].Job
				f.Args = json.RawMessage(`"` + strings.Repeat("é", 400) + fmt.Sprint(i) + `"`)
				claims[i].Then = []store.Follower{f}
			}
		}
		id := newID()
		for range 2 {
			e.claim(s, h, id, claims...)
			runs := map[jobs.Key]bool{}
			for _, r := range e.runs(group, jobs.Filter{Limit: all}) {
				runs[r.Key] = true
			}
			for i, c := range claims {
				for _, f := range c.Then {
					e.equal(runs[f.Key], i%7 != 3, fmt.Sprint("there is a follower of claim ", i))
				}
			}
		}
		e.hasArgs(claims[1].Then[0].Key, string(claims[1].Then[0].Args), "of a run that follows one of many")
	}},

	{"prune/batches of 500", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		claims := make([]store.Claim, 700)
		for i := range claims {
			claims[i] = store.Claim{Key: key(report, i), State: jobs.Skipped}
		}
		e.claim(s, h, newID(), claims...)
		e.equal(e.prune(s, report, jobs.History{Keep: 1}, 0), 500, "deleted in the first batch")
		e.equal(e.prune(s, report, jobs.History{Keep: 1}, 0), 199, "deleted in the second batch")
		e.equal(e.prune(s, report, jobs.History{Keep: 1}, 0), 0, "deleted in the third batch")
		e.left(report, "all batches", 699)
	}},

	{"declare/a hundred jobs", func(e *ledgerEnv) {
		s := e.open()
		h := e.take(s, group, alice)
		var declared []store.Declared
		for i := range 100 {
			declared = append(declared, store.Declared{Name: strings.Repeat("x", 100-i), Schedule: strings.Repeat("é ", 10*i)})
		}
		e.declare(s, h, declared...)
		known := e.load(group).Jobs
		e.equal(len(known), len(declared), "jobs known")
		for _, d := range declared {
			e.equal(known[d.Name].Schedule, d.Schedule, "Schedule of "+d.Name)
		}
	}},

	{"attempts/the last hundred", func(e *ledgerEnv) {
		s := e.openArchive()
		h := e.begin(s)
		elsewhere, long := e.take(s, otherOne, alice), key(report, 3)
		others := []jobs.Key{key(report, 2), key(cleanup, 3), {Job: long.Job, Tick: long.Tick, Trigger: 1 << 52}}
		twice := func(h store.Holder, k jobs.Key) {
			e.moved(s, h, to(jobs.Running, e.moved(s, h, fails(e.running(s, h, k), "other", nil))))
		}
		for _, k := range others {
			twice(h, k)
		}
		twice(elsewhere, long)
		r := e.running(s, h, long)
		for n := 1; n <= jobs.MaxAttempts+2; n++ {
			r = e.moved(s, h, to(jobs.Running, e.moved(s, h, fails(r, "", nil))))
		}
		got, err := s.Attempts(e.ctx(), group, r.Key)
		e.ok(err, "Attempts")
		if n := len(got); n != jobs.MaxAttempts+1 || got[0].Number != 3 || got[n-1].Number != jobs.MaxAttempts+3 {
			e.Fatalf("Attempts of %d: %d, from number %d", jobs.MaxAttempts+3, n, got[0].Number)
		}
		for _, k := range others {
			e.attempts(s, k, attempt(1, jobs.TimedOut, h, "other", nil), attempt(2, jobs.Running, h, "", nil))
		}
		got, err = s.Attempts(e.ctx(), otherOne, long)
		e.ok(err, "Attempts in another group")
		e.equal(len(got), 2, "attempts at the run of another group")
	}},

	{"trigger/up to the most that are open", func(e *ledgerEnv) {
		s := e.open()
		elsewhere := e.take(s, otherOne, alice)
		e.declareJobs(s, elsewhere, report)
		e.waiting(s, elsewhere, key(report, 1))
		h := e.begin(s)
		e.waiting(s, h, key(cleanup, 1))
		e.skipped(s, h, key(report, 1))
		e.moved(s, h, to(jobs.Failed, e.running(s, h, key(report, 2))))
		claims := make([]store.Claim, jobs.MaxOpen-1)
		for i := range claims {
			claims[i] = store.Claim{Key: key(report, 3+i), State: []jobs.State{jobs.Running, jobs.Waiting}[i%2]}
		}
		claimed := e.claim(s, h, newID(), claims...)
		ask := jobs.Request{Tick: tick(1), Trigger: 7}
		for range 2 { // the second is the same request again
			_, err := s.Trigger(e.ctx(), group, report, ask)
			e.ok(err, "Trigger of the last that a job may have")
		}
		was := e.changes(group)
		for _, one := range []jobs.Request{{}, {Tick: tick(1)}, {Tick: tick(1), Trigger: 8}} {
			_, err := s.Trigger(e.ctx(), group, report, one)
			e.is(err, jobs.ErrManyOpen, "Trigger of one more")
		}
		e.equal(len(e.load(group).Open), jobs.MaxOpen+1, "open runs after a refusal")
		e.equal(e.changes(group), was, "Changes after a refusal")
		if archive, ok := s.(archiveStore); ok {
			e.audit(archive, group, jobs.AuditFilter{Limit: 1}, entry(jobs.Actor{Via: jobs.ViaAPI}, jobs.ActionTrigger, jobs.Key{Job: report}, "", jobs.Refused))
		}
		e.trigger(s, cleanup)
		e.move(s, h, to(jobs.Succeeded, claimed[0].Record))
		e.trigger(s, report)
	}},

	{"load/a thousand open runs", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		e.claim(s, h, newID(), many(1000, jobs.Running)...)
		e.equal(len(e.load(group).Open), 1000, "open runs")
	}},

	{"verdict/the last of many", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		claimed := e.claim(s, h, newID(), many(500, jobs.Running)...)
		slices.SortFunc(claimed, func(a, b store.Claimed) int { return b.Tick.Compare(a.Tick) })
		var moves []store.Move
		last := map[string]int{}
		for i, c := range claimed {
			moves = append(moves, saying(store.JobFails, c.Record))
			if c.Job == report {
				moves[i].To, moves[i].Verdict = jobs.Succeeded, store.JobWorks
			}
			last[c.Job] = i
		}
		moves[last[report]].Verdict = store.JobFails
		moves[last[cleanup]].Verdict = store.JobWorks
		e.move(s, h, moves...)
		e.failing(report, true, "whose last run has failed")
		e.failing(cleanup, false, "whose last run has succeeded")
	}},
}
