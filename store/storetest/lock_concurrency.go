package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/cronlease/cronlease/store"
)

// contenders is how many connections work at once.
const lockContenders = 8

func (e *lockEnv) processes() []store.Locks {
	e.Helper()
	stores := make([]store.Locks, lockContenders)
	for i := range stores {
		stores[i] = e.open()
	}
	return stores
}

// together runs f for all stores concurrently, and waits for all.
func (e *lockEnv) together(stores []store.Locks, f func(i int, s store.Locks)) {
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i, s := range stores {
		all.Go(func() {
			<-begin
			f(i, s)
		})
	}
	close(begin)
	all.Wait()
}

// tryWrite is for goroutines, which cannot end the case.
func (e *lockEnv) tryWrite(s store.Locks, server string, writes ...store.LockWrite) []bool {
	done, err := s.WriteLocks(e.ctx(), server, writes)
	if err != nil || len(done) != len(writes) {
		e.Errorf("WriteLocks of %d rows beside others: %d answers, error %v", len(writes), len(done), err)
		return make([]bool, len(writes))
	}
	return done
}

// winners collects the writes that were reported as done, by row and version.
type winners struct {
	*lockEnv
	mu sync.Mutex
	of map[string]map[uint64][]string // by name and version, the queues
}

func (e *lockEnv) winners() *winners {
	return &winners{lockEnv: e, of: map[string]map[uint64][]string{}}
}

func (w *winners) add(writes []store.LockWrite, done []bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, one := range writes {
		if !done[i] {
			continue
		}
		if w.of[one.Name] == nil {
			w.of[one.Name] = map[uint64][]string{}
		}
		w.of[one.Name][one.Version] = append(w.of[one.Name][one.Version], string(one.Queue))
	}
}

// check fails the case if two writes won the same version, or if the newest row is
// not that of the write which won its version.
func (w *winners) check(names ...string) {
	w.Helper()
	rows := w.read(w.watch, names...).Rows
	for i, name := range names {
		for version, queues := range w.of[name] {
			if len(queues) > 1 {
				w.Errorf("version %d of %q was won by %d: %.40q", version, name, len(queues), queues)
			}
			if version > rows[i].Version {
				w.Errorf("version %d of %q was won, and the row is %s", version, name, showLock(rows[i]))
			}
			if version == rows[i].Version && queues[0] != string(rows[i].Queue) {
				w.Errorf("version %d of %q was won with the queue %q, and the row is %s", version, name, queues[0], showLock(rows[i]))
			}
		}
	}
}

