package storetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

var pauseCases = []ledgerCase{
	{"pause/a job, and the group", func(e *ledgerEnv) {
		s := e.open()
		e.begin(s)
		paused := func(wantReport, wantGroup bool, what string) {
			e.Helper()
			snapshot := e.load(group)
			e.equal(snapshot.Jobs[report].Paused, wantReport, "Paused of the job "+what)
			e.equal(snapshot.Jobs[cleanup].Paused, false, "Paused of the other job "+what)
			e.equal(snapshot.Paused, wantGroup, "Paused of the group "+what)
		}
		paused(false, false, "at the beginning")
		for range 2 {
			e.ok(s.Pause(e.ctx(), group, report), "Pause")
			paused(true, false, "after Pause")
		}
		for range 2 {
			e.ok(s.Pause(e.ctx(), group, ""), "Pause of the group")
			paused(true, true, "after Pause of the group")
		}
		e.declareJobs(s, e.take(s, group, bob), report, cleanup)
		paused(true, true, "in the next term")
		e.ok(s.Resume(e.ctx(), group, ""), "Resume of the group")
		paused(true, false, "after Resume of the group")
		e.ok(s.Pause(e.ctx(), group, ""), "Pause of the group")
		for range 2 {
			e.ok(s.Resume(e.ctx(), group, report), "Resume")
			paused(false, true, "after Resume")
		}
	}},

	{"pause/when", func(e *ledgerEnv) {
		s := e.open()
		e.begin(s)
		for _, job := range []string{report, ""} {
			pauses := func(want int, what string) []jobs.Pause {
				e.Helper()
				all := e.load(group).Pauses
				e.equal(len(all[cleanup]), 0, "pauses of the other job")
				if len(all[job]) != want {
					e.Fatalf("pauses %s: %v, want %d", what, all[job], want)
				}
				return all[job]
			}
			pauses(0, "at the beginning")
			e.ok(s.Resume(e.ctx(), group, job), "Resume of what is not paused")
			pauses(0, "after Resume of what is not paused")
			before := e.now()
			e.ok(s.Pause(e.ctx(), group, job), "Pause")
			first := pauses(1, "after Pause")[0]
			e.between(first.Began, before, "Began")
			e.equal(first.Ended, time.Time{}, "Ended of a pause that goes on")
			e.later()
			e.ok(s.Pause(e.ctx(), group, job), "Pause again")
			e.equal(pauses(1, "after Pause again")[0], first, "the pause after Pause again")
			before = e.now()
			e.ok(s.Resume(e.ctx(), group, job), "Resume")
			over := pauses(1, "after Resume")[0]
			e.equal(over.Began, first.Began, "Began after Resume")
			e.between(over.Ended, before, "Ended")
			e.later()
			e.ok(s.Resume(e.ctx(), group, job), "Resume again")
			e.equal(pauses(1, "after Resume again")[0], over, "the pause after Resume again")
			e.ok(s.Pause(e.ctx(), group, job), "Pause")
			e.ok(s.Resume(e.ctx(), group, job), "Resume")
			second := pauses(2, "after the second")
			e.equal(second[0], over, "the first pause after the second")
			if second[1].Began.Before(over.Ended) || second[1].Ended.Before(second[1].Began) {
				e.Errorf("pauses %v, want the second after the first", second)
			}
			for range store.MaxPauses {
				e.ok(s.Pause(e.ctx(), group, job), "Pause")
				e.ok(s.Resume(e.ctx(), group, job), "Resume")
			}
			many := pauses(store.MaxPauses, "after many")
			e.ok(s.Pause(e.ctx(), group, job), "Pause")
			e.declareJobs(s, e.take(s, group, bob), report, cleanup)
			last := e.load(group).Pauses[job]
			if n := len(last); n < 2 || last[n-1].Ended != (time.Time{}) || last[n-2] != many[len(many)-1] {
				e.Errorf("pauses %v in the next term, want the newest of %v and one that goes on", last, many)
			}
			e.ok(s.Resume(e.ctx(), group, job), "Resume")
		}
		e.take(s, otherOne, alice)
		e.equal(len(e.load(otherOne).Pauses), 0, "pauses of another group")
	}},

	{"pause/beside runs", func(e *ledgerEnv) {
		leader, operator := e.open(), e.open()
		h := e.begin(leader)
		first := e.running(leader, h, key(report, 1))
		e.ok(operator.Pause(e.ctx(), group, report), "Pause")
		was := e.load(group).Pauses[report]
		e.moved(leader, h, to(jobs.Succeeded, first))
		e.skipped(leader, h, key(report, 2))
		if is := e.load(group).Pauses[report]; len(is) != 1 || !slices.Equal(is, was) {
			e.Errorf("pauses %v after a move and a claim, want %v", is, was)
		}
		e.ok(operator.Resume(e.ctx(), group, report), "Resume")
		second := e.running(leader, h, key(report, 3))
		e.moved(leader, h, to(jobs.Succeeded, second))
		if is := e.load(group).Pauses[report]; len(is) != 1 || is[0].Ended.IsZero() {
			e.Errorf("pauses %v after Resume, want one that is over", is)
		}
	}},

	{"pause/resume skipping", func(e *ledgerEnv) {
		s := e.open()
		e.begin(s)
		for _, job := range []string{report, ""} {
			e.ok(s.Pause(e.ctx(), group, job), "Pause")
			e.ok(s.Resume(e.ctx(), group, job), "Resume")
			kept := e.load(group).Pauses[job]
			if len(kept) != 1 {
				e.Fatalf("pauses %v, want 1", kept)
			}
			first := kept[0]
			e.ok(s.ResumeSkipping(e.ctx(), group, job), "ResumeSkipping of what is not paused")
			kept = e.load(group).Pauses[job]
			e.equal(kept[len(kept)-1], first, "the pause after ResumeSkipping of what is not paused")
			e.ok(s.Pause(e.ctx(), group, job), "Pause")
			e.later()
			changes, before := e.changes(group), e.now()
			e.ok(s.ResumeSkipping(e.ctx(), group, job), "ResumeSkipping")
			snapshot := e.load(group)
			if e.changes(group) == changes {
				e.Errorf("Changes says nothing of ResumeSkipping")
			}
			if snapshot.Paused || snapshot.Jobs[report].Paused {
				e.Errorf("paused after ResumeSkipping: %+v", snapshot)
			}
			pauses := snapshot.Pauses[job]
			if len(pauses) != 2 {
				e.Fatalf("pauses %v, want 2", pauses)
			}
			e.equal(pauses[0], first, "the pause before")
			e.equal(pauses[1].Began, time.Time{}, "Began after ResumeSkipping")
			e.between(pauses[1].Ended, before, "Ended")
		}
		e.is(s.ResumeSkipping(e.ctx(), group, "never"), jobs.ErrNoJob, "ResumeSkipping of what there is not")
	}},

	{"pause/resumed under a clock that was set back", func(e *ledgerEnv) {
		if e.h.StepClock == nil {
			e.Skip("left out: Harness.StepClock is nil")
		}
		s := e.open()
		e.begin(s)
		for _, job := range []string{report, ""} {
			e.ok(s.Pause(e.ctx(), group, job), "Pause")
			resumed := e.load(group).Pauses[job][0]
			e.h.StepClock(e.TB, -time.Hour)
			e.ok(s.Resume(e.ctx(), group, job), "Resume")
			resumed.Ended = resumed.Began
			e.equal(e.load(group).Pauses[job][0], resumed, "the pause after Resume, which cannot end before it began")
			e.h.StepClock(e.TB, time.Hour)
			e.ok(s.Pause(e.ctx(), group, job), "Pause")
			skipping := jobs.Pause{Ended: e.load(group).Pauses[job][1].Began}
			e.h.StepClock(e.TB, -time.Hour)
			e.ok(s.ResumeSkipping(e.ctx(), group, job), "ResumeSkipping")
			e.equal(e.load(group).Pauses[job][1], skipping, "the pause after ResumeSkipping, which cannot end before it began")
			e.h.StepClock(e.TB, time.Hour)
		}
	}},

	{"pause/what there is not", func(e *ledgerEnv) {
		s := e.open()
		e.is(s.Pause(e.ctx(), group, report), jobs.ErrNoJob, "Pause in an empty ledger")
		e.begin(s)
		e.declareJobs(s, e.take(s, otherOne, alice), "elsewhere")
		for _, name := range []string{"unknown", "Report", "elsewhere"} {
			e.is(s.Pause(e.ctx(), group, name), jobs.ErrNoJob, "Pause of "+name)
			e.is(s.Resume(e.ctx(), group, name), jobs.ErrNoJob, "Resume of "+name)
		}
		snapshot := e.load(group)
		e.equal(len(snapshot.Jobs), 2, "jobs known")
		e.equal(snapshot.Paused, false, "Paused of the group")
	}},

	{"pause/only this group", func(e *ledgerEnv) {
		s := e.open()
		e.begin(s)
		e.declareJobs(s, e.take(s, otherOne, alice), report)
		e.ok(s.Pause(e.ctx(), group, report), "Pause")
		e.ok(s.Pause(e.ctx(), group, ""), "Pause of the group")
		other := e.load(otherOne)
		e.equal(other.Paused, false, "Paused of the other group")
		e.equal(other.Jobs[report].Paused, false, "Paused of the other group's job")
		e.ok(s.Pause(e.ctx(), otherOne, report), "Pause")
		e.ok(s.Resume(e.ctx(), otherOne, report), "Resume")
		e.ok(s.Resume(e.ctx(), otherOne, ""), "Resume of the group")
		e.equal(e.load(group).Paused, true, "Paused of the group")
		e.equal(e.known(group, report).Paused, true, "Paused of the job")
	}},
}

