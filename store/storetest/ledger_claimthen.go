package storetest

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// told is a follower of a claim, with arguments of its own.
func told(k jobs.Key) store.Follower {
	return store.Follower{
		Key:  jobs.Key{Job: "tell", Tick: k.Tick, Trigger: 1<<52 + 2},
		Args: json.RawMessage(`{"of":"` + k.Job + `","text":"it's \"late\" é"}`),
	}
}

var claimThenCases = []ledgerCase{
	{"follow/a claim that inserts its row", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		for n, state := range []jobs.State{jobs.Running, jobs.Waiting, jobs.Skipped} {
			was, before, id := e.changes(group), e.now(), newID()
			c := store.Claim{Key: key(report, n), State: state, Missed: 2, Error: "late", Then: []store.Follower{
				told(key(report, n)), {Key: jobs.Key{Job: cleanup, Tick: tick(n), Trigger: 3}, Delay: time.Hour},
			}}
			got := e.claim(s, h, id, c)[0]
			e.equal(got.Mine, true, "Mine")
			e.equal(got.State, state, "State")
			e.equal(got.HasArgs, false, "HasArgs of the claim")
			for range 2 {
				for _, f := range c.Then {
					r := e.record(group, f.Key)
					e.between(r.Claimed, before, "Claimed")
					e.betweenPlus(r.Due, before, f.Delay, "Due")
					e.same(r, jobs.Record{
						Key: f.Key, State: jobs.Waiting, Owner: alice, Token: h.Token, Claimed: r.Claimed, Due: r.Due, HasArgs: f.Args != nil,
					}, "a run that follows a claim")
					e.hasArgs(f.Key, string(f.Args), "of a run that follows a claim")
				}
				e.unchanged(got.Record, "read back")
				e.equal(e.claim(e.open(), h, id, c)[0], got, "the same call again")
			}
			e.equal(e.changes(group), was, "Changes")
			e.moved(s, h, to(jobs.Running, e.record(group, c.Then[0].Key)))
		}
		e.equal(e.count(group), 9, "runs")
	}},

	{"follow/a claim, once", func(e *ledgerEnv) {
		s := e.open()
		h, id := e.begin(s), newID()
		c := store.Claim{Key: key(report, 1), State: jobs.Running, Then: []store.Follower{told(key(report, 1))}}
		beside := store.Claim{Key: key(cleanup, 1), State: jobs.Running, Then: []store.Follower{told(key(cleanup, 1))}}
		c.Then[0].Job, beside.Then[0].Job = cleanup, "beside"
		e.claim(s, h, id, c)
		follower := e.record(group, c.Then[0].Key)
		follower = e.moved(s, h, to(jobs.Running, follower))
		follower = e.moved(s, h, to(jobs.Succeeded, follower))
		e.equal(e.claim(e.open(), h, id, c)[0].Mine, true, "Mine of the same call again")
		e.unchanged(follower, "after the same call again")
		e.later()
		e.equal(e.prune(s, cleanup, jobs.History{For: noTime}, 0), 1, "deleted")
		e.equal(e.claim(s, h, id, c, beside)[0].Mine, true, "Mine of the same call again, beside a claim that it lacked")
		e.absent(group, c.Then[0].Key, "after its follower was run and pruned")
		e.record(group, beside.Then[0].Key)
		_ = e.take(s, group, bob)
		e.equal(e.claim(s, h, id, c)[0].Mine, true, "Mine of the same call again, after a takeover")
		e.absent(group, c.Then[0].Key, "after its follower was run and pruned, and a takeover")
	}},

	{"follow/not a claim that inserts no row", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		there := e.running(s, h, key(report, 2))
		e.ok(s.Pause(e.ctx(), group, cleanup), "Pause")
		late, taken, paused := key(report, 1), there.Key, key(cleanup, 1)
		fine := store.Claim{Key: key(report, 3), State: jobs.Running, Then: []store.Follower{told(key(report, 3))}}
		claims := []store.Claim{fine}
		for _, k := range []jobs.Key{late, taken, paused} {
			c := store.Claim{Key: k, State: jobs.Running, Then: []store.Follower{told(k)}}
			c.Then[0].Trigger += uint64(len(claims))
			claims = append(claims, c)
		}
		for _, call := range [][]store.Claim{claims[1:], claims, claims} {
			e.claim(s, h, newID(), call...)
			for _, c := range claims[1:] {
				e.absent(group, c.Then[0].Key, "after a claim without a row of its own")
			}
		}
		e.record(group, fine.Then[0].Key)
		e.unchanged(there, "a row that was there")

		_ = e.take(s, group, bob)
		c := store.Claim{Key: key(report, 5), State: jobs.Running, Then: []store.Follower{told(key(report, 5))}}
		_, err := s.Claim(e.ctx(), h, newID(), []store.Claim{c})
		e.is(err, store.ErrReplaced, "Claim of the replaced")
		e.absent(group, c.Then[0].Key, "after a claim of the replaced")
	}},

	{"follow/a claim that extends no row", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		was := e.mine(s, h, store.Claim{Key: key(report, 1), State: jobs.Skipped, Error: busy})
		for n := 2; n < 5; n++ {
			c, id := skips(report, n, n-1, n), newID()
			c.Then = []store.Follower{told(c.Key)}
			for range 2 {
				e.equal(e.claim(s, h, id, c)[0].Missed, n, "Missed of a row of its own")
				e.record(group, c.Then[0].Key)
				e.unchanged(was, "the row of the tick before one with a follower")
			}
			was = e.record(group, c.Key)
		}
		e.equal(e.mine(s, h, skips(report, 5, 4, 0)).Missed, 5, "Missed of a claim without a follower")
	}},

	{"follow/a claim, beside what is there", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		f := told(key(report, 1))
		there := e.mine(s, h, store.Claim{Key: f.Key, State: jobs.Running})
		c := store.Claim{Key: key(report, 1), State: jobs.Running, Then: []store.Follower{f, {Key: jobs.Key{Job: cleanup, Tick: tick(1), Trigger: 3}}}}
		e.mine(s, h, c)
		e.unchanged(there, "a row that was there")
		e.record(group, c.Then[1].Key)
	}},

	{"follow/a claim, under a trigger and with arguments", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(cleanup, 1))
		for n, f := range []store.Follower{
			{Key: key("tell", 5)},
			{Key: jobs.Key{Job: "tell", Tick: tick(5), Trigger: 3}, Args: json.RawMessage(`{"a":`)},
			{Key: jobs.Key{Job: "tell", Tick: tick(5), Trigger: 3}, Args: json.RawMessage(`"` + strings.Repeat("a", jobs.MaxArgs) + `"`)},
		} {
			c := store.Claim{Key: key(report, n), State: jobs.Running, Then: []store.Follower{f}}
			if _, err := s.Claim(e.ctx(), h, newID(), []store.Claim{c}); err == nil {
				e.Errorf("Claim with follower %d, which is none: no error", n)
			}
			e.absent(group, c.Key, "after a claim whose follower is none")
			m := to(jobs.Succeeded, r)
			m.Then = []store.Follower{f}
			if _, err := s.Move(e.ctx(), h, []store.Move{m}); err == nil {
				e.Errorf("Move with follower %d, which is none: no error", n)
			}
			e.unchanged(r, "after a move whose follower is none")
		}
	}},

	{"follow/the run that is moved, with arguments of its own", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.request(s, jobs.Request{Args: json.RawMessage(`{"a":1}`)})
		r = e.moved(s, h, to(jobs.Running, r))
		m := to(jobs.Failed, r)
		m.Then = []store.Follower{told(r.Key), after(r)}
		e.moved(s, h, m)
		e.hasArgs(m.Then[0].Key, string(m.Then[0].Args), "of a run that has some of its own")
		e.hasArgs(m.Then[1].Key, `{"a":1}`, "of a run that follows")
	}},
}
