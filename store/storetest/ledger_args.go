package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// request asks for a run of the report.
func (e *ledgerEnv) request(s store.Jobs, r jobs.Request) jobs.Record {
	e.Helper()
	k, err := s.Trigger(e.ctx(), group, report, r)
	e.ok(err, "Trigger")
	return e.record(group, k)
}

func (e *ledgerEnv) hasArgs(k jobs.Key, want, what string) {
	e.Helper()
	args, err := e.watch.Args(e.ctx(), group, k)
	e.ok(err, "Args "+what)
	if string(args) != want {
		e.Errorf("Args %s: %.60q (%d bytes), want %.60q (%d bytes)", what, args, len(args), want, len(want))
	}
	e.equal(args == nil, want == "", "there are no arguments "+what)
	e.equal(e.record(group, k).HasArgs, want != "", "HasArgs "+what)
}

var argsCases = []ledgerCase{
	{"args/stay with their run", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		const args = `{"from":"2027-01-01","days":3}`
		r := e.request(s, jobs.Request{Args: json.RawMessage(args)})
		plain, scheduled := e.record(group, e.trigger(s, report)), e.running(s, h, key(report, 1))
		e.hasArgs(r.Key, args, "at first")
		for _, open := range e.load(group).Open {
			e.equal(open.HasArgs, open.Key == r.Key, "HasArgs of the snapshot")
		}
		r = e.moved(s, h, to(jobs.Running, r))
		h = e.take(s, group, bob)
		for _, state := range []jobs.State{jobs.Waiting, jobs.Running, jobs.Succeeded} {
			r = e.moved(s, h, to(state, r))
			e.hasArgs(r.Key, args, "of a run that was moved to "+state.String())
		}
		e.hasArgs(plain.Key, "", "of a manual run without any")
		e.hasArgs(scheduled.Key, "", "of a tick")
	}},

	{"args/as they are", func(e *ledgerEnv) {
		s := e.open()
		e.begin(s)
		for i, args := range []string{
			`null`, `{}`, `""`, ` [1, 2.50] `, `"'\"\\ \u0000 %_?` + "\u00e9 \U0001f600" + `"`, "{\n\t\"a\": 1\n}",
			`"` + strings.Repeat("x", jobs.MaxArgs-2) + `"`, `"` + strings.Repeat("\U0001f600", jobs.MaxArgs/4-1) + `"`,
		} {
			e.hasArgs(e.request(s, jobs.Request{Args: json.RawMessage(args)}).Key, args, fmt.Sprint("of run ", i))
		}
	}},

	{"args/that are none", func(e *ledgerEnv) {
		s := e.open()
		e.begin(s)
		was := e.changes(group)
		for _, args := range []string{"", "{", "secret", "{} {}", `"` + strings.Repeat("x", jobs.MaxArgs-1) + `"`, "\"\xff\""} {
			if _, err := s.Trigger(e.ctx(), group, report, jobs.Request{Args: json.RawMessage(args)}); err == nil {
				e.Errorf("Trigger with the arguments %.40q (%d bytes): no error", args, len(args))
			} else if strings.Contains(err.Error(), "secret") {
				e.Errorf("Trigger: %v: shows the arguments", err)
			}
		}
		e.equal(e.count(group), 0, "runs")
		e.equal(e.changes(group), was, "Changes")
	}},

	{"args/of what there is not", func(e *ledgerEnv) {
		s := e.open()
		e.begin(s)
		r := e.request(s, jobs.Request{Args: json.RawMessage(`1`)})
		other := func(change func(*jobs.Key)) jobs.Key { k := r.Key; change(&k); return k }
		for _, k := range []jobs.Key{
			other(func(k *jobs.Key) { k.Job = cleanup }), other(func(k *jobs.Key) { k.Trigger++ }), other(func(k *jobs.Key) { k.Trigger = 0 }),
			other(func(k *jobs.Key) { k.Tick = k.Tick.Add(time.Microsecond) }), key("unknown", 1), {},
		} {
			_, err := s.Args(e.ctx(), group, k)
			e.is(err, jobs.ErrNoRun, fmt.Sprintf("Args of %v", k))
		}
		_, err := s.Args(e.ctx(), otherOne, r.Key)
		e.is(err, jobs.ErrNoRun, "Args in another group")
	}},

	{"trigger/of a tick, once", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		beside := e.running(s, h, key(report, 1))
		ask := jobs.Request{Tick: tick(1), Trigger: 1<<52 + 7, Backfill: `{"until":"2027"}`, Args: json.RawMessage(`[1]`)}
		before, was := e.now(), e.changes(group)
		r := e.request(s, ask)
		e.between(r.Claimed, before, "Claimed")
		e.same(r, jobs.Record{
			Key: jobs.Key{Job: report, Tick: tick(1), Trigger: ask.Trigger}, State: jobs.Waiting, Claimed: r.Claimed, Due: r.Due, HasArgs: true, Backfill: ask.Backfill,
		}, "a run of a past tick")
		e.equal(e.changes(group) != was, true, "Changes is another number")
		e.declareJobs(s, e.take(s, otherOne, bob), report)
		_, err := s.Trigger(e.ctx(), otherOne, report, jobs.Request{Tick: ask.Tick, Trigger: ask.Trigger})
		e.ok(err, "Trigger of the same key in another group")
		e.equal(e.record(otherOne, r.Key).HasArgs, false, "arguments in another group")
		for range 2 {
			e.later()
			was = e.changes(group)
			e.same(e.request(s, ask), r, "the same request again")
			e.equal(e.changes(group), was, "Changes after the same request again")
			ask.Args, ask.Backfill = json.RawMessage(`[2]`), ""
		}
		e.hasArgs(r.Key, `[1]`, "after other requests of the key")
		r = e.moved(s, h, to(jobs.Running, r))
		r = e.moved(s, h, to(jobs.Succeeded, r))
		e.same(e.request(s, ask), r, "the same request again, when the run is over")
		ask.Trigger++
		e.request(s, ask)
		ask.Tick = tick(-100_000_000) // before 1970
		e.equal(e.request(s, ask).Tick, ask.Tick, "a tick of long ago")
		first, second := e.request(s, jobs.Request{Tick: tick(2)}), e.request(s, jobs.Request{Tick: tick(2)})
		e.equal([2]time.Time{first.Tick, second.Tick}, [2]time.Time{tick(2), tick(2)}, "ticks without a number")
		e.equal(first.Key == second.Key, false, "two requests of a tick, without a number, are one run")
		e.equal(e.request(s, jobs.Request{Tick: tick(1)}).Trigger < 1<<52, true, "the number is below those that the scheduler gives")
		e.unchanged(beside, "the run of the schedule's tick")
		e.equal(e.known(group, report).Cursor, tick(1), "Cursor")
		_, err = s.Trigger(e.ctx(), group, "unknown", ask)
		e.is(err, jobs.ErrNoJob, "Trigger of a tick of an unknown job")
	}},
}

