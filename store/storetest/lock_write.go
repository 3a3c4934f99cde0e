package storetest

import (
	"fmt"
	"math"
	"strings"

	"github.com/cronlease/cronlease/store"
)

// queues are bytes that a database may misinterpret.
func queues() []string {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return []string{
		"", " ", "x ", "\n", "0", "NULL", "null", `{"a":[1,2,"x"]}`, `'`, `"`, `\`, `\'; --`, "%_?", "x'41'", "/*!1*/", "\x00", "a\x00b", "\xff", "\xff\xfe\x00",
		"é", "e\u0301", "東京", "\xed\xa0\x80", string(all), strings.Repeat("x", 100<<10), strings.Repeat("\x00\xff'\\", 25<<10),
	}
}

var writeCases = []lockCase{
	{"write/a new row", func(e *lockEnv) {
		s := e.open()
		e.put(s, write(one, 0, 7, "first"))
		e.is(one, 7, "first", "a new row")
		e.is(two, 0, "", "another lock")
		e.equal(e.read(s, one).Floor, uint64(0), "the floor, before anything was pruned")
		e.put(s, write(two, 0, 5, "another"))
		e.is(two, 5, "another", "a new row with a lower version than that of another lock")
	}},

	{"write/one that waits", func(e *lockEnv) {
		s := e.open()
		patient := func(w store.LockWrite) store.LockWrite {
			w.Wait = true
			return w
		}
		e.put(s, patient(write(one, 0, 7, "first")))
		e.put(s, patient(write(one, 7, 9, "second")))
		e.refused(s, patient(write(one, 7, 10, "x")), "another version")
		e.refused(s, patient(write(one, 0, 10, "x")), "a row that is there")
		e.is(one, 9, "second", "after that")
	}},

	{"write/a row that is there", func(e *lockEnv) {
		s, other := e.open(), e.open()
		e.put(s, write(one, 0, 1, "first"), write(two, 0, 1, "first of two"))
		e.put(other, write(one, 1, 2, "second"))
		e.put(s, write(one, 2, 1000, ""))
		e.put(other, write(one, 1000, 1001, "fourth"))
		e.is(one, 1001, "fourth", "the row")
		e.is(two, 1, "first of two", "another row")
	}},

	{"write/any bytes", func(e *lockEnv) {
		s := e.open()
		for i, queue := range queues() {
			name, next := fmt.Sprint("lock", i), fmt.Sprint("other", i)
			e.put(s, write(name, 0, 1, queue))
			e.put(s, write(name, 1, 2, "x"+queue))
			e.put(s, write(name, 2, 3, queue))
			e.is(name, 3, queue, "a queue")
			e.put(s, write(name, 3, 4, queue), write(next, 0, 1, queue))
		}
	}},

	{"write/any bytes, all in one call", func(e *lockEnv) {
		s := e.open()
		var inserts, updates []store.LockWrite
		for i, queue := range queues() {
			name := fmt.Sprint("lock", i)
			inserts = append(inserts, write(name, 0, 1, queue))
			updates = append(updates, write(name, 1, 2, queue+queue))
		}
		e.put(s, inserts...)
		e.put(s, updates...)
	}},

	{"write/an empty queue", func(e *lockEnv) {
		s := e.open()
		for name, queue := range map[string][]byte{one: nil, two: {}} {
			e.put(s, store.LockWrite{Name: name, Version: 1, Queue: queue})
			e.put(s, write(name, 1, 2, "holder"))
			e.put(s, store.LockWrite{Name: name, Expect: 2, Version: 3, Queue: queue})
			e.is(name, 3, "", "an empty queue")
		}
		e.put(s, store.LockWrite{Name: one, Expect: 3, Version: 4}, store.LockWrite{Name: two, Expect: 3, Version: 4})
	}},

	{"write/compares the version", func(e *lockEnv) {
		s := e.open()
		e.put(s, write(one, 0, 10, "first"))
		e.refused(s, write(one, 9, 11, "x"), "the row is newer")
		e.refused(s, write(one, 9, 10, "x"), "the row is newer, and of that version")
		e.refused(s, write(one, 1, 2, "x"), "the row is newer than what is written")
		e.refused(s, write(one, 11, 12, "x"), "the row is older")
		e.refused(s, write(one, 100, 101, "x"), "the row is older")
		e.put(s, write(one, 10, 11, "second"))
		e.refused(s, write(one, 10, 12, "x"), "the row was written meanwhile")
		e.is(one, 11, "second", "after that")
	}},

	{"write/versions only grow", func(e *lockEnv) {
		s := e.open()
		e.put(s, write(one, 0, 10, "first"))
		server := e.server()
		for what, wrong := range map[string]store.LockWrite{
			"goes back":              write(one, 10, 3, "x"),
			"goes back by one":       write(one, 10, 9, "x"),
			"stays":                  write(one, 10, 10, "x"),
			"goes back to none":      write(one, 10, 0, "x"),
			"of a new row is none":   write(two, 0, 0, "x"),
			"goes back, of no row":   write(two, 4, 3, "x"),
			"goes back from another": write(one, 12, 11, "x"),
		} {
			for _, writes := range [][]store.LockWrite{{wrong}, {write(three, 0, 1, "new"), wrong}} {
				if done, err := s.WriteLocks(e.ctx(), server, writes); err == nil {
					e.Errorf("WriteLocks with a version that %s, %d over %d, beside %d others: done %v, want an error",
						what, wrong.Version, wrong.Expect, len(writes)-1, done)
				}
			}
		}
		e.is(one, 10, "first", "after that")
		e.is(two, 0, "", "after that")
		e.is(three, 0, "", "a lock beside one whose version goes back")
	}},

	{"write/versions are kept exactly", func(e *lockEnv) {
		s := e.open()
		last := uint64(0)
		for _, version := range []uint64{1, 2, 1 << 31, 1<<32 + 1, 1_700_000_000_123_457, 1<<53 + 1, 1<<53 + 2, math.MaxInt64 - 1, math.MaxInt64} {
			e.put(s, write(one, last, version, "x"))
			e.refused(s, write(one, version-1, math.MaxInt64, "y"), "the row is newer by one")
			e.refused(s, write(one, version+1, version+2, "y"), "the row is older by one")
			last = version
		}
	}},

	{"write/expects no row", func(e *lockEnv) {
		s := e.open()
		e.put(s, write(one, 0, 1, "first"), write(two, 0, 1, ""))
		e.refused(s, write(one, 0, 2, "x"), "a new row beside one that is there")
		e.refused(s, write(one, 0, 1, "x"), "a new row beside one of that version")
		e.refused(s, write(two, 0, 2, "x"), "a new row beside one with an empty queue")
	}},

	{"write/expects a row", func(e *lockEnv) {
		s := e.open()
		e.refused(s, write(one, 1, 2, "x"), "a row that was not there")
		e.put(s, write(two, 0, 1, "first"))
		for i, done := range e.write(s, write(two, 1, 2, "second"), write(one, 1, 2, "x"), write(three, 7, 8, "")) {
			e.equal(done, i == 0, "done")
		}
	}},

	{"write/a repeated one changes nothing", func(e *lockEnv) {
		s, other := e.open(), e.open()
		first, second := write(one, 0, 1, "first"), write(one, 1, 2, "second")
		e.put(s, first)
		e.write(s, first) // the answer may be either, and the row has to match it
		e.is(one, 1, "first", "after the same again")
		e.put(s, second)
		e.write(s, second)
		e.refused(s, first, "a write that comes late")
		e.refused(s, write(one, 1, 2, "of another client"), "another write of the same version")
		e.put(other, write(one, 2, 3, "third"))
		e.refused(s, second, "a write that comes late")
		e.refused(s, first, "a write that comes late")
		e.is(one, 3, "third", "after that")
		// Together with one that is done.
		e.put(s, write(two, 0, 1, "first"))
		e.equal(fmt.Sprint(e.write(s, second, write(two, 1, 2, "second"))), "[false true]", "done")
		e.equal(fmt.Sprint(e.write(s, write(one, 2, 3, "of another client"), write(two, 2, 3, "third"))), "[false true]", "done")
		e.equal(fmt.Sprint(e.write(s, first, write(two, 3, 4, "fourth"))), "[false true]", "done")
	}},

	{"write/on another server", func(e *lockEnv) {
		s := e.open()
		e.put(s, write(one, 0, 1, "first"))
		server := e.server()
		for _, other := range []string{"", "elsewhere", server + "0", server[:len(server)-1], strings.ToUpper(server) + "X", "%"} {
			done, err := s.WriteLocks(e.ctx(), other, []store.LockWrite{write(two, 0, 1, "new"), write(one, 1, 2, "second")})
			if what := fmt.Sprintf("WriteLocks for the server %q on %q", other, server); err != nil {
				e.Errorf("%s: error %v, want none", what, err)
			} else {
				e.equal(fmt.Sprint(done), "[false false]", what+": done")
			}
		}
		e.is(one, 1, "first", "after that")
		e.is(two, 0, "", "after that")
	}},

	{"write/nothing", func(e *lockEnv) {
		done, err := e.open().WriteLocks(e.ctx(), e.server(), nil)
		e.ok(err, "WriteLocks of nothing")
		e.equal(len(done), 0, "answers")
	}},

	{"write/leases are something else", func(e *lockEnv) {
		s := e.open()
		held := e.session(s, sessionGroup)
		e.put(s, write(sessionGroup, 0, 1, "first"))
		e.put(s, write(sessionGroup, 1, 2, ""))
		n, err := s.Renew(e.ctx(), store.Renew{Owner: alice, Heartbeat: 2, Leases: []store.Renewal{held}})
		e.ok(err, "Renew")
		e.equal(n, 1, "leases renewed")
		e.is(sessionGroup, 2, "", "a lock with the name of a group")
	}},
}