var triggerCases = []ledgerCase{
	{"trigger/a run that any leader may take up", func(e *ledgerEnv) {
		s := e.open()
		e.begin(s)
		e.ok(s.Pause(e.ctx(), group, report), "Pause") // stops the ticks, not this
		before := e.now()
		k := e.trigger(s, report)
		e.between(k.Tick, before, "Tick")
		r := e.record(group, k)
		e.between(r.Claimed, before, "Claimed")
		if now := e.now(); r.Due.After(now) {
			e.Errorf("due at %v, and it is %v", r.Due, now)
		}
		e.same(r, jobs.Record{Key: k, State: jobs.Waiting, Claimed: r.Claimed, Due: r.Due}, "a manual run")
		open := e.load(group).Open
		if len(open) != 1 || open[0] != r {
			e.Errorf("open runs %v, want the manual one", open)
		}
		e.equal(e.count(group), 1, "runs")
	}},

	{"trigger/each is a run", func(e *ledgerEnv) {
		s := e.open()
		e.begin(s)
		seen := map[jobs.Key]bool{}
		for range 100 {
			k := e.trigger(s, report)
			if seen[k] {
				e.Fatalf("Trigger answered %v twice", k)
			}
			seen[k] = true
		}
		for _, r := range e.load(group).Open {
			e.equal(seen[r.Key], true, "Trigger answered the key of the run")
		}
		e.equal(e.count(group), len(seen), "runs")
	}},

	{"trigger/what there is not", func(e *ledgerEnv) {
		s := e.open()
		_, err := s.Trigger(e.ctx(), group, report, jobs.Request{})
		e.is(err, jobs.ErrNoJob, "Trigger in an empty ledger")
		e.begin(s)
		e.declareJobs(s, e.take(s, otherOne, alice), "elsewhere")
		for _, name := range []string{"unknown", "Report", "elsewhere", ""} {
			_, err := s.Trigger(e.ctx(), group, name, jobs.Request{})
			e.is(err, jobs.ErrNoJob, "Trigger of "+name)
		}
		e.equal(e.count(group), 0, "runs")
	}},

	{"trigger/only this group", func(e *ledgerEnv) {
		s := e.open()
		e.begin(s)
		e.declareJobs(s, e.take(s, otherOne, alice), report)
		e.trigger(s, report)
		e.equal(e.count(otherOne), 0, "runs of the other group")
		e.equal(len(e.load(otherOne).Open), 0, "open runs of the other group")
	}},
}

