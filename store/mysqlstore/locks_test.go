package mysqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/rounds"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/locks"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/storetest"
)

func TestLocksConformance(t *testing.T) {
	t.Parallel()
	dbtest.EachDialect(t, func(t *testing.T, db dbtest.Database) {
		for _, variant := range rounds.Pick(t, []variant{variants[0], variants[2]}, 1) {
			t.Run(variant.name, func(t *testing.T) {
				t.Parallel()
				locksConform(t, variant, func(t testing.TB) dbtest.Database { return dbtest.Fresh(t, db.Kind) })
			})
		}
	})
}

func locksConform(t *testing.T, variant variant, fresh func(testing.TB) dbtest.Database) {
	t.Helper()
	databases := &emptied{fresh: fresh, parent: t}
	storetest.Locks(t, func(t testing.TB) storetest.Harness {
		empty := databases.take(t)
		t.Cleanup(func() { exec(t, empty.Open(t), "DELETE FROM cronlease_lock") })
		return storetest.Harness{Open: func(t testing.TB) store.Leases { return variant.open(t, empty) }}
	})
}

// replace is a write of a row.
func replace(name string, expect uint64, queue string) store.LockWrite {
	return store.LockWrite{Name: name, Expect: expect, Version: expect + 1, Queue: []byte(queue)}
}

// patient is a write that waits while another transaction has locked the row.
func patient(w store.LockWrite) store.LockWrite {
	w.Wait = true
	return w
}

func readLocks(t testing.TB, s store.Locks, names ...string) store.LockReading {
	t.Helper()
	r, err := s.ReadLocks(soon(t), names...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// writeLocks writes, and says which of them were done.
func writeLocks(t testing.TB, s store.Locks, writes ...store.LockWrite) string {
	t.Helper()
	done, err := s.WriteLocks(soon(t), readLocks(t, s, "a").Server, writes)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(done)
}

// rows shows rows of locks.
func rows(t testing.TB, s store.Locks, names ...string) string {
	t.Helper()
	var all []string
	for _, row := range readLocks(t, s, names...).Rows {
		all = append(all, fmt.Sprintf("%s %d %s", row.Name, row.Version, row.Queue))
	}
	return strings.Join(all, ", ")
}

func isEqual(t testing.TB, got, want any, what string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// fenced holds the row of a lock, as work does that is fenced by it, until the
// returned function is called.
func fenced(t testing.TB, db dbtest.Database, name string) (end func()) {
	t.Helper()
	return lockRow(t, db, "SELECT name FROM cronlease_lock WHERE name = '"+name+"' LOCK IN SHARE MODE")
}

func TestFencedWorkDelaysOnlyItsLock(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		isEqual(t, writeLocks(t, s, replace("a", 0, "1"), replace("b", 0, "1"), replace("c", 0, "1"), replace("d", 0, "1")), "[true true true true]", "new rows")
		end := fenced(t, db, "b")
		isEqual(t, writeLocks(t, s, replace("c", 1, "2"), replace("b", 1, "2"), replace("a", 1, "2"), replace("d", 9, "2")), "[true false true false]", "beside fenced work")
		isEqual(t, rows(t, s, "a", "b", "c", "d"), "a 2 2, b 1 1, c 2 2, d 1 1", "rows")
		isEqual(t, writeLocks(t, s, replace("b", 1, "2")), "[false]", "the fenced lock alone")
		isEqual(t, writeLocks(t, s, replace("b", 1, "2"), replace("new", 0, "1"), replace("a", 2, "3")), "[false true true]", "beside a new row")
		also := fenced(t, db, "d")
		isEqual(t, writeLocks(t, s, replace("a", 3, "4"), replace("b", 1, "2"), replace("d", 1, "2"), replace("c", 2, "3")), "[true false false true]", "beside two of them")
		also()
		end()
		isEqual(t, writeLocks(t, s, replace("b", 1, "2"), replace("d", 1, "2")), "[true true]", "after fenced work")
		isEqual(t, rows(t, s, "a", "b", "c", "d", "new"), "a 4 4, b 2 2, c 3 3, d 2 2, new 1 1", "rows")
	})
}

// A write that asks to wait does so for a transaction that ends soon enough.
func TestWriteLocksWaitsForFencedWork(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		writeLocks(t, s, replace("a", 0, "1"), replace("b", 0, "1"))
		end, isWaiting := fenced(t, db, "a"), waits(t, db, "UPDATE")
		done := make(chan string)
		go func() { done <- writeLocks(t, s, patient(replace("a", 1, "2"))) }()
		eventually(t, "the write waits", isWaiting)
		isEqual(t, writeLocks(t, s, replace("a", 1, "3"), replace("b", 1, "2")), "[false true]", "others meanwhile")
		end()
		isEqual(t, <-done, "[true]", "after the work has ended")
	})
}