// severalCases test calls with several writes.
var severalCases = []lockCase{
	{"write/those that match", func(e *lockEnv) {
		s := e.open()
		var writes []store.LockWrite
		for i := range 12 {
			writes = append(writes, write(fmt.Sprint("lock", i), 0, 10, "first"))
		}
		e.put(s, writes...)
		want := ""
		for i := range writes {
			w := &writes[i]
			w.Queue, w.Version = fmt.Append(nil, "second of ", i), 20
			w.Expect = []uint64{10, 9, 11, 10, 18, 19}[i%6]
			want += fmt.Sprint(w.Expect == 10, " ")
		}
		e.equal(fmt.Sprint(e.write(s, writes...)), "["+want[:len(want)-1]+"]", "done")
	}},

	{"write/one of several", func(e *lockEnv) {
		s := e.open()
		e.put(s, write(one, 0, 1, "first"), write(two, 0, 1, "first"), write(three, 0, 1, "first"))
		for i, name := range []string{one, two, three} {
			var writes []store.LockWrite
			for _, other := range []string{one, two, three} {
				w := write(other, 99, 100, "x")
				if other == name {
					w = write(name, 1, 2, "second")
				}
				writes = append(writes, w)
			}
			for j, done := range e.write(s, writes...) {
				e.equal(done, i == j, "done")
			}
		}
	}},

	{"write/none of several", func(e *lockEnv) {
		s := e.open()
		e.put(s, write(one, 0, 1, "first"), write(two, 0, 1, "first"))
		for _, done := range e.write(s, write(one, 2, 3, "x"), write(two, 3, 4, "x"), write(three, 1, 2, "x")) {
			e.equal(done, false, "done")
		}
	}},

	// Whether the other writes of the call are done is the store's choice.
	{"write/new rows beside one that is there", func(e *lockEnv) {
		s := e.open()
		e.put(s, write(two, 0, 1, "first"))
		done := e.write(s, write(one, 0, 1, "new"), write(two, 0, 2, "x"), write(three, 0, 1, "new"))
		e.equal(done[1], false, "done")
		// One by one, they can be written.
		for i, name := range []string{one, two, three} {
			if !done[i] && name != two {
				e.put(s, write(name, 0, 1, "new"))
			}
		}
	}},

	{"write/new rows beside others", func(e *lockEnv) {
		s := e.open()
		e.put(s, write(one, 0, 1, "first"), write(two, 0, 1, "first"))
		done := e.write(s, write(three, 0, 5, "new"), write(one, 1, 2, "second"), write("a", 0, 6, "new"), write(two, 9, 10, "x"), write("z", 0, 7, ""))
		e.equal(fmt.Sprint(done), "[true true true false true]", "done")
	}},

	{"write/in any order", func(e *lockEnv) {
		s := e.open()
		names := []string{"m", "z", "a", "Z", "b10", "b9", "B", "c", "0", "y", "x"}
		for round := range 3 {
			var writes []store.LockWrite
			for i, name := range names {
				w := write(name, uint64(round), uint64(round+1), fmt.Sprint("round ", round, " of ", name))
				if round == 2 && i%3 == 1 {
					w.Expect, w.Version = 100, 101
				}
				writes = append(writes, w)
			}
			for i, done := range e.write(s, writes...) {
				e.equal(done, writes[i].Version < 100, "done "+writes[i].Name)
			}
		}
	}},

	{"write/a thousand", func(e *lockEnv) {
		s := e.open()
		var writes []store.LockWrite
		for i := range 1000 {
			writes = append(writes, write(fmt.Sprint("lock", (i*367)%1000), 0, 1, fmt.Sprint("first of ", i)))
		}
		e.put(s, writes...)
		for i := range writes {
			writes[i] = write(writes[i].Name, 1, 2, fmt.Sprint("second of ", i))
		}
		e.put(s, writes...)
		for i := range writes {
			writes[i] = write(writes[i].Name, 2, 3, fmt.Sprint("third of ", i))
			if i%3 == 0 {
				writes[i].Expect = 1
			}
		}
		for i, done := range e.write(s, writes...) {
			if done != (i%3 != 0) {
				e.Fatalf("write %d of a thousand, over version %d of 2: done %t, want %t", i, writes[i].Expect, done, !done)
			}
		}
	}},
}