var cancelCases = []ledgerCase{
	{"cancel/a run that is not over", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		elsewhere := e.running(s, e.take(s, otherOne, alice), key(report, 0))
		for n, r := range []jobs.Record{e.running(s, h, key(report, 0)), e.waiting(s, h, key(report, 1)), e.record(group, e.trigger(s, report))} {
			beside, namesake := e.running(s, h, key(report, 10+n)), e.running(s, h, key(cleanup, n))
			for range 2 {
				e.ok(s.Cancel(e.ctx(), group, r.Key), "Cancel")
				r.CancelAsked = true
				e.unchanged(r, "after Cancel")
			}
			e.unchanged(beside, "after Cancel of another")
			e.unchanged(namesake, "after Cancel of another job's run of that tick")
		}
		e.same(e.record(otherOne, elsewhere.Key), elsewhere, "of the same key in another group")
	}},

	{"cancel/a run that is over", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		for n, state := range outcomes {
			r := e.running(s, h, key(report, n))
			r = e.moved(s, h, to(state, r))
			e.is(s.Cancel(e.ctx(), group, r.Key), jobs.ErrNoRun, "Cancel of a run that has "+state.String())
			e.unchanged(r, "after Cancel")
		}
		r := e.skipped(s, h, key(report, 100))
		e.is(s.Cancel(e.ctx(), group, r.Key), jobs.ErrNoRun, "Cancel of a tick that was skipped")
		e.unchanged(r, "after Cancel")
	}},

	{"cancel/a run that there is not", func(e *ledgerEnv) {
		s := e.open()
		e.is(s.Cancel(e.ctx(), group, key(report, 1)), jobs.ErrNoRun, "Cancel in an empty ledger")
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		for _, k := range []jobs.Key{
			key(report, 2), key(cleanup, 1), key("unknown", 1), {Job: report, Tick: tick(1), Trigger: 1}, {Job: report, Tick: tick(1).Add(time.Microsecond)},
		} {
			e.is(s.Cancel(e.ctx(), group, k), jobs.ErrNoRun, "Cancel")
		}
		e.declareJobs(s, e.take(s, otherOne, alice), report)
		e.is(s.Cancel(e.ctx(), otherOne, r.Key), jobs.ErrNoRun, "Cancel in another group")
		e.unchanged(r, "after Cancel of others")
		e.equal(e.count(group), 1, "runs")
	}},

	{"cancel/refuses a start", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		first, waits := e.running(s, h, key(report, 1)), e.waiting(s, h, key(report, 2))
		e.ok(s.Cancel(e.ctx(), group, first.Key), "Cancel")
		again := e.moved(s, h, to(jobs.Waiting, first))
		e.equal(again.CancelAsked, true, "CancelAsked of a run that waits for its next attempt")
		start := to(jobs.Running, again)
		start.Then = []store.Follower{{Key: jobs.Key{Job: cleanup, Tick: tick(1), Trigger: 1 << 53}}}
		e.refused(s, h, start, "the next attempt")
		e.absent(group, start.Then[0].Key, "what follows a start that is refused")
		e.ok(s.Cancel(e.ctx(), group, waits.Key), "Cancel")
		e.refused(s, h, to(jobs.Running, e.record(group, waits.Key)), "the first attempt")
		beside := e.waiting(s, h, key(report, 3))
		e.equal(fmt.Sprint(e.move(s, h, to(jobs.Running, e.record(group, waits.Key)), to(jobs.Running, beside))), "[false true]", "beside the start of another run")
		h = e.take(s, group, bob)
		e.refused(s, h, to(jobs.Running, e.record(group, waits.Key)), "the first attempt, by the next leader")
		for _, r := range []jobs.Record{again, waits} {
			r = e.moved(s, h, to(jobs.Cancelled, e.record(group, r.Key)))
			e.equal(r.CancelAsked, true, "CancelAsked of a run that was cancelled")
		}
	}},

	{"cancel/refuses the attempt after an interruption", func(e *ledgerEnv) {
		s := e.openArchive()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		e.ok(s.Cancel(e.ctx(), group, r.Key), "Cancel")
		before := h
		h = e.take(s, group, bob)
		e.refused(s, h, to(jobs.Running, e.record(group, r.Key)), "the next attempt")
		e.attempts(s, r.Key, attempt(1, jobs.Running, before, "", nil))
		e.moved(s, h, to(jobs.Cancelled, e.record(group, r.Key)))
	}},

	{"cancel/and the same start again", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		waits := e.waiting(s, h, key(report, 1))
		r := e.moved(s, h, to(jobs.Running, waits))
		e.ok(s.Cancel(e.ctx(), group, r.Key), "Cancel")
		e.equal(e.move(s, h, to(jobs.Running, waits))[0], true, "the same start again")
		r.CancelAsked = true
		e.unchanged(r, "after the same start again")
	}},
}