// Work that looked for a row which is not there, because its lock was lost and
// pruned, may keep new rows out of the gap: they are not written, and the others
// are.
func TestFencedWorkWithoutRowDelaysOnlyNewLocks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		writeLocks(t, s, replace("a", 0, "1"), replace("z", 0, "1"))
		tx, err := db.Open(t).BeginTx(soon(t), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		var found int
		if err := tx.QueryRowContext(soon(t), "SELECT COUNT(*) FROM cronlease_lock WHERE name = 'lost' LOCK IN SHARE MODE").Scan(&found); err != nil || found != 0 {
			t.Fatalf("%d rows, %v", found, err)
		}
		isEqual(t, writeLocks(t, s, replace("new", 0, "1"), replace("a", 1, "2")), "[false true]", "beside work that found no row")
		isEqual(t, rows(t, s, "new", "a"), "new 0 , a 2 2", "rows")
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		isEqual(t, writeLocks(t, s, replace("new", 0, "1"), replace("a", 2, "3")), "[true true]", "after that")
	})
}

// Statements that lock rows in one order do not deadlock: each locks them by
// name, in whatever order it was asked.
func TestWriteLocksLocksByName(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, statement, hold string
		expect                uint64
	}{
		{"new rows", "INSERT INTO `cronlease_lock`", "INSERT INTO cronlease_lock (name, version, queue, written_at) VALUES ('m', 1, 'x', UTC_TIMESTAMP(6))", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
				s := migrated(t, db.DSN)
				pool := db.Open(t)
				if test.expect > 0 {
					writeLocks(t, s, replace("a", 0, "1"), replace("m", 0, "1"), replace("z", 0, "1"))
				}
				isWaiting := waits(t, db, test.statement)
				look := conn(t, pool)
				isFree := func(name string) bool {
					var found string
					err := look.QueryRowContext(soon(t), "SELECT name FROM cronlease_lock WHERE name = '"+name+"' FOR UPDATE NOWAIT").Scan(&found)
					if number := new(mysql.MySQLError); err != nil && !errors.Is(err, sql.ErrNoRows) && !errors.As(err, &number) {
						t.Error(err)
					}
					return err == nil || errors.Is(err, sql.ErrNoRows)
				}
				server := readLocks(t, s, "a").Server
				for _, order := range [][]string{{"z", "m", "a"}, {"a", "m", "z"}} {
					tx, err := pool.BeginTx(soon(t), nil)
					if err != nil {
						t.Fatal(err)
					}
					exec(t, tx, test.hold)
					var writes []store.LockWrite
					for _, name := range order {
						writes = append(writes, replace(name, test.expect, "2"))
					}
					ctx, cancel := context.WithCancel(soon(t))
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						_, _ = s.WriteLocks(ctx, server, writes) // it is of no interest how it ends
					}()
					// The list of processes shows a statement before it has begun.
					eventually(t, "the write has the first row, and waits", func() bool { return isWaiting() && !isFree("a") })
					if !isFree("z") && isWaiting() {
						t.Error("while the row in the middle is waited for, the last row is locked")
					}
					cancel()
					<-ended
					if err := tx.Rollback(); err != nil {
						t.Fatal(err)
					}
					eventually(t, "the write ends", func() bool { return !isWaiting() })
					exec(t, pool, "DELETE FROM cronlease_lock")
					if test.expect > 0 {
						writeLocks(t, s, replace("a", 0, "1"), replace("m", 0, "1"), replace("z", 0, "1"))
					}
				}
			})
		})
	}
}

