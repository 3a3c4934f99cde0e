package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/cronlease/cronlease/store"
)

const (
	// one, two and three are locks, sessionGroup is the group of a session.
	one          = "door"
	two          = "gate"
	three        = "window"
	sessionGroup = "sessions/a"
)

// Locks tests a store against the contract of [store.Locks], and of
// [store.Notifiers] if it has them. It calls open once for each case, and cases
// run in parallel.
func Locks(t *testing.T, open func(t testing.TB) Harness) {
	t.Helper()
	lockSuite.run(t, open)
}

type lockCase = testCase[*lockEnv]

var lockSuite = suite[*lockEnv]{
	cases: slices.Concat(lockReadCases, writeCases, severalCases, lockNameCases, lockPruneCases, sessionCases, notifierCases, notifyCases, lockConcurrencyCases),
	on:    newLockEnv,
}

func newLockEnv(e *env) *lockEnv {
	e.Helper()
	l := &lockEnv{env: e}
	l.watch = l.open()
	return l
}

// lockEnv is one case on one database.
type lockEnv struct {
	*env
	watch store.Locks // belongs to no process: shows rows as they are
}

func (e *lockEnv) open() store.Locks {
	e.Helper()
	return open[store.Locks](e.env)
}

func (e *lockEnv) read(s store.Locks, names ...string) store.LockReading {
	e.Helper()
	r, err := s.ReadLocks(e.ctx(), names...)
	e.ok(err, "ReadLocks")
	if len(r.Rows) != len(names) {
		e.Fatalf("ReadLocks of %d names answered %d rows", len(names), len(r.Rows))
	}
	for i, name := range names {
		if r.Rows[i].Name != name {
			e.Fatalf("row %d is of %q, want %q", i, r.Rows[i].Name, name)
		}
	}
	return r
}

func (e *lockEnv) row(name string) store.LockRow {
	e.Helper()
	return e.read(e.watch, name).Rows[0]
}

// is checks that a row has that version and that queue.
func (e *lockEnv) is(name string, version uint64, queue, what string) {
	e.Helper()
	e.same(e.row(name), store.LockRow{Name: name, Version: version, Queue: []byte(queue)}, what)
}

func (e *lockEnv) same(got, want store.LockRow, what string) {
	e.Helper()
	if !sameRow(got, want) {
		e.Errorf("%s: row\n\t%s, want\n\t%s", what, showLock(got), showLock(want))
	}
}

// sameRow compares rows. An empty queue may be nil.
func sameRow(a, b store.LockRow) bool {
	return a.Name == b.Name && a.Version == b.Version && bytes.Equal(a.Queue, b.Queue)
}

func showLock(r store.LockRow) string {
	return fmt.Sprintf("{%q version %d queue %d bytes %.80q}", r.Name, r.Version, len(r.Queue), r.Queue)
}

// write is a write of a row.
func write(name string, expect, version uint64, queue string) store.LockWrite {
	return store.LockWrite{Name: name, Expect: expect, Version: version, Queue: []byte(queue)}
}

// written is the row that a write makes.
func written(w store.LockWrite) store.LockRow {
	return store.LockRow{Name: w.Name, Version: w.Version, Queue: w.Queue}
}

// write writes, and checks that each row has the content of its write if the answer
// is true, and is unchanged otherwise.
func (e *lockEnv) write(s store.Locks, writes ...store.LockWrite) []bool {
	e.Helper()
	names := make([]string, len(writes))
	for i, w := range writes {
		names[i] = w.Name
	}
	before := e.read(e.watch, names...)
	done, err := s.WriteLocks(e.ctx(), before.Server, writes)
	e.ok(err, "WriteLocks")
	if len(done) != len(writes) {
		e.Fatalf("WriteLocks of %d rows answered %d", len(writes), len(done))
	}
	after := e.read(e.watch, names...)
	for i, w := range writes {
		want := before.Rows[i]
		if done[i] {
			want = written(w)
		}
		if !sameRow(after.Rows[i], want) {
			e.Fatalf("WriteLocks of version %d over %d answered %t, and the row is\n\t%s, want\n\t%s",
				w.Version, w.Expect, done[i], showLock(after.Rows[i]), showLock(want))
		}
	}
	return done
}

// put writes, and requires that it is done.
func (e *lockEnv) put(s store.Locks, writes ...store.LockWrite) {
	e.Helper()
	for i, done := range e.write(s, writes...) {
		if !done {
			e.Fatalf("WriteLocks of %q, version %d over %d, was not done: the row is %s",
				writes[i].Name, writes[i].Version, writes[i].Expect, showLock(e.row(writes[i].Name)))
		}
	}
}

// refused writes, and requires that it is not done.
func (e *lockEnv) refused(s store.Locks, w store.LockWrite, what string) {
	e.Helper()
	if e.write(s, w)[0] {
		e.Errorf("%s: version %d was written over %d", what, w.Version, w.Expect)
	}
}

// server is how a write names the server.
func (e *lockEnv) server() string {
	e.Helper()
	return e.read(e.watch, one).Server
}

// session creates the lease row of a session that alice holds.
func (e *lockEnv) session(s store.Locks, group string) store.Renewal {
	e.Helper()
	e.ok(s.Prepare(e.ctx(), group, ttl), "Prepare")
	rs, err := s.Read(e.ctx(), group)
	e.ok(err, "Read")
	token, err := s.Acquire(e.ctx(), store.Acquire{Read: rs[0], Owner: alice, Heartbeat: 1, TTL: ttl})
	e.ok(err, "Acquire")
	return store.Renewal{Group: group, Token: token, Heartbeat: 1}
}

// hasSession reports whether the rows of a session exist.
func (e *lockEnv) hasSession(group string, want bool, what string) {
	e.Helper()
	rs, err := e.watch.Read(e.ctx(), group)
	e.ok(err, "Read")
	if hasLease, hasFence := rs[0].Lease != nil, rs[0].Fence != nil; hasLease != want || hasFence != want {
		e.Errorf("%s: group %q has a lease row: %t, a fence row: %t, want %t", what, group, hasLease, hasFence, want)
	}
}
