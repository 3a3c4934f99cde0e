package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
)

// spreadCases are for [store.Spreads].
var spreadCases = []ledgerCase{
	{"spread/claims", func(e *ledgerEnv) {
		s, h := e.spread()
		m := e.session(s, "m")
		id := newID()
		claims := []store.Claim{
			{Key: key(cleanup, 1), State: jobs.Waiting, For: assignee(m), Details: jobs.Details{Fencing: 4, Cluster: "here", Failing: true}},
			{Key: key(report, 1), State: jobs.Waiting, Delay: time.Minute, Missed: 3},
			{Key: key(report, 2), State: jobs.Running},
			{Key: key(report, 3), State: jobs.Skipped, For: assignee(m), Details: jobs.Details{Fencing: 4}},
		}
		before := e.changes(group)
		for _, what := range []string{"the first time", "again"} {
			got := e.claim(s, h, id, claims...)
			for i, want := range []store.Assignee{assignee(m), {}, assignee(h), assignee(h)} {
				r := e.record(group, claims[i].Key)
				e.equal(assigneeOf(r), want, fmt.Sprint("under whom the run of claim ", i, " is"))
				e.equal(r.Details == claims[i].Details, i != 3, fmt.Sprint("whether the run of claim ", i, " has its details"))
				e.equal(got[i].Mine, true, "Mine, "+what)
				e.same(got[i].Record, r, "the answer, "+what)
			}
		}
		e.equal(e.record(group, key(report, 1)).Attempt, 0, "the attempts of a run that waits")
		e.equal(e.changes(group), before, "the number after claims of ticks")
	}},

	{"spread/what follows waits under nobody, and is a change", func(e *ledgerEnv) {
		s, h := e.spread()
		m := e.session(s, "m")
		follower := func(n int) store.Follower {
			return store.Follower{Key: jobs.Key{Job: cleanup, Tick: tick(n), Trigger: 1 << 53}}
		}
		before := e.changes(group)
		e.claim(s, h, newID(), store.Claim{Key: key(report, 1), State: jobs.Waiting, For: assignee(m), Then: []store.Follower{follower(1)}})
		of := e.changes(group)
		e.differs(of, before, "the number after a claim")
		r := e.moved(s, m, to(jobs.Running, e.record(group, key(report, 1))))
		e.equal(e.changes(group), of, "the number after a start")
		end := to(jobs.Succeeded, r)
		end.Then = []store.Follower{follower(2)}
		e.moved(s, m, end)
		e.differs(e.changes(group), of, "the number after an end")
		for n := 1; n <= 2; n++ {
			r := e.record(group, follower(n).Key)
			e.equal(fmt.Sprint(r.State, assigneeOf(r)), fmt.Sprint(jobs.Waiting, store.Assignee{}), "a follower")
		}
	}},

	{"spread/the runs of two jobs that follow one at two ticks are a change", func(e *ledgerEnv) {
		s, h := e.spread()
		m := e.session(s, "m")
		var ends []store.Move
		for n := range 2 {
			end := to(jobs.Succeeded, e.moved(s, m, to(jobs.Running, e.mine(s, h, store.Claim{Key: key(report, n), State: jobs.Waiting, For: assignee(m)}))))
			for _, job := range []string{cleanup, "export"} {
				end.Then = append(end.Then, store.Follower{Key: jobs.Key{Job: job, Tick: tick(n), Trigger: 1 << 53}})
			}
			ends = append(ends, end)
		}
		before := e.changes(group)
		e.move(s, m, ends...)
		e.differs(e.changes(group), before, "the number")
	}},

	{"spread/a run is assigned, started and ended", func(e *ledgerEnv) {
		s, h := e.spread()
		m := e.session(s, "m")
		r := e.mine(s, h, store.Claim{Key: key(report, 1), State: jobs.Waiting})
		assign := to(jobs.Waiting, r)
		assign.For, assign.Details, assign.Delay = assignee(m), jobs.Details{Unbegun: 4}, time.Minute
		before := e.now()
		got := e.moved(s, h, assign)
		e.betweenPlus(got.Due, before, assign.Delay, "Due")
		r.Owner, r.Token, r.Due, r.Details = m.Owner, m.Token, got.Due, assign.Details
		e.same(got, r, "a run that was assigned")
		e.equal(e.move(s, h, assign)[0], true, "an assignment that is repeated")
		e.unchanged(got, "after an assignment that is repeated")
		other := assign
		other.For.Owner = "n"
		e.refused(s, h, other, "an assignment to another owner, whose session has the same token")

		e.later()
		before = e.now()
		start := to(jobs.Running, r)
		for _, change := range []func(*store.Move){
			func(m *store.Move) { m.From = jobs.Running },
			func(m *store.Move) { m.Attempt++ },
			func(m *store.Move) { m.Owner = h.Owner },
			func(m *store.Move) { m.Token = h.Token },
		} {
			wrong := start
			change(&wrong)
			e.refused(s, m, wrong, "a start of what it does not expect")
		}
		got = e.moved(s, m, start)
		e.between(got.Started, before, "Started")
		r.State, r.Attempt, r.Started, r.Details = jobs.Running, 1, got.Started, jobs.Details{}
		e.same(got, r, "a run that was started")
		e.equal(e.move(s, m, start)[0], true, "a start that is repeated")
		e.refused(s, h, assign, "an assignment that comes late")

		got = e.moved(s, m, to(jobs.Failed, r))
		r.State, r.Finished = jobs.Failed, got.Finished
		e.same(got, r, "a run that was ended")
		e.equal(e.known(group, report).Started, r.Started, "when the job was started")
	}},

	{"spread/a run that is taken from a replica counts an attempt", func(e *ledgerEnv) {
		s, h := e.spread()
		m, n := e.session(s, "m"), e.session(s, "n")
		r := e.mine(s, h, store.Claim{Key: key(report, 1), State: jobs.Waiting, For: assignee(m)})
		start := to(jobs.Running, r)
		for i, next := range []store.Assignee{assignee(n), assignee(m), assignee(m), {}, assignee(m)} {
			move := to(jobs.Waiting, r)
			move.For = next
			was := r
			r = e.moved(s, h, move)
			e.equal(assigneeOf(r), next, "under whom it is")
			counts := 1
			if was.Owner == "" {
				counts = 0
			}
			e.equal(r.Attempt, was.Attempt+counts, fmt.Sprint("its attempts after step ", i))
			e.equal(e.move(s, h, move)[0], true, "a repetition")
			e.unchanged(r, "after a repetition")
			e.refused(s, m, start, "a start by the first assignment")
			if next == (store.Assignee{}) {
				e.later()
				stay := to(jobs.Waiting, r)
				stay.Then = []store.Follower{after(r)}
				e.equal(e.move(s, h, stay)[0], true, "a move from nobody to nobody")
				e.unchanged(r, "after a move from nobody to nobody")
				e.absent(group, after(r).Key, "after a move from nobody to nobody")
			}
		}
		again := to(jobs.Waiting, e.moved(s, m, to(jobs.Running, r)))
		r = e.moved(s, m, again)
		e.equal(fmt.Sprint(r.Attempt, assigneeOf(r)), fmt.Sprint(again.Attempt, store.Assignee{}), "a run whose attempt has ended, and that waits for another")

		r = e.mine(s, h, store.Claim{Key: key(report, 2), State: jobs.Waiting, For: assignee(h)})
		stay := to(jobs.Waiting, r)
		stay.For, stay.Then = assignee(h), []store.Follower{after(r)}
		e.equal(e.moved(s, h, stay).Attempt, 1, "the attempts of a run that the leader has assigned to itself twice")
		e.record(group, after(r).Key)
	}},

	{"spread/fenced work ends with its attempt", func(e *ledgerEnv) {
		s, h := e.spread()
		if e.h.Fenced == nil {
			e.Skip("left out: Harness.Fenced is nil")
		}
		m, n := e.session(s, "m"), e.session(s, "n")
		r := e.mine(s, h, store.Claim{Key: key(report, 1), State: jobs.Waiting, For: assignee(m)})
		e.moved(s, n, to(jobs.Running, e.mine(s, h, store.Claim{Key: key(report, 2), State: jobs.Waiting, For: assignee(n)})))
		hold := lease.Hold{Store: s, Kind: lease.HoldRun, Name: group, Owner: m.Owner, Token: m.Token, Run: lease.HeldRun{Job: report, Tick: r.Tick, Attempt: 1}}
		goesOn := func(hold lease.Hold, want bool, when string) {
			e.Helper()
			got, err := e.h.Fenced(e.ctx(), s, hold)
			e.ok(err, "a fenced transaction")
			e.equal(got, want, "whether fenced work goes on "+when)
		}
		goesOn(hold, false, "before the start")
		start := to(jobs.Running, r)
		start.Details = jobs.Details{Fencing: 4}
		r = e.moved(s, m, start)
		for range 3 {
			goesOn(hold, true, "while the attempt runs")
		}
		e.unchanged(r, "after fenced work")
		for what, change := range map[string]func(*lease.Hold){
			"of another group":   func(h *lease.Hold) { h.Name = "other" },
			"of another job":     func(h *lease.Hold) { h.Run.Job = cleanup },
			"of another tick":    func(h *lease.Hold) { h.Run.Tick = tick(2) },
			"of another trigger": func(h *lease.Hold) { h.Run.Trigger++ },
			"of another attempt": func(h *lease.Hold) { h.Run.Attempt++ },
			"of another replica": func(h *lease.Hold) { h.Owner = n.Owner },
			"of another session": func(h *lease.Hold) { h.Token++ },
		} {
			other := hold
			change(&other)
			goesOn(other, false, what)
		}
		again := to(jobs.Waiting, r)
		r = e.moved(s, m, again)
		goesOn(hold, false, "while the next attempt waits")
		assign := to(jobs.Waiting, r)
		assign.For = assignee(m)
		r = e.moved(s, h, assign)
		r = e.moved(s, m, to(jobs.Running, r))
		goesOn(hold, false, "in the next attempt")
		hold.Run.Attempt = r.Attempt
		goesOn(hold, true, "as the next attempt")
		e.moved(s, m, to(jobs.Succeeded, r))
		goesOn(hold, false, "after the end")
	}},

	{"spread/a start is stamped with no earlier instant than asked", func(e *ledgerEnv) {
		s, h := e.spread()
		m := e.session(s, "m")
		ahead := e.now().Add(time.Hour)
		for n, at := range []time.Time{ahead, {}, e.now().Add(-time.Hour)} {
			r := e.mine(s, h, store.Claim{Key: key(report, n), State: jobs.Waiting, For: assignee(m)})
			start := to(jobs.Running, r)
			start.NotBefore = at
			before := e.now()
			r = e.moved(s, m, start)
			if at.Equal(ahead) {
				e.equal(r.Started, ahead, "Started")
			} else {
				e.between(r.Started, before, "Started")
			}
			e.moved(s, m, to(jobs.Succeeded, r))
		}
		e.equal(e.known(group, report).Started, ahead, "when the job was started")
	}},

	{"spread/a later attempt does not start before an earlier one", func(e *ledgerEnv) {
		s, h := e.spread()
		m := e.session(s, "m")
		ahead := e.now().Add(time.Hour)
		plain := h
		plain.Assigns = false
		start := to(jobs.Running, e.mine(s, h, store.Claim{Key: key(report, 1), State: jobs.Waiting, For: assignee(m)}))
		start.NotBefore = ahead
		r := e.moved(s, m, start)
		for _, by := range []store.Holder{plain, m} {
			again := to(jobs.Waiting, r)
			again.For = assignee(by)
			if by == m {
				r = e.moved(s, h, again)
			} else {
				r = e.moved(s, by, again)
			}
			r = e.moved(s, by, to(jobs.Running, r))
			e.equal(r.Started, ahead, "Started, as where the clock was set back since")
			e.equal(e.known(group, report).Started, ahead, "when the job was started, while the next attempt goes on")
		}
		e.moved(s, m, to(jobs.Succeeded, r))
		e.equal(e.known(group, report).Started, ahead, "when the job was started")
	}},

	{"spread/a move changes its run and what is known of its job, and nothing else", func(e *ledgerEnv) {
		s, h := e.spread()
		m := e.session(s, "m")
		running := func(h store.Holder, k jobs.Key) jobs.Record {
			by := m
			by.Group = h.Group
			return e.moved(s, by, to(jobs.Running, e.mine(s, h, store.Claim{Key: k, State: jobs.Waiting, For: assignee(m)})))
		}
		elsewhere := e.take(s, otherOne, alice)
		elsewhere.Assigns = true
		e.declareJobs(s, elsewhere, report)
		there := running(elsewhere, key(report, 1))
		fails, says, beside, works := running(h, key(report, 1)), running(h, key(report, 2)), running(h, key(cleanup, 1)), running(h, key(report, 3))
		asked := running(h, jobs.Key{Job: report, Tick: tick(1), Trigger: 1 << 52})
		e.moved(s, m, saying(store.JobFails, fails))
		e.unchanged(beside, "a run of another job")
		e.unchanged(asked, "a run of the tick beside the schedule")
		e.same(e.record(otherOne, there.Key), there, "a run of another group")
		e.failing(report, true, "after a failure")
		e.failing(cleanup, false, "beside a job that fails")
		e.equal(e.known(otherOne, report).Failing, false, "Failing of the job of another group")
		again := saying(store.JobFails, fails)
		again.Then = []store.Follower{after(fails)}
		e.equal(e.move(s, m, again)[0], true, "a failure that is repeated")
		e.absent(group, after(fails).Key, "after a failure that is repeated, while the run of another group goes on")
		e.moved(s, m, saying(store.NoVerdict, says))
		e.failing(report, true, "after an end that says nothing")
		refused := to(jobs.Succeeded, says)
		e.equal(fmt.Sprint(e.move(s, m, saying(store.JobWorks, works), refused, to(jobs.Waiting, beside))), "[true false true]", "a move that is refused, between others")
		e.failing(report, false, "after a success")
	}},

	{"spread/a replica whose session is over", func(e *ledgerEnv) {
		s, h := e.spread()
		m := e.session(s, "m")
		waits := e.mine(s, h, store.Claim{Key: key(report, 1), State: jobs.Waiting, For: assignee(m)})
		runs := e.moved(s, m, to(jobs.Running, e.mine(s, h, store.Claim{Key: key(report, 2), State: jobs.Waiting, For: assignee(m)})))
		e.take(s, m.Session, "x")
		for _, move := range []store.Move{to(jobs.Running, waits), to(jobs.Succeeded, runs), to(jobs.Waiting, runs)} {
			_, err := s.Move(e.ctx(), m, []store.Move{move})
			e.is(err, store.ErrReplaced, "a move under a session that is over")
		}
		e.unchanged(waits, "a run that waits")
		e.unchanged(runs, "a run that runs")
		taken := e.moved(s, h, to(jobs.Interrupted, runs))
		e.equal(assigneeOf(taken), assignee(h), "a run that the leader has taken up")
	}},

	{"spread/a replica under another's session", func(e *ledgerEnv) {
		s, h := e.spread()
		m, n := e.session(s, "m"), e.session(s, "n")
		waits := e.mine(s, h, store.Claim{Key: key(report, 1), State: jobs.Waiting, For: assignee(m)})
		runs := e.moved(s, m, to(jobs.Running, e.mine(s, h, store.Claim{Key: key(report, 2), State: jobs.Waiting, For: assignee(m)})))
		end := to(jobs.Succeeded, runs)
		end.Then = []store.Follower{{Key: jobs.Key{Job: cleanup, Tick: tick(2), Trigger: 1 << 53}}}
		for what, by := range map[string]store.Holder{
			"session": {Session: n.Session, Owner: m.Owner, Token: m.Token},
			"owner":   {Session: m.Session, Owner: n.Owner, Token: m.Token},
			"token":   {Session: m.Session, Owner: m.Owner, Token: n.Token},
			"none":    {Owner: m.Owner, Token: m.Token},
		} {
			by.Group, by.Assigns = group, true
			for _, move := range []store.Move{to(jobs.Running, waits), end} {
				_, err := s.Move(e.ctx(), by, []store.Move{move})
				e.is(err, store.ErrReplaced, "a move where another has the "+what)
			}
		}
		e.unchanged(waits, "a run that waits")
		e.unchanged(runs, "a run that runs")
		e.absent(group, end.Then[0].Key, "a follower")
	}},

	{"spread/a new term of the group leaves sessions alone", func(e *ledgerEnv) {
		s, h := e.spread()
		m := e.session(s, "m")
		waits := e.mine(s, h, store.Claim{Key: key(report, 1), State: jobs.Waiting, For: assignee(m)})
		late := e.mine(s, h, store.Claim{Key: key(report, 2), State: jobs.Waiting})
		e.take(s, group, bob)
		assign := to(jobs.Waiting, late)
		assign.For = assignee(m)
		_, err := s.Move(e.ctx(), h, []store.Move{assign})
		e.is(err, store.ErrReplaced, "an assignment by the term before")
		e.unchanged(late, "after it")
		e.moved(s, m, to(jobs.Succeeded, e.moved(s, m, to(jobs.Running, waits))))
	}},

	{"spread/a start on another server", func(e *ledgerEnv) {
		if e.h.AnyServer {
			e.Skip("left out: Harness.AnyServer is set")
		}
		s, h := e.spread()
		m := e.session(s, "m")
		waits := e.mine(s, h, store.Claim{Key: key(report, 1), State: jobs.Waiting, For: assignee(m)})
		m.Server = "another"
		_, err := s.Move(e.ctx(), m, []store.Move{to(jobs.Running, waits)})
		if err == nil || !errors.Is(err, store.ErrOtherServer) {
			e.Errorf("a start on another server: %v", err)
		}
		e.unchanged(waits, "after it")
	}},

	{"spread/no start of a run that is to be cancelled", func(e *ledgerEnv) {
		s, h := e.spread()
		m := e.session(s, "m")
		r := e.mine(s, h, store.Claim{Key: key(report, 1), State: jobs.Waiting, For: assignee(m)})
		e.ok(s.Cancel(e.ctx(), group, r.Key), "Cancel")
		r.CancelAsked = true
		e.refused(s, m, to(jobs.Running, r), "a start")
		e.moved(s, m, to(jobs.Cancelled, r))
	}},

	{"spread/many in one call", func(e *ledgerEnv) {
		const most = 450
		s, h := e.spread()
		sessions := []store.Holder{e.session(s, "m"), e.session(s, "n")}
		var claims []store.Claim
		for n := range most {
			claims = append(claims, store.Claim{Key: key(report, n), State: jobs.Waiting})
		}
		assigns := make([]store.Move, most)
		for n, c := range e.claim(s, h, newID(), claims...) {
			assigns[n] = to(jobs.Waiting, c.Record)
			assigns[n].For = assignee(sessions[n%2])
		}
		for range 2 {
			for n, done := range e.move(s, h, assigns...) {
				e.equal(done, true, fmt.Sprint("assignment ", n))
			}
		}
		for _, m := range sessions {
			var starts, ends []store.Move
			for _, r := range e.openOf(s, m.Owner).Open {
				starts = append(starts, to(jobs.Running, r))
				r.State, r.Attempt = jobs.Running, 1
				ends = append(ends, to(jobs.Succeeded, r))
			}
			e.equal(len(starts), most/2, "the runs of one replica")
			for range 2 {
				for n, done := range e.move(s, m, starts...) {
					e.equal(done, true, fmt.Sprint("start ", n))
				}
			}
			for n, done := range e.move(s, m, ends...) {
				e.equal(done, true, fmt.Sprint("end ", n))
			}
		}
		e.equal(len(e.load(group).Open), 0, "the runs that are open")
	}},

	{"spread/the mode of a group", func(e *ledgerEnv) {
		s, _ := e.open().(store.Spreads)
		if s == nil {
			e.Skip("left out: the store is no store.Spreads")
		}
		opened := func(spread bool, cluster string, token uint64, what string) {
			e.Helper()
			o := e.load(group).Opened
			e.equal(fmt.Sprint(o.Spread, o.Cluster, o.Token), fmt.Sprint(spread, cluster, token), what)
			open, err := s.Open(e.ctx(), group, "")
			e.ok(err, "Open")
			e.equal(open.Opened, o, "the same by Open")
		}
		opened(false, "", 0, "an empty ledger")
		for _, on := range []bool{true, false, true} {
			before := e.changes(group)
			e.ok(s.SetSpread(e.ctx(), group, on), "SetSpread")
			e.differs(e.changes(group), before, "the number")
			opened(on, "", 0, "after a switch, before any term")
			before = e.changes(group)
			e.ok(s.SetSpread(e.ctx(), group, on), "SetSpread")
			e.equal(e.changes(group), before, "the number after a switch that changes nothing")
		}
		h := e.take(s, group, alice)
		h.Assigns, h.Cluster = true, "one with a space"
		e.declareJobs(s, h, report)
		opened(true, h.Cluster, h.Token, "after a term that assigns")
		again := h
		again.Cluster = ""
		e.declareJobs(s, again, cleanup)
		opened(true, h.Cluster, h.Token, "after the same term declared another job")
		e.ok(s.SetSpread(e.ctx(), group, false), "SetSpread")
		opened(false, h.Cluster, h.Token, "after a switch: replicas may have runs")
		e.declareJobs(s, again, report)
		opened(false, h.Cluster, h.Token, "after the same term declared a job again")
		e.ok(s.Pause(e.ctx(), group, ""), "Pause")
		opened(false, h.Cluster, h.Token, "after a pause")
		h = e.take(s, group, alice)
		h.Assigns, h.Cluster = true, "another"
		e.declareJobs(s, h, report)
		opened(false, h.Cluster, h.Token, "after a term that does not know of the switch")
		e.equal(e.load(group).Jobs[report].Schedule, "every 1m", "the schedule of a job that was declared again")
		h = e.take(s, group, bob)
		h.Cluster = "not noted"
		e.declareJobs(s, h, report)
		opened(false, "", h.Token, "after a term that does not assign")
		e.ok(s.SetSpread(e.ctx(), group, true), "SetSpread")
		opened(true, "", h.Token, "after a switch")
		e.ok(s.Resume(e.ctx(), group, ""), "Resume")
		opened(true, "", h.Token, "after a resume")
		h = e.take(s, group, alice)
		e.declareJobs(s, h, report)
		opened(true, "", h.Token, "after a term that does not know of the switch")
	}},

	{"spread/what is open", func(e *ledgerEnv) {
		s, h := e.spread()
		m, n := e.session(s, "m"), e.session(s, "n")
		for i, to := range []store.Assignee{assignee(m), assignee(n), {}, assignee(m)} {
			e.mine(s, h, store.Claim{Key: key(report, i), State: jobs.Waiting, For: to})
		}
		e.mine(s, h, store.Claim{Key: key(cleanup, 1), State: jobs.Skipped, Error: "why"})
		e.moved(s, m, to(jobs.Running, e.record(group, key(report, 0))))
		e.moved(s, m, to(jobs.Skipped, e.mine(s, h, store.Claim{Key: key(report, 4), State: jobs.Waiting, For: assignee(m)})))
		other := e.take(s, otherOne, bob)
		other.Assigns = true
		e.mine(s, other, store.Claim{Key: key(report, 5), State: jobs.Waiting, For: assignee(m)})
		e.ok(s.Pause(e.ctx(), group, ""), "Pause")
		want := e.load(group)
		want.Jobs, want.Pauses = nil, nil
		all := want.Open
		for _, owner := range []string{"", m.Owner, n.Owner, "nobody"} {
			want.Open = nil
			for _, r := range all {
				if owner == "" || r.Owner == owner {
					want.Open = append(want.Open, r)
				}
			}
			got := e.openOf(s, owner)
			e.equal(fmt.Sprintf("%+v", got.Open), fmt.Sprintf("%+v", want.Open), "what is open of "+owner)
			e.between(got.Now, want.Now, "Now")
			e.sameMoment(&got, want)
			e.equal(fmt.Sprint(got.Server, got.Changes, got.Paused, got.Opened, len(got.Jobs)+len(got.Pauses)),
				fmt.Sprint(want.Server, want.Changes, want.Paused, want.Opened, 0), "the rest")
		}
		_, err := s.Open(e.ctx(), "empty", "")
		e.ok(err, "Open of a group that there is not")
	}},

	{"spread/a replica is woken", func(e *ledgerEnv) {
		s, h := e.spread()
		m := e.session(s, "m")
		for _, group := range []string{h.Group, m.Session} {
			signals, ok := s.(store.RequestSignals)
			if !ok {
				e.Skip("left out: the store has no RequestSignals")
			}
			token := m.Token
			if group == h.Group {
				token = h.Token
			}
			signal := signals.RequestSignal(group, token)
			e.Cleanup(func() { _ = signal.Close() })
			for range 2 {
				var known *uint64
				if group == h.Group {
					known = new(e.changes(group))
				}
				done := e.waitForRequest(signal, known)
				e.stillWaitsForRequest(done)
				// One that comes before the wait has begun is lost. One too many may wake the next wait.
				for tries := 0; len(done.ended) == 0 && e.ctx().Err() == nil; tries++ {
					if tries%100 == 0 {
						e.ok(s.Wake(e.ctx(), group), "Wake")
					}
					select {
					case <-time.After(moment / 5):
					case <-e.ctx().Done():
					}
				}
				e.wantRequest(done, "Wake of "+group)
			}
		}
		e.ok(s.Wake(e.ctx(), "empty"), "Wake where nobody waits")
	}},
}