func TestReadLocksWaitsForNobody(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		writeLocks(t, s, replace("a", 0, "1"), replace("b", 0, "1"))
		tx, err := db.Open(t).BeginTx(soon(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		exec(t, tx, "UPDATE cronlease_lock SET version = 99, queue = 'x'")
		exec(t, tx, "INSERT INTO cronlease_lock (name, version, queue, written_at) VALUES ('c', 99, 'x', UTC_TIMESTAMP(6))")
		isEqual(t, rows(t, s, "a", "b", "c"), "a 1 1, b 1 1, c 0 ", "rows with uncommitted changes")
	})
}

// A write whose client gave up waits on in the server, and is carried out when
// the row is free, or is not: a reader of the row sees no difference.
func TestWriteLocksThatAppliesLate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		writeLocks(t, s, replace("a", 0, "1"), replace("b", 0, "1"))
		server := readLocks(t, s, "a").Server
		end, isWaiting := fenced(t, db, "a"), waits(t, db, "UPDATE")
		ctx, cancel := context.WithCancel(soon(t))
		result := make(chan error)
		go func() {
			_, err := s.WriteLocks(ctx, server, []store.LockWrite{patient(replace("a", 1, "2"))})
			result <- err
		}()
		eventually(t, "the write waits", isWaiting)
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
		end()
		eventually(t, "the write ends", func() bool { return !isWaiting() })
		version := readLocks(t, s, "a").Rows[0].Version
		isEqual(t, writeLocks(t, s, replace("a", version, "3")), "[true]", "after a write that came late or not")
		isEqual(t, rows(t, s, "a", "b"), fmt.Sprintf("a %d 3, b 1 1", version+1), "rows")
	})
}

func TestLocksLostReplies(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		direct := migrated(t, db.DSN)
		proxy := dbtest.NewProxy(t, db.Config(t).Addr)
		s := open(t, with(t, db, func(c *mysql.Config) { c.Addr = proxy.Addr() }))
		server := readLocks(t, s, "a").Server
		for _, step := range []struct {
			statement string
			writes    []store.LockWrite
			want      string
		}{
			{"INSERT INTO `cronlease_lock`", []store.LockWrite{replace("a", 0, "1"), replace("b", 0, "1")}, "a 1 1, b 1 1"},
			{"UPDATE", []store.LockWrite{replace("a", 1, "2")}, "a 2 2, b 1 1"},
			{"UPDATE", []store.LockWrite{replace("a", 2, "3"), replace("b", 1, "3")}, "a 3 3, b 2 3"},
			// Which of two was written is read back, and that reply is lost.
			{"SELECT name, version, queue", []store.LockWrite{replace("a", 3, "4"), replace("b", 9, "4")}, "a 4 4, b 2 3"},
		} {
			lost := proxy.DropReply(step.statement)
			if done, err := s.WriteLocks(soon(t), server, step.writes); err == nil {
				t.Errorf("%s whose reply is lost: %t, want an error", step.statement, done)
			}
			isLost(t, lost)
			isEqual(t, rows(t, direct, "a", "b"), step.want, "rows after the reply to "+step.statement+" was lost")
		}
		lost := proxy.DropRequest("UPDATE")
		if done, err := s.WriteLocks(soon(t), server, []store.LockWrite{replace("a", 4, "x"), replace("b", 2, "x")}); err == nil {
			t.Errorf("a write that was lost: %t, want an error", done)
		}
		isLost(t, lost)
		isEqual(t, rows(t, direct, "a", "b"), "a 4 4, b 2 3", "rows after a write was lost")
		// What only reads repeats itself, if the connection was a good one.
		readLocks(t, s, "a")
		lost = proxy.DropReply("SELECT name, version, queue")
		isEqual(t, rows(t, s, "a", "b"), "a 4 4, b 2 3", "rows")
		isLost(t, lost)
	})
}

