package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/cronlease/cronlease/store"
)

// aging lets rows become old.
type aging struct {
	*lockEnv
	s    store.Locks
	idle time.Duration
	// round makes names unique when a case has to be retried, and base keeps
	// versions above the floor.
	round string
	base  uint64
	since time.Time // the database's clock at the end of pass
}

// aging runs a case in which rows written before pass are idle and rows written
// after it are not. It checks the case's findings only if the latter cannot have
// become idle too, which depends on the machine's speed if the clock cannot be
// stepped.
func (e *lockEnv) aging(try func(a *aging) (check func())) {
	e.Helper()
	a := &aging{lockEnv: e, s: e.open(), idle: 250 * time.Millisecond}
	if e.h.StepClock != nil {
		a.idle = time.Hour
	}
	for round := 0; ; round++ {
		a.round = fmt.Sprint("round", round, "/")
		a.base = e.read(a.s, one).Floor
		check := try(a)
		if e.now().Sub(a.since) < a.idle {
			check()
			return
		}
		a.idle *= 2
		for e.prune(a.s, 0, 1000)+e.pruneSessions(a.s, "round", 0, 0, 1000) > 0 {
			e.ok(e.ctx().Err(), "time enough for the case")
		}
	}
}

// pass lets enough time pass for rows to become idle.
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

func (e *lockEnv) now() time.Time {
	e.Helper()
	return e.read(e.watch, one).Now
}

func (e *lockEnv) prune(s store.Locks, idle time.Duration, limit int) int {
	e.Helper()
	n, err := s.PruneLocks(e.ctx(), idle, limit)
	e.ok(err, "PruneLocks")
	return n
}

func (e *lockEnv) pruneSessions(s store.Locks, prefix string, released, expired time.Duration, limit int) int {
	e.Helper()
	n, err := s.PruneSessions(e.ctx(), prefix, released, expired, limit)
	e.ok(err, "PruneSessions")
	return n
}

// lock writes a new row.
func (a *aging) lock(name string, version uint64, queue string) {
	a.Helper()
	a.put(a.s, a.write(name, 0, version, queue))
}

// write is a write of a row of this round.
func (a *aging) write(name string, expect, version uint64, queue string) store.LockWrite {
	if expect > 0 {
		expect += a.base
	}
	return write(a.round+name, expect, a.base+version, queue)
}

// locks lists the names whose rows exist.
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

// held lists those of this round's locks that were held for longer than idle.
func (a *aging) held(after string, limit int) string {
	a.Helper()
	names, err := a.s.HeldLocks(a.ctx(), a.idle, a.round+after, limit)
	a.ok(err, "HeldLocks")
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, a.round)
	}
	return fmt.Sprint(names)
}

// sessions lists the groups whose rows exist.
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