var lockConcurrencyCases = []lockCase{
	{"concurrency/eight write the same rows, one wins each", func(e *lockEnv) {
		stores, server := e.processes(), e.server()
		names := []string{"a", "b", "c", "d", "e"}
		for _, name := range names {
			e.put(stores[0], write(name, 0, 1, "first"))
		}
		for round := range uint64(e.h.times(50)) {
			w := e.winners()
			e.together(stores, func(i int, s store.Locks) {
				var writes []store.LockWrite
				for _, name := range names {
					writes = append(writes, write(name, round+1, round+2, fmt.Sprint("of ", i)))
				}
				rand.Shuffle(len(writes), func(i, j int) { writes[i], writes[j] = writes[j], writes[i] })
				w.add(writes, e.tryWrite(s, server, writes...))
			})
			for _, name := range names {
				if n := len(w.of[name][round+2]); n != 1 {
					e.Fatalf("version %d of %q was won by %d of %d", round+2, name, n, len(stores))
				}
			}
			w.check(names...)
		}
	}},

	{"concurrency/eight write the same row, each version is won once", func(e *lockEnv) {
		stores, server := e.processes(), e.server()
		w := e.winners()
		e.together(stores, func(i int, s store.Locks) {
			for n := 0; n < e.h.times(25); {
				r, err := s.ReadLocks(e.ctx(), one)
				if err != nil || len(r.Rows) != 1 {
					e.Errorf("ReadLocks: %d rows, error %v", len(r.Rows), err)
					return
				}
				next := write(one, r.Rows[0].Version, r.Rows[0].Version+1, fmt.Sprint("of ", i))
				done := e.tryWrite(s, server, next)
				w.add([]store.LockWrite{next}, done)
				if done[0] {
					n++
				}
				if e.Failed() || e.ctx().Err() != nil {
					return
				}
			}
		})
		w.check(one)
		e.equal(e.row(one).Version, uint64(lockContenders*e.h.times(25)), "version after so many writes")
		e.equal(len(w.of[one]), lockContenders*e.h.times(25), "versions that were won")
	}},

	{"concurrency/eight write new rows, one wins each", func(e *lockEnv) {
		stores, server := e.processes(), e.server()
		for round := range e.h.times(50) {
			w := e.winners()
			names := []string{fmt.Sprint("a", round), fmt.Sprint("b", round), fmt.Sprint("c", round)}
			e.together(stores, func(i int, s store.Locks) {
				var writes []store.LockWrite
				for _, name := range names {
					writes = append(writes, write(name, 0, 1, fmt.Sprint("of ", i)))
				}
				writes = slices.Delete(writes, i%3, i%3+1)
				rand.Shuffle(len(writes), func(i, j int) { writes[i], writes[j] = writes[j], writes[i] })
				w.add(writes, e.tryWrite(s, server, writes...))
			})
			w.check(names...)
			won := 0
			for _, row := range e.read(e.watch, names...).Rows {
				n := len(w.of[row.Name][1])
				if won += n; row.Version > 0 && n == 0 {
					e.Fatalf("the row is %s, but no writer was told that it wrote it", showLock(row))
				}
			}
			if won == 0 {
				e.Fatalf("none of %d writers of new rows has written one", len(stores))
			}
		}
	}},

	{"concurrency/eight write all sorts", func(e *lockEnv) {
		stores, server := e.processes(), e.server()
		w := e.winners()
		var names []string
		for i := range 20 {
			names = append(names, fmt.Sprint("lock", i))
		}
		e.together(stores, func(i int, s store.Locks) {
			for n := range e.h.times(50) {
				mine := slices.Clone(names)
				rand.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
				mine = mine[:1+rand.IntN(10)]
				r, err := s.ReadLocks(e.ctx(), mine...)
				if err != nil || len(r.Rows) != len(mine) {
					e.Errorf("ReadLocks: %d rows, error %v", len(r.Rows), err)
					return
				}
				var writes []store.LockWrite
				for _, row := range r.Rows {
					writes = append(writes, write(row.Name, row.Version, row.Version+1, fmt.Sprint("of ", i, " in ", n)))
				}
				w.add(writes, e.tryWrite(s, server, writes...))
			}
		})
		w.check(names...)
		for _, row := range e.read(e.watch, names...).Rows {
			if row.Version == 0 {
				e.Errorf("row %q was never written", row.Name)
			}
		}
	}},

	{"concurrency/several rows are written and read as one", func(e *lockEnv) {
		s, reader := e.open(), e.open()
		server, names := e.server(), []string{"a", "b", "c", "d", "e"}
		for _, name := range names {
			e.put(s, write(name, 0, 1, "queue 1"))
		}
		written := make(chan struct{})
		go func() {
			defer close(written)
			for n := range uint64(e.h.times(250)) {
				var writes []store.LockWrite
				for _, name := range names {
					writes = append(writes, write(name, n+1, n+2, fmt.Sprint("queue ", n+2)))
				}
				slices.Reverse(writes)
				if done := e.tryWrite(s, server, writes...); slices.Contains(done, false) {
					e.Errorf("WriteLocks of rows that no other client writes: %t", done)
					return
				}
			}
		}()
		defer func() { <-written }() // also when a reading ends the case
		for over := false; !over; {
			select {
			case <-written:
				over = true
			default:
			}
			rows := e.read(reader, names...).Rows
			for _, row := range rows {
				if row.Version != rows[0].Version || string(row.Queue) != fmt.Sprint("queue ", row.Version) {
					e.Fatalf("in one reading: %s and %s", showLock(rows[0]), showLock(row))
				}
			}
		}
	}},

	{"concurrency/a row is pruned or written", func(e *lockEnv) {
		s, pruner := e.open(), e.open()
		server := e.server()
		for round := range e.h.times(100) {
			name, first := fmt.Sprint("lock", round), 1+10*uint64(round)
			e.put(s, write(name, 0, first, ""))
			var done []bool
			e.together([]store.Locks{s, pruner}, func(i int, s store.Locks) {
				if i == 0 {
					done = e.tryWrite(s, server, write(name, first, first+1, "holder"))
					return
				}
				if _, err := s.PruneLocks(e.ctx(), 0, 100); err != nil {
					e.Errorf("PruneLocks beside a write: %v", err)
				}
			})
			switch row := e.row(name); {
			case done[0]:
				e.is(name, first+1, "holder", "a row that was written while idle ones were pruned")
			case row.Version != 0:
				e.Errorf("a row that was neither written nor pruned: %s", showLock(row))
			}
		}
	}},

	// A statement that expects no row, and is older than the row that is pruned.
	{"concurrency/a row is pruned while a late statement inserts it", func(e *lockEnv) {
		s, pruner, late := e.open(), e.open(), e.open()
		server := e.server()
		for round := range e.h.times(100) {
			name, version := fmt.Sprint("lock", round), 5+10*uint64(round)
			e.put(s, write(name, 0, version, ""))
			e.together([]store.Locks{late, pruner}, func(i int, s store.Locks) {
				if i == 0 {
					for range 3 {
						e.tryWrite(s, server, write(name, 0, version-1, "holder"))
					}
					return
				}
				if _, err := s.PruneLocks(e.ctx(), 0, 100); err != nil {
					e.Errorf("PruneLocks beside a write: %v", err)
				}
			})
			if row := e.row(name); row.Version == version-1 {
				e.Errorf("a row that was pruned came back as it was before: %s", showLock(row))
			}
		}
	}},

	{"concurrency/one store for all", func(e *lockEnv) {
		shared, server := e.open(), e.server()
		stores := make([]store.Locks, lockContenders)
		for i := range stores {
			stores[i] = shared
		}
		e.together(stores, func(i int, s store.Locks) {
			for n := range uint64(e.h.times(25)) {
				w := write(fmt.Sprint("lock", i), n, n+1, fmt.Sprint("queue ", i, " ", n))
				if !e.tryWrite(s, server, w)[0] {
					e.Errorf("WriteLocks of a row that no other client writes was not done")
					return
				}
				r, err := s.ReadLocks(e.ctx(), w.Name)
				if err != nil || len(r.Rows) != 1 || !sameRow(r.Rows[0], written(w)) {
					e.Errorf("ReadLocks: %+v, error %v, want %s", r.Rows, err, showLock(written(w)))
					return
				}
			}
		})
	}},
}