// A reading has the database's clock also where it has no rows.
func TestClockWithoutRows(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		exec(t, db.Open(t), "DELETE FROM cronlease_lock")
		r := readLocks(t, s, "a")
		if off := time.Since(r.Now).Abs(); off > time.Minute {
			t.Errorf("the clock of a reading without rows is off by %v", off)
		}
		isEqual(t, r.Floor, uint64(0), "floor")
	})
}

// isLost says that what was to be lost has come and gone.
func isLost(t testing.TB, lost <-chan struct{}) {
	t.Helper()
	select {
	case <-lost:
	case <-time.After(patience):
		t.Fatal("the statement whose reply was to be lost was not sent")
	}
}

func TestLocksNeedConnectionsOfAPool(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		pool := db.Open(t)
		s := openOn(t, pool)
		for most, works := range map[int]bool{10: false, 11: true, 0: true} {
			pool.SetMaxOpenConns(most)
			calls := map[string]func() error{
				"ReadLocks":  func() error { _, err := s.ReadLocks(soon(t), "a"); return err },
				"WriteLocks": func() error { _, err := s.WriteLocks(soon(t), "x", []store.LockWrite{replace("a", 0, "")}); return err },
				"HeldLocks":  func() error { _, err := s.HeldLocks(soon(t), time.Hour, "", 1); return err },
				"PruneLocks": func() error { _, err := s.PruneLocks(soon(t), time.Hour, 1); return err },
				"PruneSessions": func() error {
					_, err := s.PruneSessions(soon(t), "x", time.Hour, time.Hour, 1)
					return err
				},
			}
			for what, call := range calls {
				err := call()
				if works && err != nil || !works && (!errors.Is(err, lease.ErrSetup) || !strings.Contains(err.Error(), "at least 11")) {
					t.Errorf("%s in a pool of %d: %v", what, most, err)
				}
			}
		}
	})
}

// Locks, several groups and requests leave the caller of a pool its last connection, in whichever order they come.
func TestGroupsAndLocksLeaveAConnection(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		for most, waits := range map[int]bool{12: false, 13: true} {
			pool := db.Open(t)
			pool.SetMaxOpenConns(most)
			s := openOn(t, pool)
			h := holder(t, s, uniqueName("jobs"), "me")
			var busy sync.WaitGroup // before there is anything else, the ledger takes all that it may
			for range 20 {
				busy.Go(func() { _, _ = s.Load(soon(t), h.Group) })
			}
			busy.Wait()
			requests := s.RequestSignal(h.Group, h.Token)
			waiting := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			go func() { waiting <- requests.Wait(ctx, nil) }()
			<-time.After(200 * time.Millisecond)
			for range 3 {
				signal := s.HandoverSignal(uniqueName("group"))
				obtain(t, signal)
				defer closeSignal(t, signal)
			}
			writeLocks(t, s, replace("a", 0, "mark"))
			notifier := openNotifier(t, s)
			at := address(t, notifier)
			woken := waitFor(t, notifier, "a", "mark")
			eventually(t, "the notifier sleeps", sleeps(t, db, at))
			stop := make(chan struct{})
			work := func(f func()) {
				busy.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							f()
						}
					}
				})
			}
			for i := range 4 {
				work(func() { _, _ = s.ReadLocks(soon(t), "a") })
				work(func() { _, _ = s.Read(soon(t), fmt.Sprint("group", i)) })
				work(func() { _, _ = s.Load(soon(t), h.Group) })
			}
			for range 20 {
				if err := pool.PingContext(soon(t)); err != nil {
					t.Errorf("in a pool of %d: %v: %+v", most, err, pool.Stats())
					break
				}
			}
			close(stop)
			busy.Wait()
			select {
			case err := <-waiting:
				if waits || err == nil {
					t.Errorf("in a pool of %d, the wait for requests ended: %v", most, err)
				}
			default:
				if !waits {
					t.Errorf("in a pool of %d, something waits for requests", most)
				}
			}
			notify(t, s.Notifier(), at)
			isWoken(t, woken, "a notification")
			cancel()
			if err := requests.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// All of the store works in the smallest pool, with a notifier that waits.