var lockPruneCases = []lockCase{
	{"prune/free locks", func(e *lockEnv) {
		e.aging(func(a *aging) func() {
			a.lock("idle", 1, "")
			a.lock("held", 1, "holder")
			a.lock("space", 1, " ")
			a.lock("zero", 1, "\x00")
			a.lock("left", 1, "holder")
			a.put(a.s, a.write("left", 1, 2, ""))
			a.pass()
			a.lock("young", 1, "")
			n := a.prune(a.s, a.idle, 100)
			return func() {
				a.equal(n, 2, "rows found")
				a.equal(a.locks("idle", "held", "space", "zero", "left", "young"), "[held space zero young]", "rows that are left")
			}
		})
	}},

	{"prune/idle since the last write", func(e *lockEnv) {
		e.aging(func(a *aging) func() {
			for _, name := range []string{"left", "used", "many1", "many2", "refused"} {
				a.lock(name, 1, "")
			}
			a.pass()
			a.put(a.s, a.write("left", 1, 2, "holder"))
			a.put(a.s, a.write("left", 2, 3, ""))
			a.put(a.s, a.write("used", 1, 2, ""))
			a.put(a.s, a.write("many1", 1, 2, ""), a.write("many2", 1, 2, ""))
			a.refused(a.s, a.write("refused", 5, 6, ""), "another version")
			n := a.prune(a.s, a.idle, 100)
			return func() {
				a.equal(n, 1, "rows found")
				a.equal(a.locks("left", "used", "many1", "many2", "refused"), "[left used many1 many2]", "rows that are left")
			}
		})
	}},

	{"prune/up to the limit", func(e *lockEnv) {
		e.aging(func(a *aging) func() {
			for i := range 5 {
				a.lock(fmt.Sprint("idle", i), 1, "")
			}
			a.pass()
			for i := range 5 {
				a.lock(fmt.Sprint("young", i), 1, "")
			}
			var pruned []int
			for _, limit := range []int{0, 2, 1, 5, 5} {
				pruned = append(pruned, a.prune(a.s, a.idle, limit))
			}
			return func() { a.equal(fmt.Sprint(pruned), "[0 2 1 2 0]", "rows found, by five calls") }
		})
	}},

	{"prune/a row comes back", func(e *lockEnv) {
		e.aging(func(a *aging) func() {
			a.lock("idle", 10, "")
			a.pass()
			n := a.prune(a.s, a.idle, 100)
			return func() {
				a.equal(n, 1, "rows found")
				a.is(a.round+"idle", 0, "", "a row that was pruned")
				a.refused(a.s, a.write("idle", 10, 11, "x"), "a row that was pruned")
				for _, version := range []uint64{1, 9, 10} {
					a.refused(a.s, a.write("idle", 0, version, "x"), "a row that was pruned, with a version that is not above")
				}
				a.put(a.s, a.write("idle", 0, 11, "again"))
				a.refused(a.s, a.write("idle", 0, 21, "x"), "a row that came back")
				a.put(a.s, a.write("idle", 11, 12, ""))
				a.equal(a.prune(a.s, time.Hour+a.idle, 100), 0, "rows found")
			}
		})
	}},

	{"prune/the floor is the highest that was pruned", func(e *lockEnv) {
		e.aging(func(a *aging) func() {
			a.lock("low", 10, "")
			a.lock("high", 20, "")
			a.lock("held", 40, "holder")
			a.pass()
			a.lock("young", 30, "")
			n := a.prune(a.s, a.idle, 100)
			return func() {
				a.equal(n, 2, "rows found")
				a.equal(a.read(a.s, one).Floor, a.base+20, "the floor")
				a.equal(a.read(a.s, a.round+"held", a.round+"young").Floor, a.base+20, "the floor beside rows")
				a.refused(a.s, a.write("low", 0, 15, "x"), "another name than the highest one's")
				a.refused(a.s, a.write("new", 0, 20, "x"), "a name that was never written")
				for i, done := range a.lockEnv.write(a.s, a.write("several1", 0, 25, "x"), a.write("several2", 0, 19, "x"), a.write("held", 40, 41, "x")) {
					if i == 1 && done {
						a.Errorf("one of several was written that is not above the floor")
					}
					if i == 2 && !done {
						a.Errorf("a row that is there was not written beside new ones")
					}
				}
			}
		})
	}},

	{"prune/the floor is for new rows", func(e *lockEnv) {
		e.aging(func(a *aging) func() {
			a.lock("kept", 5, "holder")
			a.lock("other", 6, "holder")
			a.lock("idle", 90, "")
			a.pass()
			n := a.prune(a.s, a.idle, 100)
			return func() {
				a.equal(n, 1, "rows found")
				a.put(a.s, a.write("kept", 5, 7, ""))
				a.put(a.s, a.write("kept", 7, 8, "x"), a.write("other", 6, 8, "x"))
			}
		})
	}},

	{"prune/the floor never falls", func(e *lockEnv) {
		e.aging(func(a *aging) func() {
			a.lock("low", 5, "")
			a.lock("high", 50, "")
			a.put(a.s, a.write("low", 5, 6, "holder"))
			a.pass()
			first := a.prune(a.s, a.idle, 100)
			a.put(a.s, a.write("low", 6, 7, ""))
			second := a.prune(a.s, -time.Hour, 100)
			return func() {
				a.equal(fmt.Sprint(first, second), "1 1", "rows found")
				a.equal(a.read(a.s, one).Floor, a.base+50, "the floor")
				a.refused(a.s, a.write("high", 0, 49, "x"), "a row below the floor")
			}
		})
	}},

	{"prune/locks that are held", func(e *lockEnv) {
		e.aging(func(a *aging) func() {
			for _, name := range []string{"e", "b", "B", "a/", "d", "a", "b1"} {
				a.lock(name, 1, "holder")
			}
			a.lock("space", 1, " ")
			a.lock("left", 1, "holder")
			a.put(a.s, a.write("left", 1, 2, ""))
			a.lock("never", 1, "")
			a.lock("used", 1, "holder")
			a.lock("taken", 1, "")
			a.pass()
			a.put(a.s, a.write("used", 1, 2, "holder"))
			a.put(a.s, a.write("taken", 1, 2, "holder"))
			a.lock("young", 1, "holder")
			var lists []string
			for _, after := range []string{"", "a", "a/", "b", "b0", "d", "space", "z"} {
				lists = append(lists, a.held(after, 100))
			}
			var limits []string
			for _, limit := range []int{0, 1, 3, 8} {
				limits = append(limits, a.held("", limit))
			}
			first, err := a.s.HeldLocks(a.ctx(), a.idle, "", 1)
			a.ok(err, "HeldLocks")
			return func() {
				all := []string{"B", "a", "a/", "b", "b1", "d", "e", "space"}
				for i, from := range []int{0, 2, 3, 4, 4, 6, 8, 8} {
					a.equal(lists[i], fmt.Sprint(all[from:]), fmt.Sprint("locks that are held, list ", i))
				}
				for i, n := range []int{0, 1, 3, 8} {
					a.equal(limits[i], fmt.Sprint(all[:n]), fmt.Sprint("up to ", n, " locks that are held"))
				}
				a.equal(fmt.Sprint(first), "[round0/B]", "the first lock that is held, after no name, in any round")
				a.is(a.round+"a", a.base+1, "holder", "a lock that was listed")
			}
		})
	}},

	{"prune/nothing", func(e *lockEnv) {
		s := e.open()
		e.equal(e.read(s, one).Floor, uint64(0), "the floor at first")
		e.equal(e.prune(s, 0, 100), 0, "rows found of none")
		held, err := s.HeldLocks(e.ctx(), -time.Hour, "", 100)
		e.ok(err, "HeldLocks")
		e.equal(len(held), 0, "locks that are held of none")
		e.equal(e.pruneSessions(s, "sessions/", 0, 0, 100), 0, "sessions found of none")
		e.put(s, write(one, 0, 1, ""))
		e.session(s, sessionGroup)
		e.equal(e.prune(s, 24*time.Hour, 100), 0, "rows found of young ones")
		e.equal(e.pruneSessions(s, "sessions/", 24*time.Hour, 24*time.Hour, 100), 0, "sessions found of young ones")
		e.is(one, 1, "", "a row that is young")
		e.hasSession(sessionGroup, true, "a young session")
		e.equal(e.read(s, one).Floor, uint64(0), "the floor when nothing was pruned")
	}},
}