var changesCases = []ledgerCase{
	{"changes/with each kind of request", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		// Many similar requests: a checksum might return to an earlier value.
		for _, step := range []struct {
			what string
			do   func() error
		}{
			{"Pause", func() error { return s.Pause(e.ctx(), group, report) }},
			{"Pause of another", func() error { return s.Pause(e.ctx(), group, cleanup) }},
			{"Pause of the group", func() error { return s.Pause(e.ctx(), group, "") }},
			{"Resume", func() error { return s.Resume(e.ctx(), group, report) }},
			{"Resume of the group", func() error { return s.Resume(e.ctx(), group, "") }},
			{"Trigger", func() error { e.trigger(s, report); return nil }},
			{"Trigger again", func() error { e.trigger(s, report); return nil }},
			{"Trigger of another", func() error { e.trigger(s, cleanup); return nil }},
			{"Cancel", func() error { return s.Cancel(e.ctx(), group, r.Key) }},
			{"Cancel of a manual run", func() error { return s.Cancel(e.ctx(), group, e.trigger(s, report)) }},
		} {
			was := e.changes(group)
			e.equal(e.changes(group), was, "Changes with nothing changed")
			e.ok(step.do(), step.what)
			if e.changes(group) == was {
				e.Errorf("Changes is %d before and after %s", was, step.what)
			}
			e.equal(e.load(group).Changes, e.changes(group), "Changes of the snapshot")
		}
	}},

	{"changes/not with the work of a leader", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		e.ok(s.Pause(e.ctx(), group, cleanup), "Pause")
		was := e.changes(group)
		r := e.running(s, h, key(report, 1))
		e.waiting(s, h, key(report, 2))
		e.skipped(s, h, key(report, 3))
		e.equal(e.changes(group), was, "Changes after claims")
		r = e.moved(s, h, to(jobs.Waiting, r))
		r = e.moved(s, h, to(jobs.Running, r))
		e.moved(s, h, to(jobs.Succeeded, r))
		e.equal(e.changes(group), was, "Changes after moves")
		e.declareJobs(s, e.take(s, group, bob), report)
		e.equal(e.changes(group), was, "Changes in the next term")
	}},

	{"changes/not with manual runs that a leader claims", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		was := e.changes(group)
		for n, state := range []jobs.State{jobs.Running, jobs.Waiting, jobs.Skipped} {
			e.mine(s, h, store.Claim{Key: jobs.Key{Job: report, Tick: tick(n), Trigger: uint64(n + 1)}, State: state})
			e.equal(e.changes(group), was, "Changes after a claim with a trigger, "+state.String())
		}
		r := e.record(group, e.trigger(s, report))
		r = e.moved(s, h, to(jobs.Running, r))
		was = e.changes(group)
		for _, state := range []jobs.State{jobs.Waiting, jobs.Running, jobs.Failed} {
			r = e.moved(s, h, to(state, r))
			e.equal(e.changes(group), was, "Changes after a move of a manual run to "+state.String())
		}
	}},

	{"changes/with requests of two jobs that have one tick and number", func(e *ledgerEnv) {
		s := e.open()
		e.begin(s)
		was := e.changes(group)
		for _, job := range []string{report, cleanup} {
			_, err := s.Trigger(e.ctx(), group, job, jobs.Request{Tick: tick(3), Trigger: 7})
			e.ok(err, "Trigger")
		}
		e.equal(e.changes(group) != was, true, "Changes is another number after both")
	}},

	{"changes/once with a run whose end is asked for twice", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		for n, r := range []jobs.Record{e.running(s, h, key(report, 1)), e.record(group, e.trigger(s, report))} {
			e.ok(s.Cancel(e.ctx(), group, r.Key), "Cancel")
			was := e.changes(group)
			e.ok(s.Cancel(e.ctx(), group, r.Key), "Cancel again")
			e.equal(e.changes(group), was, fmt.Sprint("Changes after the second Cancel of run ", n))
		}
	}},

	{"changes/once with a pause that is asked for twice", func(e *ledgerEnv) {
		s := e.open()
		e.begin(s)
		for _, job := range []string{report, ""} {
			for _, step := range []struct {
				what string
				do   func(context.Context, string, string) error
			}{{"Resume", s.Resume}, {"Pause", s.Pause}, {"Resume", s.Resume}} {
				e.ok(step.do(e.ctx(), group, job), step.what)
				was := e.changes(group)
				e.ok(step.do(e.ctx(), group, job), step.what+" again")
				e.equal(e.changes(group), was, fmt.Sprintf("Changes after the second %s of %q", step.what, job))
			}
		}
	}},

	{"changes/with what is a group's first", func(e *ledgerEnv) {
		s := e.open()
		was := e.changes(group)
		e.ok(s.Pause(e.ctx(), group, ""), "Pause of a group that was never led")
		paused := e.changes(group)
		e.equal(paused != was, true, "Changes is another number after the group's first change")
		e.equal(e.load(group).Changes, paused, "Changes of the snapshot")
		e.ok(s.Resume(e.ctx(), group, ""), "Resume of the group")
		e.equal(e.changes(group) != paused, true, "Changes is another number after its second change")
		e.equal(e.changes(otherOne), was, "Changes of the other group")
	}},

	{"changes/only of this group", func(e *ledgerEnv) {
		s := e.open()
		e.begin(s)
		e.declareJobs(s, e.take(s, otherOne, alice), report)
		was := e.changes(otherOne)
		e.ok(s.Pause(e.ctx(), group, report), "Pause")
		e.ok(s.Pause(e.ctx(), group, ""), "Pause of the group")
		e.ok(s.Cancel(e.ctx(), group, e.trigger(s, report)), "Cancel")
		e.equal(e.changes(otherOne), was, "Changes of the other group")
	}},
}