func TestLocksLeaveConnectionsOfAPool(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		pool := db.Open(t)
		pool.SetMaxOpenConns(11)
		s := openOn(t, pool)
		first := s.HandoverSignal("billing")
		obtain(t, first)
		writeLocks(t, s, replace("a", 0, "mark"))
		notifier := openNotifier(t, s)
		at := address(t, notifier)
		woken := waitFor(t, notifier, "a", "mark")
		eventually(t, "the notifier sleeps", sleeps(t, db, at))
		results := make(chan error, 20)
		for i := range 10 {
			go func() {
				_, err := s.ReadLocks(soon(t), "a")
				results <- err
			}()
			go func() {
				_, err := s.Read(soon(t), fmt.Sprint("group", i))
				results <- err
			}()
		}
		for range 20 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		take(t, s, "billing", "me")
		openJobs(t, s, holder(t, s, "other", "me"), "report")
		if err := pool.PingContext(soon(t)); err != nil {
			t.Error(err)
		}
		notify(t, s.Notifier(), at)
		isWoken(t, woken, "a notification")
		closeSignal(t, first)
	})
}

// Pruning looks first and deletes then; what is being written in between stays,
// and is not waited for.
func TestPruneLocksLeavesWhatWasWrittenMeanwhile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, change, query, want string }{
		{"a lock that was taken", "UPDATE cronlease_lock SET version = 2, queue = 'x' WHERE name = 'a'", "SELECT COUNT(*) FROM cronlease_lock WHERE name <> ''", "1"},
		{"a session that was taken over", "UPDATE cronlease_lease l, cronlease_fence f SET l.token = l.token + 1, f.token = f.token + 1, l.renewed_at = UTC_TIMESTAMP(6)",
			"SELECT (SELECT COUNT(*) FROM cronlease_lease) * 10 + (SELECT COUNT(*) FROM cronlease_fence)", "11"},
		{"a session that was renewed", "UPDATE cronlease_lease SET heartbeat = heartbeat + 1, renewed_at = UTC_TIMESTAMP(6)",
			"SELECT (SELECT COUNT(*) FROM cronlease_lease) * 10 + (SELECT COUNT(*) FROM cronlease_fence)", "11"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
				s := migrated(t, db.DSN)
				pool := db.Open(t)
				if strings.Contains(test.change, "lock") {
					writeLocks(t, s, replace("a", 0, ""))
				} else {
					take(t, s, "locks/a", "me")
				}
				exec(t, pool, "UPDATE cronlease_lock SET written_at = UTC_TIMESTAMP(6) - INTERVAL 2 HOUR WHERE name <> ''")
				exec(t, pool, "UPDATE cronlease_lease SET renewed_at = UTC_TIMESTAMP(6) - INTERVAL 2 HOUR")
				tx, err := pool.BeginTx(soon(t), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = tx.Rollback() }()
				exec(t, tx, test.change)
				if _, err := s.PruneLocks(soon(t), time.Hour, 100); err != nil {
					t.Error(err)
				}
				if _, err := s.PruneSessions(soon(t), "locks/", time.Hour, time.Hour, 100); err != nil {
					t.Error(err)
				}
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
				isEqual(t, fmt.Sprint(count(t, pool, test.query)), test.want, "rows that are left")
			})
		})
	}
}