// spread opens a store, and begins a term that assigns.
func (e *ledgerEnv) spread() (store.Spreads, store.Holder) {
	e.Helper()
	s, ok := e.open().(store.Spreads)
	if !ok {
		e.Skip("left out: the store is no store.Spreads")
	}
	h := e.begin(s)
	h.Assigns = true
	return s, h
}

// session begins a session of a replica.
func (e *ledgerEnv) session(s store.Jobs, owner string) store.Holder {
	e.Helper()
	h := e.take(s, store.SessionGroup(owner), owner)
	return store.Holder{Group: group, Session: h.Group, Owner: owner, Token: h.Token, Assigns: true}
}

func (e *ledgerEnv) openOf(s store.Spreads, owner string) jobs.Snapshot {
	e.Helper()
	snapshot, err := s.Open(e.ctx(), group, owner)
	e.ok(err, "Open")
	return snapshot
}

func assignee(h store.Holder) store.Assignee { return store.Assignee{Owner: h.Owner, Token: h.Token} }

func assigneeOf(r jobs.Record) store.Assignee { return store.Assignee{Owner: r.Owner, Token: r.Token} }

func (e *ledgerEnv) differs(a, b uint64, what string) {
	e.Helper()
	if a == b {
		e.Errorf("%s: still %d", what, a)
	}
}