var runsCases = []ledgerCase{
	{"runs/the newest first", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		var claims []store.Claim
		for _, n := range []int{4, 1, 5, 2, 3} {
			claims = append(claims, store.Claim{Key: key(report, 2*n), State: jobs.Running}, store.Claim{Key: key(cleanup, 2*n+1), State: jobs.Waiting})
		}
		e.claim(s, h, newID(), claims...)
		k := e.trigger(s, report)
		rs := e.runs(group, jobs.Filter{})
		e.equal(len(rs), 11, "runs")
		e.equal(rs[0].Key, k, "the newest run")
		if !slices.IsSortedFunc(rs, func(a, b jobs.Record) int { return b.Tick.Compare(a.Tick) }) {
			e.Errorf("not the newest first: %v", rs)
		}
	}},

	{"runs/filters", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		e.claim(s, h, newID(), many(60, jobs.Running, jobs.Waiting, jobs.Skipped)...)
		every := e.runs(group, jobs.Filter{Limit: all})
		e.equal(len(every), 60, "runs")
		for _, since := range []time.Time{{}, tick(30), tick(30).Add(time.Microsecond), tick(30).Add(1)} {
			for _, job := range []string{"", report, cleanup, "unknown"} {
				for _, state := range []jobs.State{0, jobs.Running, jobs.Skipped, jobs.TimedOut} {
					for _, limit := range []int{0, 1, 5, 1000} {
						f := jobs.Filter{Job: job, State: state, Since: since, Limit: limit}
						var want []jobs.Record
						for _, r := range every {
							if (job == "" || r.Job == job) && (state == 0 || r.State == state) && !r.Tick.Before(since) && (limit == 0 || len(want) < limit) {
								want = append(want, r)
							}
						}
						if got := e.runs(group, f); !slices.Equal(got, want) {
							e.Fatalf("Runs of %+v: %d, want %d", f, len(got), len(want))
						}
					}
				}
			}
		}
	}},

	{"runs/until an instant, and behind a run", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		var claims []store.Claim
		for n := range 12 {
			for _, job := range []string{report, cleanup, "between"} {
				for trigger := range uint64(3) {
					k := key(job, n/4)
					k.Trigger = trigger
					if trigger == 0 {
						k.Tick = tick(n)
					} else {
						k.Trigger = 100*trigger + uint64(n)
					}
					claims = append(claims, store.Claim{Key: k, State: []jobs.State{jobs.Running, jobs.Skipped}[n%2]})
				}
			}
		}
		for _, h := range []store.Holder{h, e.take(s, otherOne, bob)} {
			e.claim(s, h, newID(), claims...)
			var moves []store.Move // to each state
			for n, r := range e.runs(h.Group, jobs.Filter{State: jobs.Running, Limit: all}) {
				moves = append(moves, to(append(outcomes, jobs.Waiting, jobs.Running)[n%(len(outcomes)+2)], r))
			}
			e.move(s, h, moves...)
		}
		every := e.runs(group, jobs.Filter{Limit: all})
		e.equal(len(every), len(claims), "runs")
		falls := func(a, b jobs.Record) int {
			return cmp.Or(b.Tick.Compare(a.Tick), cmp.Compare(b.Job, a.Job), cmp.Compare(b.Trigger, a.Trigger))
		}
		if !slices.IsSortedFunc(every, falls) {
			e.Errorf("not in the falling order of tick, job and trigger")
		}
		for _, f := range []jobs.Filter{{}, {Job: report}, {State: jobs.Skipped}, {Job: cleanup, State: jobs.Running}, {Since: tick(2)}} {
			var want []jobs.Record
			for _, r := range every {
				if (f.Job == "" || r.Job == f.Job) && (f.State == 0 || r.State == f.State) && !r.Tick.Before(f.Since) {
					want = append(want, r)
				}
			}
			for _, until := range []time.Time{tick(0), tick(2), tick(2).Add(1), tick(11), tick(12)} {
				f := f
				f.Until, f.Limit = until, all
				less := slices.DeleteFunc(slices.Clone(want), func(r jobs.Record) bool { return !r.Tick.Before(until) })
				if got := e.runs(group, f); !slices.Equal(got, less) {
					e.Fatalf("Runs of %+v: %d, want %d", f, len(got), len(less))
				}
			}
			f.Limit = 7
			var paged []jobs.Record
			for page := e.runs(group, f); len(page) > 0; page = e.runs(group, f) {
				paged = append(paged, page...)
				f.Behind = page[len(page)-1].Key
			}
			if !slices.Equal(paged, want) {
				e.Errorf("Runs in pages of %+v: %d, want %d", f, len(paged), len(want))
			}
			f.Behind = jobs.Key{Job: "absent", Tick: tick(2).Add(-time.Second), Trigger: 5}
			f.Limit = all
			want = slices.DeleteFunc(want, func(r jobs.Record) bool { return !r.Tick.Before(tick(2)) })
			if got := e.runs(group, f); !slices.Equal(got, want) {
				e.Errorf("Runs behind a run that is not there, of %+v: %d, want %d", f, len(got), len(want))
			}
		}
	}},

	{"runs/a hundred when no limit is given", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		e.claim(s, h, newID(), many(150, jobs.Running, jobs.Skipped)...)
		for _, f := range []jobs.Filter{{}, {Since: tick(1)}} {
			rs := e.runs(group, f)
			e.equal(len(rs), 100, "runs")
			for i, r := range rs {
				e.equal(r.Tick, tick(149-i), fmt.Sprintf("tick of run %d", i))
			}
		}
		e.equal(len(e.runs(group, jobs.Filter{Limit: 120})), 120, "runs with a limit")
	}},
}