var lockNameCases = []lockCase{
	{"names/nearly equal ones are different", func(e *lockEnv) {
		s := e.open()
		// The numbers are equal to databases that take text for numbers.
		names := []string{"a", "A", "a-", "a.", "a_", "a/", "aa", "b", "1", "01", "1.0", "1e0", "0x1", "1+0", "a_b", "axb", "null", "NULL", "true"}
		var writes []store.LockWrite
		for i, name := range names {
			w := write(name, 0, uint64(i+1), "queue of "+name)
			if i%2 == 0 {
				e.put(s, w)
			} else {
				writes = append(writes, w)
			}
		}
		e.put(s, writes...)
		for i, row := range e.read(s, names...).Rows {
			e.same(row, store.LockRow{Name: names[i], Version: uint64(i + 1), Queue: []byte("queue of " + names[i])}, "one of nearly equal names")
		}
		e.put(s, write("A", 2, 100, "of A"))
		e.is("a", 1, "queue of a", "a, after a write of A")
		for i := range names {
			writes = append(writes[:i], write(names[i], e.row(names[i]).Version, 200+uint64(i), "again "+names[i]))
		}
		e.put(s, writes...)
	}},

	{"names/longest are kept whole", func(e *lockEnv) {
		s := e.open()
		long := strings.Repeat("x", store.MaxName-1)
		e.put(s, write(long+"1", 0, 1, "first"))
		e.put(s, write(long+"2", 0, 1, "second"), write(long, 0, 1, "third"))
		e.put(s, write(long+"1", 1, 2, "fourth"), write(long+"2", 1, 2, "fifth"))
		e.is(long, 1, "third", "a name that others begin with")
	}},

	{"names/that cannot be", func(e *lockEnv) {
		s := e.open()
		server := e.server()
		for _, name := range []string{
			"", " ", "a b", "a ", " a", "-a", ".a", "é", "a\x00", "a\n", "a'", `a"`, "a%", `a\`, "a?", "\xff", strings.Repeat("x", store.MaxName+1),
		} {
			for _, expect := range []uint64{0, 1} {
				_, err := s.WriteLocks(e.ctx(), server, []store.LockWrite{write(one, 0, 1, "x"), write(name, expect, 2, "x")})
				if err == nil {
					e.Errorf("WriteLocks of the name %.40q over %d: no error", name, expect)
				}
			}
		}
		e.is(one, 0, "", "a lock beside a name that cannot be")
	}},
}