// A new row is compared with the floor under a lock that lasts as long as the
// statement: a pruner that raises the floor before it deletes rows waits for it.
func TestFloorIsRaisedAfterInserts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s, pruner := migrated(t, db.DSN), open(t, db.DSN)
		pool := db.Open(t)
		for rounds, tries := [][]string{{"new"}, {"another", "new"}}, 20; len(rounds) > 0; {
			names := rounds[0]
			exec(t, pool, "DELETE FROM cronlease_lock WHERE name <> ''")
			exec(t, pool, "INSERT INTO cronlease_lock (name, version, queue, written_at) VALUES ('idle', 5, '', '2020-01-01')")
			exec(t, pool, "UPDATE cronlease_lock SET version = 0 WHERE name = ''")
			writes := make([]store.LockWrite, len(names))
			for i, name := range names {
				writes[i] = replace(name, 0, "1")
			}
			tx, err := pool.BeginTx(soon(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			exec(t, tx, "INSERT INTO cronlease_lock (name, version, queue, written_at) VALUES ('new', 1, 'x', UTC_TIMESTAMP(6))")
			isWaiting, raises := waits(t, db, "INSERT INTO `cronlease_lock`%WITH v%"), waits(t, db, "INSERT INTO `cronlease_lock`%floor%")
			written := make(chan string, 1)
			go func() { written <- writeLocks(t, s, writes...) }()
			eventually(t, "the insert waits for another one of its name", isWaiting)
			pruned := make(chan error, 1)
			go func() {
				_, err := pruner.PruneLocks(soon(t), time.Hour, 100)
				pruned <- err
			}()
			// An insert waits for a second. On a busy machine that is over before all is seen: then once more.
			inTime := false
			eventually(t, "the floor is waited for, or the insert is over", func() bool {
				inTime = raises()
				return inTime || len(written) > 0
			})
			idle := count(t, pool, "SELECT COUNT(*) FROM cronlease_lock WHERE name = 'idle'")
			if inTime = inTime && isWaiting(); inTime {
				isEqual(t, idle, 1, "idle rows before the floor is raised")
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			done := <-written
			if err := <-pruned; err != nil {
				t.Error(err)
			}
			if !inTime || strings.Contains(done, "false") {
				if tries--; tries == 0 {
					t.Fatalf("the insert never waits until the floor is waited for, and is then done: %s", done)
				}
				continue
			}
			rounds = rounds[1:]
			isEqual(t, fmt.Sprint(readLocks(t, s, "a").Floor), "5", "the floor")
			isEqual(t, count(t, pool, "SELECT COUNT(*) FROM cronlease_lock WHERE name = 'idle'"), 0, "idle rows after that")
		}
	})
}

// Queues of any length are written by one statement as they are.
func TestLongQueuesOfNewLocks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		long := strings.Repeat("x", 300<<10)
		isEqual(t, writeLocks(t, s, replace("a", 0, "short"), replace("b", 0, long), replace("c", 0, "é"+long)), "[true true true]", "new rows")
		isEqual(t, rows(t, s, "a", "b", "c"), "a 1 short, b 1 "+long+", c 1 é"+long, "rows")
	})
}

// A program of schema version 3 inserts rows without a look at the floor. When the
// clock was set back since a row of that name was pruned, the new row is below the
// tokens that were given; the next one that is given is above them all the same.
func TestRowBelowTheFloor(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		pool := db.Open(t)
		ahead := uint64(time.Now().Add(time.Hour).UnixMicro()) // the last token, before the clock was set back
		exec(t, pool, fmt.Sprintf("INSERT INTO cronlease_lock (name, version, queue, written_at) VALUES ('a', %d, '', '2020-01-01')", ahead))
		if n, err := s.PruneLocks(soon(t), time.Hour, 100); n != 1 || err != nil {
			t.Fatalf("%d rows pruned, %v", n, err)
		}
		exec(t, pool, "INSERT INTO cronlease_lock (name, version, queue, written_at) VALUES ('a', 5, '', UTC_TIMESTAMP(6))")
		client, err := locks.New(s)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := client.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}()
		lock, err := client.Mutex("a").Lock(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		if lock.Token() <= ahead {
			t.Errorf("token %d, after one of %d", lock.Token(), ahead)
		}
		if err := lock.Unlock(soon(t)); err != nil {
			t.Error(err)
		}
	})
}

// Without its floor, as after a partial restore, the table works on.
func TestFloorThatWasDeleted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		pool := db.Open(t)
		exec(t, pool, "DELETE FROM cronlease_lock")
		isEqual(t, writeLocks(t, s, replace("a", 0, ""), replace("b", 0, "x")), "[true true]", "new rows")
		exec(t, pool, "DELETE FROM cronlease_lock WHERE name = ''")
		if n, err := s.PruneLocks(soon(t), -time.Hour, 100); n != 1 || err != nil {
			t.Errorf("%d rows pruned, %v", n, err)
		}
		isEqual(t, fmt.Sprint(readLocks(t, s, "a").Floor), "1", "the floor")
		isEqual(t, writeLocks(t, s, replace("a", 0, "")), "[false]", "a row that was pruned")
	})
}

