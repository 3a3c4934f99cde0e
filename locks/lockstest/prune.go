package lockstest

import (
	"fmt"
	"time"

	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
)

// aging lets rows become old.
type aging struct {
	*env
	s    locks.Store
	idle time.Duration
	// round makes names of their own when a case has to be tried again.
	round string
	since time.Time // the database's clock at the end of pass
}

// aging runs a case in which some rows are idle and others are not: those that
// were written before and after pass. What the case finds is looked at if the
// latter cannot have become idle too: with a clock that cannot be stepped, that
// is a matter of how fast all goes.
func (e *env) aging(try func(a *aging) (check func())) {
	e.Helper()
	a := &aging{env: e, s: e.open(), idle: 250 * time.Millisecond}
	if e.h.StepClock != nil {
		a.idle = time.Hour
	}
	for round := 0; ; round++ {
		a.round = fmt.Sprint("round", round, "/")
		check := try(a)
		if e.now().Sub(a.since) < a.idle {
			check()
			return
		}
		a.idle *= 2
		for e.prune(a.s, "round", 0, 1000) > 0 {
			e.ok(e.ctx().Err(), "time enough for the case")
		}
	}
}

// pass lets the time pass after which rows are idle.
func (a *aging) pass() {
	a.Helper()
	begin := a.now()
	if a.h.StepClock != nil {
		a.h.StepClock(a.TB, a.idle+time.Second)
	}
	for a.since = a.now(); a.since.Sub(begin) <= a.idle; a.since = a.now() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-a.ctx().Done():
			a.Fatalf("the database's clock has not passed %v", begin.Add(a.idle))
		}
	}
}

func (e *env) now() time.Time {
	e.Helper()
	return e.read(e.watch, one).Now
}

func (e *env) prune(s locks.Store, prefix string, idle time.Duration, limit int) int {
	e.Helper()
	n, err := s.PruneLocks(e.ctx(), prefix, idle, limit)
	e.ok(err, "PruneLocks")
	return n
}

// lock writes a new row.
func (a *aging) lock(name string, version uint64, queue string) {
	a.Helper()
	a.put(a.s, write(a.round+name, 0, version, queue))
}

// locks are those of the names whose rows are there.
func (a *aging) locks(names ...string) string {
	a.Helper()
	var found []string
	for _, name := range names {
		if a.row(a.round+name).Version > 0 {
			found = append(found, name)
		}
	}
	return fmt.Sprint(found)
}

// sessions are those of the groups whose rows are there.
func (a *aging) sessions(groups ...string) string {
	a.Helper()
	var found []string
	for _, group := range groups {
		rs, err := a.watch.Read(a.ctx(), a.round+group)
		a.ok(err, "Read")
		if rs[0].Lease != nil {
			found = append(found, group)
		}
	}
	return fmt.Sprint(found)
}

var pruneCases = []testCase{
	{"prune/locks that nobody has", func(e *env) {
		e.aging(func(a *aging) func() {
			a.lock("idle", 1, "")
			a.lock("held", 1, "somebody")
			a.lock("space", 1, " ")
			a.lock("zero", 1, "\x00")
			a.lock("left", 1, "somebody")
			a.put(a.s, write(a.round+"left", 1, 2, ""))
			a.pass()
			a.lock("young", 1, "")
			n := a.prune(a.s, a.round, a.idle, 100)
			return func() {
				a.equal(n, 2, "rows pruned")
				a.equal(a.locks("idle", "held", "space", "zero", "left", "young"), "[held space zero young]", "rows that are left")
			}
		})
	}},

	{"prune/idle since the last write", func(e *env) {
		e.aging(func(a *aging) func() {
			for _, name := range []string{"left", "used", "many1", "many2", "refused"} {
				a.lock(name, 1, "")
			}
			a.pass()
			a.put(a.s, write(a.round+"left", 1, 2, "somebody"))
			a.put(a.s, write(a.round+"left", 2, 3, ""))
			a.put(a.s, write(a.round+"used", 1, 2, ""))
			a.put(a.s, write(a.round+"many1", 1, 2, ""), write(a.round+"many2", 1, 2, ""))
			a.refused(a.s, write(a.round+"refused", 5, 6, ""), "another version")
			n := a.prune(a.s, a.round, a.idle, 100)
			return func() {
				a.equal(n, 1, "rows pruned")
				a.equal(a.locks("left", "used", "many1", "many2", "refused"), "[left used many1 many2]", "rows that are left")
			}
		})
	}},

	{"prune/up to the limit of each", func(e *env) {
		e.aging(func(a *aging) func() {
			for i := range 5 {
				a.lock(fmt.Sprint("idle", i), 1, "")
				a.session(a.s, a.round+fmt.Sprint("idle", i))
			}
			a.pass()
			for i := range 5 {
				a.lock(fmt.Sprint("young", i), 1, "")
				a.session(a.s, a.round+fmt.Sprint("young", i))
			}
			var pruned []int
			for _, limit := range []int{0, 2, 1, 5, 5} {
				pruned = append(pruned, a.prune(a.s, a.round, a.idle, limit))
			}
			return func() { a.equal(fmt.Sprint(pruned), "[0 4 2 4 0]", "rows pruned, by five calls") }
		})
	}},

	{"prune/a row comes back", func(e *env) {
		e.aging(func(a *aging) func() {
			a.lock("idle", 10, "")
			a.pass()
			n := a.prune(a.s, a.round, a.idle, 100)
			return func() {
				a.equal(n, 1, "rows pruned")
				name := a.round + "idle"
				a.is(name, 0, "", "a row that was pruned")
				a.refused(a.s, write(name, 10, 11, "x"), "a row that was pruned")
				a.put(a.s, write(name, 0, 20, "again"))
				a.refused(a.s, write(name, 0, 21, "x"), "a row that came back")
				a.put(a.s, write(name, 20, 21, ""))
				a.equal(a.prune(a.s, a.round, time.Hour, 100), 0, "rows pruned")
			}
		})
	}},

	{"prune/nothing", func(e *env) {
		s := e.open()
		e.equal(e.prune(s, "sessions/", 0, 100), 0, "rows pruned of none")
		e.put(s, write(one, 0, 1, ""))
		e.session(s, group)
		e.equal(e.prune(s, "sessions/", 24*time.Hour, 100), 0, "rows pruned of young ones")
		e.is(one, 1, "", "a row that is young")
		e.hasSession(group, true, "a young session")
	}},
}