// sessionCases test the pruning of sessions' lease rows.
var sessionCases = []lockCase{
	{"prune/sessions that are not renewed", func(e *lockEnv) {
		e.aging(func(a *aging) func() {
			a.session(a.s, a.round+"idle")
			released := a.session(a.s, a.round+"released")
			a.ok(a.s.Release(a.ctx(), released.Group, alice, released.Token), "Release")
			a.ok(a.s.Prepare(a.ctx(), a.round+"prepared", ttl), "Prepare")
			renewed := a.session(a.s, a.round+"renewed")
			taken := a.session(a.s, a.round+"taken")
			a.pass()
			n, err := a.s.Renew(a.ctx(), store.Renew{Owner: alice, Heartbeat: 2, Leases: []store.Renewal{renewed}})
			a.ok(err, "Renew")
			a.equal(n, 1, "leases renewed")
			a.session(a.s, taken.Group)
			a.session(a.s, a.round+"young")
			n = a.pruneSessions(a.s, a.round, a.idle, a.idle, 100)
			return func() {
				a.equal(n, 3, "rows found")
				for _, name := range []string{"idle", "released", "prepared"} {
					a.hasSession(a.round+name, false, "a session that is not renewed")
				}
				for _, name := range []string{"renewed", "taken", "young"} {
					a.hasSession(a.round+name, true, "a young session")
				}
			}
		})
	}},

	{"prune/sessions of the prefix", func(e *lockEnv) {
		e.aging(func(a *aging) func() {
			groups := []string{"locks/a", "locks/b", "locks/", "locks", "lockss/a", "Locks/a", "LOCKS/A", "xlocks/a", "a/locks/a", "billing"}
			for _, name := range groups {
				a.session(a.s, a.round+name)
			}
			inside := a.session(a.s, "x/"+a.round+"locks/a").Group
			a.pass()
			n := a.pruneSessions(a.s, a.round+"locks/", a.idle, a.idle, 100)
			return func() {
				a.equal(n, 3, "rows found")
				a.hasSession(inside, true, "a session with the prefix inside")
				a.equal(a.sessions(groups...), fmt.Sprint(groups[3:]), "sessions that are left")
			}
		})
	}},

	{"prune/a prefix is no pattern", func(e *lockEnv) {
		e.aging(func(a *aging) func() {
			groups := []string{"a_b/1", "axb/1", "a.b/1", "ab/1", "a/1", "A_b/1"}
			for _, name := range groups {
				a.session(a.s, a.round+name)
			}
			a.pass()
			var pruned []int
			for _, prefix := range []string{"a%", "%", "_", "a?b", "a*", `a\_b`, `\`, `a\xb`, "[a]", "a..", "a_b/1'", "a_b"} {
				pruned = append(pruned, a.pruneSessions(a.s, a.round+prefix, a.idle, a.idle, 100))
			}
			return func() {
				a.equal(fmt.Sprint(pruned), "[0 0 0 0 0 0 0 0 0 0 0 1]", "rows pruned, by prefix")
				a.equal(a.sessions(groups...), fmt.Sprint(groups[1:]), "sessions that are left")
			}
		})
	}},

	{"prune/a session comes back", func(e *lockEnv) {
		e.aging(func(a *aging) func() {
			name := a.round + "idle"
			old := a.session(a.s, name)
			a.pass()
			n := a.pruneSessions(a.s, a.round, a.idle, a.idle, 100)
			return func() {
				a.equal(n, 1, "rows found")
				a.hasSession(name, false, "a session that was pruned")
				renewed, err := a.s.Renew(a.ctx(), store.Renew{Owner: alice, Heartbeat: 2, Leases: []store.Renewal{old}})
				a.ok(err, "Renew")
				a.equal(renewed, 0, "leases renewed that were pruned")
				if again := a.session(a.s, name); again.Token <= old.Token {
					a.Errorf("token %d after %d", again.Token, old.Token)
				}
				a.hasSession(name, true, "a session that came back")
			}
		})
	}},

	{"prune/sessions that are released", func(e *lockEnv) {
		e.aging(func(a *aging) func() {
			a.session(a.s, a.round+"held")
			a.ok(a.s.Prepare(a.ctx(), a.round+"prepared", ttl), "Prepare")
			released := a.session(a.s, a.round+"released")
			a.ok(a.s.Release(a.ctx(), released.Group, alice, released.Token), "Release")
			a.pass()
			young := a.session(a.s, a.round+"young")
			a.ok(a.s.Release(a.ctx(), young.Group, alice, young.Token), "Release")
			pruned := []int{
				a.pruneSessions(a.s, a.round, 24*time.Hour, 24*time.Hour, 100),
				a.pruneSessions(a.s, a.round, a.idle, 24*time.Hour, 100),
			}
			left := a.sessions("held", "prepared", "released", "young")
			pruned = append(pruned, a.pruneSessions(a.s, a.round, 24*time.Hour, a.idle, 100))
			return func() {
				a.equal(fmt.Sprint(pruned), "[0 2 1]", "sessions found")
				a.equal(left, "[held young]", "sessions that are left of those released")
				a.equal(a.sessions("held", "young"), "[young]", "sessions that are left of all")
			}
		})
	}},

	{"prune/sessions up to the limit", func(e *lockEnv) {
		e.aging(func(a *aging) func() {
			for i := range 5 {
				a.session(a.s, a.round+fmt.Sprint("idle", i))
			}
			a.pass()
			a.session(a.s, a.round+"young")
			var pruned []int
			for _, limit := range []int{0, 2, 1, 5, 5} {
				pruned = append(pruned, a.pruneSessions(a.s, a.round, a.idle, a.idle, limit))
			}
			return func() { a.equal(fmt.Sprint(pruned), "[0 2 1 2 0]", "sessions found, by five calls") }
		})
	}},

	{"prune/each its own", func(e *lockEnv) {
		e.aging(func(a *aging) func() {
			a.lock("idle", 1, "")
			a.session(a.s, a.round+"session")
			a.pass()
			locks := a.prune(a.s, a.idle, 100)
			left := a.sessions("session")
			a.lock("again", 2, "")
			sessions := a.pruneSessions(a.s, a.round, 0, 0, 100)
			return func() {
				a.equal(locks, 1, "rows of locks found")
				a.equal(left, "[session]", "sessions that are left by PruneLocks")
				a.equal(sessions, 1, "sessions found")
				a.equal(a.locks("idle", "again"), "[again]", "rows that are left by PruneSessions")
			}
		})
	}},
}