func TestPruneLocksNeedsDelete(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		exec(t, db.Open(t), "INSERT INTO cronlease_lock (name, version, queue, written_at) VALUES ('a', 1, '', '2020-01-01')")
		var grants []string
		for _, grant := range leastGrants {
			grants = append(grants, strings.Replace(grant, ", DELETE", "", 1))
		}
		s := open(t, userDSN(t, db, uniqueName("u"), grants...))
		isEqual(t, writeLocks(t, s, replace("b", 0, ""), replace("c", 0, "")), "[true true]", "without the privilege DELETE")
		isEqual(t, writeLocks(t, s, replace("b", 1, "x"), replace("c", 1, "x")), "[true true]", "without the privilege DELETE")
		if _, err := s.PruneLocks(soon(t), time.Hour, 100); !errors.Is(err, lease.ErrSetup) {
			t.Errorf("PruneLocks without the privilege DELETE: %v", err)
		}
		exec(t, db.Open(t), "INSERT INTO cronlease_lease (name, owner, token, heartbeat, renewed_at, ttl_us, released, resign_asked) VALUES ('locks/a', 'x', 1, 1, '2020-01-01', 1, 1, 0)")
		if _, err := s.PruneSessions(soon(t), "locks/", time.Hour, time.Hour, 100); !errors.Is(err, lease.ErrSetup) {
			t.Errorf("PruneSessions without the privilege DELETE: %v", err)
		}
	})
}

// running returns the statement that a connection runs, once there is one that
// begins so.
func runningStatement(t testing.TB, db dbtest.Database, begins string) string {
	t.Helper()
	admin := db.Open(t)
	var statement string
	eventually(t, "a statement that begins with "+begins, func() bool {
		return admin.QueryRowContext(soon(t), "SELECT info FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE ?", begins+"%").Scan(&statement) == nil
	})
	return statement
}

// Statements of locks find their rows by the key, however many there are. They
// are caught as they run, while they wait for a row or a notification.
func TestLockPlans(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		pool := db.Open(t)
		fillLocks(t, db, 10_000)
		exec(t, pool, "ANALYZE TABLE cronlease_lock")
		var many []store.LockWrite
		var watches []store.LockWatch
		for i := range 256 {
			many = append(many, replace(fmt.Sprintf("lock%04d", 3*i+1), 1, "x"))
			watches = append(watches, store.LockWatch{Name: many[i].Name, Mark: []byte("mark")})
		}
		server := readLocks(t, s, "a").Server
		end := fenced(t, db, many[0].Name)
		notifier := openNotifier(t, s)
		statements := map[string]string{}
		for _, run := range []struct {
			what, begins string
			do           func(context.Context) error
		}{
			{"write one", "UPDATE", func(ctx context.Context) error {
				_, err := s.WriteLocks(ctx, server, []store.LockWrite{patient(many[0])})
				return err
			}},
			{"wait", "SELECT IF(EXISTS(", func(ctx context.Context) error { return notifier.Wait(ctx, watches, patience/2) }},
		} {
			ctx, cancel := context.WithCancel(soon(t))
			result := make(chan error)
			go func() { result <- run.do(ctx) }()
			statements[run.what] = runningStatement(t, db, run.begins)
			cancel()
			<-result
			isRunning := waits(t, db, run.begins+"%cronlease_lock")
			eventually(t, "the statement ends", func() bool { return run.what == "wait" || !isRunning() })
		}
		end()
		statements["write many"] = s.UpdateLocks(many, false)
		_, statements["write many now"], _ = strings.Cut(s.UpdateLocks(many, true), " FOR\n") // there is no EXPLAIN SET STATEMENT
		statements["prune"] = s.DeleteLocks(many)
		c := conn(t, pool)
		for _, statement := range mysqlconn.SessionStatements(time.Second, "") {
			exec(t, c, statement)
		}
		for what, statement := range statements {
			if what == "wait" {
				// The servers look at such rows while they make the plan, and so
				// have none to show.
				statement = strings.Replace(statement, "15.000)", "0)", 1)
				if n := rowsRead(t, c, statement); n > 2*len(watches) {
					t.Errorf("%s: %d rows were read one after the other to look at %d", what, n, len(watches))
				}
				continue
			}
			most := map[string]int{"write many": len(many), "write many now": len(many), "prune": len(many)}[what]
			found := 0
			for _, plan := range explainPlan(t, c, statement) {
				if table := plan["table"]; table == "" || strings.HasPrefix(table, "<") || table == "v" {
					continue // rows of the statement itself
				}
				found++
				n, err := strconv.Atoi(plan["rows"])
				if err != nil || n > max(1, most) || plan["key"] != "PRIMARY" || plan["type"] == "ALL" || plan["type"] == "index" {
					t.Errorf("%s: %v", what, plan)
				}
			}
			isEqual(t, found, map[string]int{"write one": 1, "write many": 2, "write many now": 1, "prune": 2}[what], "steps of the plan of "+what)
		}
	})
}