// after is a follower of a run.
func after(r jobs.Record) store.Follower {
	return store.Follower{Key: jobs.Key{Job: "export", Tick: r.Tick, Trigger: 1<<52 + 1}}
}

var followCases = []ledgerCase{
	{"follow/the run that is moved", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.request(s, jobs.Request{Args: json.RawMessage(`{"a":1}`)})
		r = e.moved(s, h, to(jobs.Running, r))
		h = e.take(s, group, bob)
		plain := e.running(s, h, key(cleanup, 3))
		was, before := e.changes(group), e.now()
		m, beside := to(jobs.Succeeded, r), to(jobs.Failed, plain)
		next := jobs.Key{Job: report, Tick: tick(9), Trigger: 7}
		m.Then = []store.Follower{after(r), {Key: next, Delay: time.Hour, Backfill: "what is left"}}
		beside.Then = []store.Follower{after(plain)}
		for range 2 {
			e.equal(fmt.Sprint(e.move(s, h, m, beside)), "[true true]", "Move")
			for _, f := range append(m.Then, beside.Then...) {
				got, of := e.record(group, f.Key), e.record(group, r.Key)
				e.between(got.Claimed, before, "Claimed")
				e.betweenPlus(got.Due, before, f.Delay, "Due")
				e.same(got, jobs.Record{
					Key: f.Key, State: jobs.Waiting, Owner: bob, Token: h.Token, Claimed: got.Claimed, Due: got.Due,
					HasArgs: f.Key != after(plain).Key, Backfill: f.Backfill,
				}, "a run that follows")
				e.equal(of.State, jobs.Succeeded, "State of the run before it")
			}
		}
		e.hasArgs(after(r).Key, `{"a":1}`, "of a run that follows")
		e.hasArgs(after(plain).Key, "", "of one that follows a run without any")
		e.equal(len(e.load(group).Open), 3, "open runs")
		e.equal(e.changes(group), was, "Changes")
		e.moved(s, h, to(jobs.Running, e.record(group, next)))
	}},

	{"follow/the run that is moved, and none beside it", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		e.declareJobs(s, e.take(s, "a-group-before", alice), report)
		ask := func(group, job string, n int, trigger uint64, args string) jobs.Record {
			k, err := s.Trigger(e.ctx(), group, job, jobs.Request{Tick: tick(n), Trigger: trigger, Args: json.RawMessage(args)})
			e.ok(err, "Trigger")
			return e.record(group, k)
		}
		ask("a-group-before", report, 2, 2, `"group"`)
		job, earlier, lower := ask(group, cleanup, 2, 2, `"job"`), ask(group, report, 1, 2, `"tick"`), ask(group, report, 2, 1, `"trigger"`)
		m := to(jobs.Skipped, ask(group, report, 2, 2, `"its own"`))
		m.Then = []store.Follower{after(jobs.Record{Key: m.Key})}
		moves := []store.Move{m}
		for i, r := range []jobs.Record{job, earlier, lower} {
			wrong := to(jobs.Skipped, r)
			wrong.Attempt++
			wrong.Then = []store.Follower{{Key: jobs.Key{Job: "export", Tick: tick(7), Trigger: uint64(i + 1)}}}
			moves = append(moves, wrong)
		}
		e.equal(fmt.Sprint(e.move(s, h, moves...)), "[true false false false]", "Move of a run, and of others that are not as expected")
		e.hasArgs(m.Then[0].Key, `"its own"`, "of a run that follows")
		for _, m := range moves[1:] {
			e.absent(group, m.Then[0].Key, "after a move that did nothing")
		}
		e.absent("a-group-before", m.Then[0].Key, "in another group")
	}},

	{"follow/not what is not moved", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r, beside := e.running(s, h, key(report, 1)), e.running(s, h, key(report, 2))
		m := to(jobs.Succeeded, r)
		m.Then = []store.Follower{after(r)}
		other := m
		other.Attempt++
		e.equal(fmt.Sprint(e.move(s, h, other, to(jobs.Succeeded, beside))), "[false true]", "Move of a run that is not as expected, and another")
		e.absent(group, after(r).Key, "after a move that did nothing")
		_ = e.take(s, group, bob)
		_, err := s.Move(e.ctx(), h, []store.Move{m})
		e.is(err, store.ErrReplaced, "Move of the replaced")
		e.absent(group, after(r).Key, "after a move of the replaced")
		other = m
		other.Key = key("unknown", 1)
		if moved, err := s.Move(e.ctx(), h, []store.Move{other}); err == nil && moved[0] {
			e.Errorf("Move of what there is not: true")
		}
		e.absent(group, after(r).Key, "after a move of what there is not")
	}},

	{"follow/once", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		m := to(jobs.Succeeded, r)
		m.Then = []store.Follower{after(r)}
		m.Then[0].Job = cleanup
		e.moved(s, h, m)
		follower := e.record(group, m.Then[0].Key)
		follower = e.moved(s, h, to(jobs.Running, follower))
		follower = e.moved(s, h, to(jobs.Succeeded, follower))
		e.equal(e.move(e.open(), h, m)[0], true, "the same move again")
		e.unchanged(follower, "after the same move again")
		e.later()
		e.equal(e.prune(s, cleanup, jobs.History{For: noTime}, 0), 1, "deleted")
		e.equal(e.move(s, h, m)[0], true, "the same move again")
		_ = e.take(s, group, bob)
		e.equal(e.move(s, h, m)[0], true, "the same move again, after a takeover")
		e.absent(group, m.Then[0].Key, "after its follower was run and pruned")
	}},

	{"follow/beside what is there", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		there := e.mine(s, h, store.Claim{Key: after(r).Key, State: jobs.Running})
		m := to(jobs.Succeeded, r)
		m.Then = []store.Follower{after(r), {Key: jobs.Key{Job: cleanup, Tick: tick(1), Trigger: 3}}}
		e.moved(s, h, m)
		e.unchanged(there, "a row that was there")
		e.record(group, m.Then[1].Key)
	}},

	{"follow/not a run whose end was asked for, in a backfill", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		e.ok(s.Cancel(e.ctx(), group, r.Key), "Cancel")
		m := to(jobs.Succeeded, r)
		m.Then = []store.Follower{after(r), {Key: jobs.Key{Job: report, Tick: tick(2), Trigger: 3}, Backfill: "what is left"}}
		e.moved(s, h, m)
		e.record(group, after(r).Key)
		e.absent(group, m.Then[1].Key, "the next of a backfill that was cancelled")
	}},

	{"follow/under a trigger", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		m := to(jobs.Succeeded, r)
		m.Then = []store.Follower{{Key: key(cleanup, 5)}}
		if _, err := s.Move(e.ctx(), h, []store.Move{m}); err == nil {
			e.Errorf("Move with a follower that is a tick of the schedule: no error")
		}
		e.unchanged(r, "after a move that is none")
		e.equal(e.known(group, cleanup).Cursor, time.Time{}, "Cursor")
	}},
}
