package storetest

import (
	"slices"

	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

// replaced are holders that are not the group's, and why.
func replaced(h store.Holder) map[string]store.Holder {
	other := func(owner string, token uint64) store.Holder {
		return store.Holder{Group: h.Group, Owner: owner, Token: token}
	}
	return map[string]store.Holder{
		"another owner":              other(bob, h.Token),
		"an owner of another case":   other(aliceUpper, h.Token),
		"an owner of a longer name":  other(aliceLonger, h.Token),
		"an owner of a shorter name": other(alice[:len(alice)-1], h.Token),
		"no owner":                   other("", h.Token),
		"an older token":             other(alice, h.Token-1),
		"a newer token":              other(alice, h.Token+1),
		"no token":                   other(alice, 0),
	}
}

// nothing says that the holder can write nothing, with a run of it that it
// would move.
func (e *ledgerEnv) nothing(s store.Jobs, h store.Holder, run jobs.Record, what string) {
	e.Helper()
	was, runs := e.load(h.Group), e.runs(h.Group, jobs.Filter{Limit: all})
	e.is(s.Declare(e.ctx(), h, []store.Declared{{Name: "new", Schedule: "every 1m"}, {Name: report, Schedule: "every 9m"}}), store.ErrReplaced, what+": Open")
	for _, state := range []jobs.State{jobs.Running, jobs.Waiting, jobs.Skipped} {
		_, err := s.Claim(e.ctx(), h, newID(), []store.Claim{{Key: key(report, 50), State: state}})
		e.is(err, store.ErrReplaced, what+": Claim")
		_, err = s.Claim(e.ctx(), h, newID(), []store.Claim{{Key: run.Key, State: state}, {Key: key(report, 51), State: state}})
		e.is(err, store.ErrReplaced, what+": Claim of a run that is there and one that is not")
		_, err = s.Claim(e.ctx(), h, newID(), []store.Claim{{Key: key(report, 51), State: state}, {Key: run.Key, State: state}})
		e.is(err, store.ErrReplaced, what+": Claim of a run that is not there and one that is")
	}
	for _, state := range []jobs.State{jobs.Running, jobs.Waiting, jobs.Succeeded} {
		if state == jobs.Waiting && run.State == jobs.Waiting {
			continue // nothing to change
		}
		_, err := s.Move(e.ctx(), h, []store.Move{to(state, run)})
		e.is(err, store.ErrReplaced, what+": Move to "+state.String())
	}
	same := func(now jobs.Snapshot) bool {
		return len(now.Jobs) == len(was.Jobs) && now.Jobs[report] == was.Jobs[report]
	}
	if now := e.load(h.Group); !same(now) {
		// See [env.record]: the newest tick is found in descending order too.
		if again := e.load(h.Group); same(again) {
			e.Logf("%s: one reading of the ledger was %v, those before and after it %v", what, now.Jobs, was.Jobs)
		} else {
			e.Errorf("%s: the ledger knows %v, and then %v, want %v", what, now.Jobs, again.Jobs, was.Jobs)
		}
	}
	if got := e.runs(h.Group, jobs.Filter{Limit: all}); !slices.Equal(got, runs) {
		e.Errorf("%s: the runs are %v, want %v", what, got, runs)
	}
}

var fenceCases = []ledgerCase{
	{"fence/owner and token are compared", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		for what, not := range replaced(h) {
			e.nothing(s, not, r, what)
		}
		e.moved(s, h, to(jobs.Succeeded, r))
	}},

	{"fence/a group without a term", func(e *ledgerEnv) {
		s := e.open()
		h := store.Holder{Group: group, Owner: alice, Token: 1}
		r := jobs.Record{Key: key(report, 1), State: jobs.Waiting}
		e.nothing(s, h, r, "a group that there is not")
		e.ok(s.Prepare(e.ctx(), group, ttl), "Prepare")
		e.nothing(s, h, r, "a group that has had no leader")
	}},

	{"fence/another server", func(e *ledgerEnv) {
		if e.h.AnyServer {
			e.Skip("left out: Harness.AnyServer is set")
		}
		s := e.open()
		h := e.begin(s)
		r := e.running(s, h, key(report, 1))
		h.Server = "elsewhere"
		_, err := s.Claim(e.ctx(), h, newID(), []store.Claim{{Key: key(report, 2), State: jobs.Running}})
		e.is(err, store.ErrOtherServer, "Claim")
		_, err = s.Move(e.ctx(), h, []store.Move{to(jobs.Succeeded, r)})
		e.is(err, store.ErrOtherServer, "Move")
		e.absent(group, key(report, 2), "after a claim for another server")
		e.unchanged(r, "after a move for another server")
		h.Server = e.load(group).Server
		e.claim(s, h, newID(), store.Claim{Key: key(report, 2), State: jobs.Running})
		e.moved(s, h, to(jobs.Succeeded, r))
	}},

	{"fence/another group's term", func(e *ledgerEnv) {
		s := e.open()
		r := e.running(s, e.begin(s), key(report, 1))
		other := e.take(s, otherOne, alice)
		e.declareJobs(s, other, report)
		other.Group = group
		e.nothing(s, other, r, "the owner's term in another group")
	}},

	{"fence/the replaced can do nothing", func(e *ledgerEnv) {
		s := e.open()
		h := e.begin(s)
		running, waiting := e.running(s, h, key(report, 1)), e.waiting(s, h, key(report, 2))
		manual := e.record(group, e.trigger(s, report))
		next := e.take(s, group, bob)
		for _, r := range []jobs.Record{running, waiting, manual} {
			e.nothing(s, h, r, "replaced")
		}
		e.nothing(s, h, e.moved(s, next, to(jobs.Running, running)), "replaced, and its run runs again")
		e.nothing(s, h, running, "replaced, and it does not know that its run runs again")
		e.ok(s.Release(e.ctx(), group, bob, next.Token), "Release")
		e.nothing(s, h, waiting, "replaced by a term that is over")
		e.take(s, group, alice)
		e.nothing(s, h, waiting, "replaced by a later term of its own")
	}},

	{"fence/the replaced repeats what it did", func(e *ledgerEnv) {
		s := e.open()
		h, id := e.begin(s), newID()
		c := store.Claim{Key: key(report, 1), State: jobs.Running}
		r := e.claim(s, h, id, c)[0].Record
		left := e.running(s, h, key(report, 2))
		finish := to(jobs.Succeeded, r)
		over := e.moved(s, h, finish)
		e.take(s, group, bob)
		e.equal(e.claim(s, h, id, c)[0], store.Claimed{Mine: true, Record: over}, "the same claim again")
		e.equal(e.claim(s, h, newID(), c)[0], store.Claimed{Record: over}, "another claim of what is there")
		_, err := s.Claim(e.ctx(), h, id, []store.Claim{c, {Key: key(report, 3), State: jobs.Running}})
		e.is(err, store.ErrReplaced, "the same claim again, beside a new one")
		e.absent(group, key(report, 3), "after a claim of the replaced")
		e.equal(e.move(s, h, finish)[0], true, "the same move again")
		moved, err := s.Move(e.ctx(), h, []store.Move{to(jobs.Succeeded, left), finish})
		if err == nil && !slices.Equal(moved, []bool{false, true}) || err != nil {
			e.Errorf("the same move again, beside a new one: %v, error %v, want [false true]", moved, err)
		}
		e.unchanged(over, "after all")
		e.unchanged(left, "after a move of the replaced")
	}},
}