// Pruning finds idle rows by their index, and released sessions by the key. Rows
// that are held are read page by page.
func TestPrunePlans(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		fillLocks(t, db, 10_000)
		exec(t, db.Open(t), "ANALYZE TABLE cronlease_lock")
		c := conn(t, db.Open(t))
		for _, statement := range mysqlconn.SessionStatements(time.Second, "") {
			exec(t, c, statement)
		}
		page := s.HeldRows(0, "lock5000", 100)
		for _, plan := range explainPlan(t, c, page) {
			if plan["key"] != "by_idle" || strings.Contains(fmt.Sprint(plan["Extra"]), "filesort") {
				t.Errorf("plan of %s: %v", page, plan)
			}
		}
		if n := rowsRead(t, c, "SELECT COUNT(*) FROM ("+page+") AS found"); n > 350 { // the page, and twice as a table of its own
			t.Errorf("%d rows were read to find 100: %s", n, page)
		}
		for statement, key := range map[string]string{s.IdleLocks(time.Second, 500): "by_idle", s.IdleSessions("locks/", 500): "PRIMARY"} {
			for _, plan := range explainPlan(t, c, statement) {
				if plan["key"] != key || plan["type"] != "range" {
					t.Errorf("plan of %s: %v", statement, plan)
				}
			}
			if n := rowsRead(t, c, "SELECT COUNT(*) FROM ("+statement+") AS found"); n > 10 {
				t.Errorf("%d rows were read to find none or one: %s", n, statement)
			}
		}
	})
}

// rowsRead is how many rows a query makes the server read without a key.
func rowsRead(t testing.TB, c *sql.Conn, query string) int {
	t.Helper()
	read := func() (sum int) {
		status, err := c.QueryContext(soon(t), "SHOW SESSION STATUS WHERE Variable_name IN ('Handler_read_first', 'Handler_read_next', 'Handler_read_prev', 'Handler_read_rnd', 'Handler_read_rnd_next')")
		if err != nil {
			t.Fatal(err)
		}
		defer status.Close()
		for status.Next() {
			var name string
			var n int
			if err := status.Scan(&name, &n); err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		if err := status.Err(); err != nil {
			t.Fatal(err)
		}
		return sum
	}
	first := read()
	before := read() // reading has a price too
	var answer int
	if err := c.QueryRowContext(soon(t), query).Scan(&answer); err != nil {
		t.Fatal(err)
	}
	return read() - before - (before - first)
}

// fillLocks makes n rows of locks. The first has neither holders nor waiters.
func fillLocks(t testing.TB, db dbtest.Database, n int) {
	t.Helper()
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("('lock%04d', 1, 'mark', UTC_TIMESTAMP(6))", i))
	}
	all[0] = strings.Replace(all[0], "mark", "", 1)
	exec(t, db.Open(t), "INSERT INTO cronlease_lock (name, version, queue, written_at) VALUES "+strings.Join(all, ","))
}
