package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cronlease/cronlease/store"
)

// peeking is a store that is a [store.Peeker].
type peeking interface {
	store.Locks
	store.Peeker
}

func (e *lockEnv) peeking() peeking {
	e.Helper()
	s, ok := e.open().(peeking)
	if !ok {
		e.Skip("left out: the store is no store.Peeker")
	}
	return s
}

var lockReadCases = []lockCase{
	{"read/rows that are not there", func(e *lockEnv) {
		r := e.read(e.open(), one, two)
		for _, row := range r.Rows {
			e.same(row, store.LockRow{Name: row.Name}, "a lock that was never written")
		}
		if r.Server == "" {
			e.Errorf("the reading names no server")
		}
		if r.Now.IsZero() {
			e.Errorf("the reading has no instant")
		}
	}},

	{"read/many rows in the order asked", func(e *lockEnv) {
		s := e.open()
		var asked []string
		var writes []store.LockWrite
		for i := range 200 {
			name := fmt.Sprint("lock", (i*37)%200)
			asked = append(asked, name)
			if i%20 == 0 {
				writes = append(writes, write(name, 0, uint64(i+1), "queue of "+name))
			}
		}
		e.put(s, writes...)
		asked = append(asked, writes[1].Name, writes[0].Name, writes[0].Name, "lock"+writes[0].Name)
		found := 0
		for _, row := range e.read(s, asked...).Rows { // which looks at the names
			if row.Version > 0 {
				found++
				e.equal(string(row.Queue), "queue of "+row.Name, "queue")
			}
		}
		e.equal(found, len(writes)+3, "rows that are there")
	}},

	{"read/the server and the clock are those of leases", func(e *lockEnv) {
		s, other := e.open(), e.open()
		for range 20 {
			before, err := s.Read(e.ctx(), sessionGroup)
			e.ok(err, "Read")
			r := e.read(s, one, two)
			after, err := other.Read(e.ctx(), sessionGroup)
			e.ok(err, "Read")
			e.equal(r.Server, before[0].Server, "Server, beside that of a lease")
			e.equal(r.Server, after[0].Server, "Server, beside that of a lease that another process read")
			if r.Now.Before(before[0].Now) || r.Now.After(after[0].Now) {
				e.Errorf("Now is %v, want an instant from %v to %v", r.Now, before[0].Now, after[0].Now)
			}
			e.equal(r.Now.Location(), time.UTC, "location of Now")
		}
	}},

	{"read/instants have fractions of seconds", func(e *lockEnv) {
		s := e.open()
		for begin := time.Now(); time.Since(begin) < 1100*time.Millisecond; {
			if e.read(s, one).Now.Nanosecond() != 0 {
				return
			}
		}
		e.Errorf("Now has no fractions of seconds")
	}},

	{"read/the clock is the database's", func(e *lockEnv) {
		if e.h.StepClock == nil {
			e.Skip("left out: Harness.StepClock is nil")
		}
		s := e.open()
		before := e.read(s, one).Now
		e.h.StepClock(e.TB, time.Hour)
		if gained := e.read(s, one).Now.Sub(before); gained < time.Hour {
			e.Errorf("after a step of an hour, Now has gained %v", gained)
		}
	}},

	{"read/another server behind the address", func(e *lockEnv) {
		if e.h.Restart == nil {
			e.Skip("left out: Harness.Restart is nil")
		}
		s := e.open()
		e.put(s, write(one, 0, 1, "first"))
		before := e.read(s, one)
		e.h.Restart(e.TB)
		after := e.afterRestart(s)
		if after.Server == before.Server {
			e.Errorf("Server is %q before and after", after.Server)
		}
		e.same(after.Rows[0], before.Rows[0], "row after another server took over")
		done, err := s.WriteLocks(e.ctx(), before.Server, []store.LockWrite{write(one, 1, 2, "second"), write(two, 0, 1, "new")})
		if err == nil && (done[0] || done[1]) {
			e.Errorf("WriteLocks on the server before was done by this one: %t", done)
		}
		r := e.read(s, one, two)
		e.same(r.Rows[0], before.Rows[0], "after that")
		e.same(r.Rows[1], store.LockRow{Name: two}, "after that")
		done, err = s.WriteLocks(e.ctx(), after.Server, []store.LockWrite{write(one, 1, 2, "second")})
		if err != nil || !done[0] {
			e.Errorf("WriteLocks on this server: %t, error %v, want it done", done, err)
		}
	}},

	{"read/rows belong to the reader or writer", func(e *lockEnv) {
		s := e.open()
		w := write(one, 0, 1, "first")
		e.put(s, w)
		copy(w.Queue, "XXXXX")
		e.is(one, 1, "first", "after the caller changed what it had written")
		copy(e.read(s, one).Rows[0].Queue, "XXXXX")
		e.is(one, 1, "first", "after a reader changed what it had read")
	}},

	{"peek/what this store has shown, written or refused", func(e *lockEnv) {
		s, other := e.peeking(), e.open()
		peek := func(what string, want ...store.LockRow) {
			e.Helper()
			var names []string
			for _, row := range want {
				names = append(names, row.Name)
			}
			r, err := s.PeekLocks(e.ctx(), names...)
			e.ok(err, "PeekLocks")
			for i, row := range want {
				e.same(r.Rows[i], row, what)
			}
			e.equal(r.Server, e.server(), what+": Server")
		}
		first, second, third := write(one, 0, 1, "first"), write(one, 1, 2, "second"), write(two, 0, 3, "third")
		peek("before the first statement", store.LockRow{Name: one})
		e.put(s, first)
		peek("written", written(first), store.LockRow{Name: two})
		for n := range uint64(20) {
			w := write(three, n, n+1, "another's")
			e.put(other, w)
			e.same(e.read(s, three).Rows[0], written(w), "read")
			peek("shown", written(w), written(first))
		}
		e.put(other, second, third)
		done, err := s.WriteLocks(e.ctx(), e.server(), []store.LockWrite{write(one, 1, 9, "refused"), write(two, 0, 9, "refused")})
		e.ok(err, "WriteLocks")
		e.equal(slices.Contains(done, true), false, "refused")
		peek("refused", written(second), written(third))
	}},

	{"peek/the floor is not below that of a row that is pruned", func(e *lockEnv) {
		s := e.peeking()
		for n := range uint64(20) {
			w := write(one, 0, 100+n, "")
			e.put(s, w)
			_, err := s.PruneLocks(e.ctx(), -time.Hour, 10)
			e.ok(err, "PruneLocks")
			r, err := s.PeekLocks(e.ctx(), one)
			e.ok(err, "PeekLocks")
			if r.Rows[0].Version != 0 || r.Floor < w.Version {
				e.Errorf("after pruning version %d, a peek shows version %d and floor %d", w.Version, r.Rows[0].Version, r.Floor)
			}
		}
	}},

	{"peek/another server behind the address", func(e *lockEnv) {
		if e.h.Restart == nil {
			e.Skip("left out: Harness.Restart is nil")
		}
		s := e.peeking()
		e.put(s, write(one, 0, 1, "first"))
		before, err := s.PeekLocks(e.ctx(), one)
		e.ok(err, "PeekLocks")
		e.h.Restart(e.TB)
		e.afterRestart(s)
		after, err := s.PeekLocks(e.ctx(), one)
		e.ok(err, "PeekLocks")
		if after.Server == before.Server {
			e.Errorf("Server is %q before and after", after.Server)
		}
		e.same(after.Rows[0], before.Rows[0], "row after another server took over")
	}},

	{"context/an ended one", func(e *lockEnv) {
		s := e.open()
		e.put(s, write(one, 0, 1, "first"), write(two, 0, 1, ""))
		e.session(s, sessionGroup)
		r := e.read(s, one)
		ctx, cancel := context.WithCancel(e.Context())
		cancel()
		for what, call := range map[string]func() error{
			"ReadLocks": func() error { _, err := s.ReadLocks(ctx, one); return err },
			"WriteLocks": func() error {
				_, err := s.WriteLocks(ctx, r.Server, []store.LockWrite{write(one, 1, 2, "second"), write(three, 0, 1, "new")})
				return err
			},
			"HeldLocks":     func() error { _, err := s.HeldLocks(ctx, -time.Hour, "", 100); return err },
			"PruneLocks":    func() error { _, err := s.PruneLocks(ctx, -time.Hour, 100); return err },
			"PruneSessions": func() error { _, err := s.PruneSessions(ctx, "sessions/", -time.Hour, -time.Hour, 100); return err },
		} {
			if err := call(); !errors.Is(err, context.Canceled) {
				e.Errorf("%s with an ended context: error %v, want the context's", what, err)
			}
		}
		e.is(one, 1, "first", "after that")
		e.is(two, 1, "", "after that")
		e.is(three, 0, "", "after that")
		e.hasSession(sessionGroup, true, "after that")
		e.put(s, write(one, 1, 2, "second")) // the store still works
	}},
}

// afterRestart reads until a connection to the new server is established: the
// store may first have to find out that one to the old server is dead.
func (e *lockEnv) afterRestart(s store.Locks) store.LockReading {
	e.Helper()
	for {
		r, err := s.ReadLocks(e.ctx(), one)
		if err == nil && len(r.Rows) == 1 {
			return r
		}
		if e.ctx().Err() != nil {
			e.Fatalf("ReadLocks after Harness.Restart: %v", err)
		}
	}
}