// sessionCases are of the lease rows that PruneLocks deletes.
var sessionCases = []testCase{
	{"prune/sessions that are not renewed", func(e *env) {
		e.aging(func(a *aging) func() {
			a.session(a.s, a.round+"idle")
			released := a.session(a.s, a.round+"released")
			a.ok(a.s.Release(a.ctx(), released.Group, alice, released.Token), "Release")
			a.ok(a.s.Prepare(a.ctx(), a.round+"prepared", ttl), "Prepare")
			renewed := a.session(a.s, a.round+"renewed")
			taken := a.session(a.s, a.round+"taken")
			a.pass()
			n, err := a.s.Renew(a.ctx(), lease.Renew{Owner: alice, Heartbeat: 2, Leases: []lease.Renewal{renewed}})
			a.ok(err, "Renew")
			a.equal(n, 1, "leases renewed")
			a.session(a.s, taken.Group)
			a.session(a.s, a.round+"young")
			n = a.prune(a.s, a.round, a.idle, 100)
			return func() {
				a.equal(n, 3, "rows pruned")
				for _, name := range []string{"idle", "released", "prepared"} {
					a.hasSession(a.round+name, false, "a session that is not renewed")
				}
				for _, name := range []string{"renewed", "taken", "young"} {
					a.hasSession(a.round+name, true, "a young session")
				}
			}
		})
	}},

	{"prune/sessions of the prefix", func(e *env) {
		e.aging(func(a *aging) func() {
			groups := []string{"locks/a", "locks/b", "locks/", "locks", "lockss/a", "Locks/a", "LOCKS/A", "xlocks/a", "a/locks/a", "billing"}
			for _, name := range groups {
				a.session(a.s, a.round+name)
			}
			inside := a.session(a.s, "x/"+a.round+"locks/a").Group
			a.pass()
			n := a.prune(a.s, a.round+"locks/", a.idle, 100)
			return func() {
				a.equal(n, 3, "rows pruned")
				a.hasSession(inside, true, "a session with the prefix inside")
				a.equal(a.sessions(groups...), fmt.Sprint(groups[3:]), "sessions that are left")
			}
		})
	}},

	{"prune/a prefix is no pattern", func(e *env) {
		e.aging(func(a *aging) func() {
			groups := []string{"a_b/1", "axb/1", "a.b/1", "ab/1", "a/1", "A_b/1"}
			for _, name := range groups {
				a.session(a.s, a.round+name)
			}
			a.pass()
			var pruned []int
			for _, prefix := range []string{"a%", "%", "_", "a?b", "a*", `a\_b`, `\`, `a\xb`, "[a]", "a..", "a_b/1'", "a_b"} {
				pruned = append(pruned, a.prune(a.s, a.round+prefix, a.idle, 100))
			}
			return func() {
				a.equal(fmt.Sprint(pruned), "[0 0 0 0 0 0 0 0 0 0 0 1]", "rows pruned, by prefix")
				a.equal(a.sessions(groups...), fmt.Sprint(groups[1:]), "sessions that are left")
			}
		})
	}},

	{"prune/a session comes back", func(e *env) {
		e.aging(func(a *aging) func() {
			name := a.round + "idle"
			old := a.session(a.s, name)
			a.pass()
			n := a.prune(a.s, a.round, a.idle, 100)
			return func() {
				a.equal(n, 1, "rows pruned")
				a.hasSession(name, false, "a session that was pruned")
				renewed, err := a.s.Renew(a.ctx(), lease.Renew{Owner: alice, Heartbeat: 2, Leases: []lease.Renewal{old}})
				a.ok(err, "Renew")
				a.equal(renewed, 0, "leases renewed that were pruned")
				if again := a.session(a.s, name); again.Token <= old.Token {
					a.Errorf("token %d after %d", again.Token, old.Token)
				}
				a.hasSession(name, true, "a session that came back")
			}
		})
	}},

	{"prune/locks of any name", func(e *env) {
		e.aging(func(a *aging) func() {
			a.lock("idle", 1, "")
			a.lock("z", 1, "")
			a.pass()
			n := a.prune(a.s, "no/such/session/", a.idle, 100)
			return func() {
				a.equal(n, 2, "rows pruned")
				a.equal(a.locks("idle", "z"), "[]", "rows that are left")
			}
		})
	}},
}
