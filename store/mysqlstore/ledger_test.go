package mysqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// holder takes the group's lease for a new term.
func holder(t testing.TB, s store.Leases, group, owner string) store.Holder {
	t.Helper()
	return store.Holder{Group: group, Owner: owner, Token: take(t, s, group, owner)}
}

// openJobs declares jobs of one schedule.
func openJobs(t testing.TB, s store.Ledger, h store.Holder, names ...string) {
	t.Helper()
	var declared []store.Declared
	for _, name := range names {
		declared = append(declared, store.Declared{Name: name, Schedule: "every 1m0s"})
	}
	if err := s.Declare(soon(t), h, declared); err != nil {
		t.Fatal(err)
	}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func tick(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }

func key(job string, n int) jobs.Key { return jobs.Key{Job: job, Tick: tick(n)} }

// running are claims of a job's ticks.
func running(job string, ticks ...int) []store.Claim {
	var claims []store.Claim
	for _, n := range ticks {
		claims = append(claims, store.Claim{Key: key(job, n), State: jobs.Running})
	}
	return claims
}

func id() (id store.ClaimID) {
	for i := range id {
		id[i] = byte(rand.N(256))
	}
	return id
}

// claim claims what must be new.
func claim(t testing.TB, s store.Ledger, h store.Holder, claims ...store.Claim) []jobs.Record {
	t.Helper()
	claimed, err := s.Claim(soon(t), h, id(), claims)
	if err != nil {
		t.Fatal(err)
	}
	var all []jobs.Record
	for _, c := range claimed {
		if !c.Mine {
			t.Fatalf("%v is claimed already: %+v", c.Key, c.Record)
		}
		all = append(all, c.Record)
	}
	return all
}

// to is a move of the record as it stands.
func to(r jobs.Record, state jobs.State) store.Move {
	return store.Move{Key: r.Key, From: r.State, Attempt: r.Attempt, Owner: r.Owner, Token: r.Token, To: state}
}

// move makes moves that must be made.
func move(t testing.TB, s store.Ledger, h store.Holder, moves ...store.Move) {
	t.Helper()
	done, err := s.Move(soon(t), h, moves)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(done, false) {
		t.Fatalf("moved: %v", done)
	}
}

func runs(t testing.TB, s store.Ledger, group string, filter jobs.Filter) []jobs.Record {
	t.Helper()
	all, err := s.Runs(soon(t), group, filter)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// run reads one run.
func run(t testing.TB, s store.Ledger, group string, k jobs.Key) jobs.Record {
	t.Helper()
	for _, r := range runs(t, s, group, jobs.Filter{Job: k.Job, Limit: 100_000}) {
		if r.Key == k {
			return r
		}
	}
	t.Fatalf("no run %v", k)
	return jobs.Record{}
}

func load(t testing.TB, s store.Ledger, group string) jobs.Snapshot {
	t.Helper()
	snapshot, err := s.Load(soon(t), group)
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

func changes(t testing.TB, s store.Ledger, group string) uint64 {
	t.Helper()
	n, err := s.Changes(soon(t), group)
	if err != nil {
		t.Fatal(err)
	}
	return n.Number
}

// writes are all statements of a holder, each on rows of its own.
func writes(s store.Ledger, waiting jobs.Record) map[string]func(context.Context, store.Holder) error {
	return map[string]func(context.Context, store.Holder) error{
		"INSERT INTO `cronlease_job`": func(ctx context.Context, h store.Holder) error {
			return s.Declare(ctx, h, []store.Declared{{Name: "new"}})
		},
		"SELECT owner, token FROM `cronlease_fence`": func(ctx context.Context, h store.Holder) error {
			return s.(store.Replicas).Gone(ctx, h, []string{"gone"})
		},
		"INSERT IGNORE": func(ctx context.Context, h store.Holder) error {
			claimed, err := s.Claim(ctx, h, id(), running("new", 1))
			if err == nil && !claimed[0].Mine {
				return fmt.Errorf("not mine: %+v", claimed)
			}
			return err
		},
		"UPDATE (": func(ctx context.Context, h store.Holder) error {
			done, err := s.Move(ctx, h, []store.Move{to(waiting, jobs.Failed)})
			if err == nil && !done[0] {
				return errors.New("not moved")
			}
			return err
		},
		"UPDATE (SELECT": func(ctx context.Context, h store.Holder) error {
			h.Assigns = true
			done, err := s.Move(ctx, h, []store.Move{to(waiting, jobs.Failed)})
			if err == nil && !done[0] {
				return errors.New("not moved by one that assigns")
			}
			return err
		},
	}
}

func TestOnlyTheHolderWrites(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		h := holder(t, s, "billing", "me")
		holder(t, s, "other", "me")
		r := claim(t, s, h, store.Claim{Key: key("a", 1), State: jobs.Waiting})[0]
		for name, wrong := range map[string]store.Holder{
			"another owner":   {Group: "billing", Owner: "you", Token: h.Token},
			"an older token":  {Group: "billing", Owner: "me", Token: h.Token - 1},
			"a later token":   {Group: "billing", Owner: "me", Token: h.Token + 1},
			"another group":   {Group: "other", Owner: "me", Token: h.Token},
			"a group unknown": {Group: "none", Owner: "me", Token: h.Token},
			"no holder":       {},
		} {
			for what, do := range writes(s, r) {
				if err := do(soon(t), wrong); !errors.Is(err, store.ErrReplaced) {
					t.Errorf("%s by %s: %v", what, name, err)
				}
			}
		}
		if all := runs(t, s, "billing", jobs.Filter{}); len(all) != 1 || all[0] != r {
			t.Errorf("written by others: %+v", all)
		}
		if n := count(t, db.Open(t), "SELECT (SELECT COUNT(*) FROM cronlease_run) + (SELECT COUNT(*) FROM cronlease_job)"); n != 1 {
			t.Errorf("%d rows", n)
		}
		for what, do := range writes(s, r) {
			if err := do(soon(t), h); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// While a takeover is under way, every write of the old term waits for it. When
// it commits, nothing of the old term is written, and when it rolls back, all is.
func TestWritesWaitForTakeover(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		for _, commits := range []bool{true, false} {
			for _, what := range slices.Sorted(maps.Keys(writes(s, jobs.Record{}))) {
				group := uniqueName("group")
				h := holder(t, s, group, "me")
				if err := s.Declare(soon(t), h, []store.Declared{{Name: "gone"}}); err != nil {
					t.Fatal(err)
				}
				r := claim(t, s, h, store.Claim{Key: key("a", 1), State: jobs.Waiting})[0]
				tx, err := db.Open(t).BeginTx(soon(t), nil)
				if err != nil {
					t.Fatal(err)
				}
				exec(t, tx, "UPDATE cronlease_fence SET owner = 'you', token = token + 1 WHERE name = ?", group)
				result := make(chan error)
				go func() { result <- writes(s, r)[what](soon(t), h) }()
				eventually(t, what+" waits", waits(t, db, what))
				if commits {
					err = tx.Commit()
				} else {
					err = tx.Rollback()
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := <-result; commits != errors.Is(err, store.ErrReplaced) || !commits && err != nil {
					t.Errorf("%s beside a takeover that commits (%v): %v", what, commits, err)
				}
				rows := count(t, db.Open(t), "SELECT (SELECT COUNT(*) FROM cronlease_run WHERE grp = ? AND (job = 'new' OR state > 2))"+
					" + (SELECT COUNT(*) FROM cronlease_job WHERE grp = ? AND (name = 'new' OR gone_at IS NOT NULL))", group, group)
				if want := map[bool]int{true: 0, false: 1}[commits]; rows != want {
					t.Errorf("%s beside a takeover that commits (%v): %d rows written, want %d", what, commits, rows, want)
				}
			}
		}
	})
}

// Takeovers by the store itself, one after the other, while the holders claim
// and finish. Every row has the token that was the fence's when it was written.
func TestClaimsAgainstTakeovers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		const terms, callers = 20, 3
		var all sync.WaitGroup
		var mu sync.Mutex
		ended := map[uint64]jobs.Snapshot{} // what stood at the end of a term
		claimed := map[uint64]int{}
		for term := range terms {
			h := holder(t, s, "billing", fmt.Sprintf("owner-%d", term))
			for caller := range callers {
				all.Go(func() {
					for n := 0; ; n++ {
						c, err := s.Claim(soon(t), h, id(), running(fmt.Sprintf("%d-%d", term, caller), 2*n, 2*n+1))
						if errors.Is(err, store.ErrReplaced) {
							return
						}
						if err != nil || !c[0].Mine || !c[1].Mine {
							t.Errorf("claim: %+v, %v", c, err)
							return
						}
						mu.Lock()
						claimed[h.Token] += 2
						mu.Unlock()
						if done, err := s.Move(soon(t), h, []store.Move{to(c[0].Record, jobs.Succeeded)}); err != nil && !errors.Is(err, store.ErrReplaced) {
							t.Errorf("finish: %v, %v", done, err)
							return
						}
					}
				})
			}
			enough := func() bool {
				mu.Lock()
				defer mu.Unlock()
				return claimed[h.Token] > 8
			}
			eventually(t, "the term claims", enough)
			// The takeover: from its return on, nothing of the term changes.
			a := request(t, s, "billing", "between")
			if _, err := s.Acquire(soon(t), a); err != nil {
				t.Fatal(err)
			}
			ended[h.Token] = load(t, s, "billing")
		}
		all.Wait()
		last := load(t, s, "billing")
		for token, snapshot := range ended {
			var before, after []jobs.Record
			for _, r := range snapshot.Open {
				if r.Token == token {
					before = append(before, r)
				}
			}
			for _, r := range last.Open {
				if r.Token == token {
					after = append(after, r)
				}
			}
			if !slices.Equal(before, after) {
				t.Errorf("term %d had %d open runs at its end, and %d later", token, len(before), len(after))
			}
		}
	})
}

func TestLostReplies(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		direct := migrated(t, db.DSN)
		proxy := dbtest.NewProxy(t, db.Config(t).Addr)
		s := open(t, with(t, db, func(c *mysql.Config) { c.Addr = proxy.Addr() }))
		h := holder(t, s, "billing", "me")
		openJobs(t, s, h, "a")
		lose := func(what, statement string, do func() error) {
			t.Helper()
			lost := proxy.DropReply(statement)
			err := do()
			if err == nil || errors.Is(err, store.ErrReplaced) {
				t.Errorf("%s whose reply is lost: %v", what, err)
			}
			<-lost
			if err := do(); err != nil {
				t.Errorf("%s again: %v", what, err)
			}
		}
		mine := id()
		lose("declare", "INSERT INTO `cronlease_job`", func() error { return s.Declare(soon(t), h, []store.Declared{{Name: "b"}}) })
		lose("claim", "INSERT IGNORE", func() error {
			claimed, err := s.Claim(soon(t), h, mine, running("a", 1, 2))
			if err == nil && (!claimed[0].Mine || !claimed[1].Mine) {
				t.Errorf("the claim is not mine: %+v", claimed)
			}
			return err
		})
		open := []jobs.Record{run(t, s, "billing", key("a", 1)), run(t, s, "billing", key("a", 2))}
		for _, state := range []jobs.State{jobs.Waiting, jobs.Running, jobs.Running, jobs.Failed} {
			moves := []store.Move{to(open[0], state), to(open[1], state)}
			lose("move", "UPDATE (", func() error {
				done, err := s.Move(soon(t), h, moves)
				if err == nil && (!done[0] || !done[1]) {
					t.Errorf("the move to %v is not made: %v", state, done)
				}
				return err
			})
			for i := range open {
				before := open[i]
				open[i] = run(t, direct, "billing", before.Key)
				if want := before.Attempt + map[bool]int{true: 1}[state == jobs.Running]; open[i].State != state || open[i].Attempt != want {
					t.Errorf("after %+v: %+v", before, open[i])
				}
			}
		}
		before := changes(t, s, "billing")
		lose("pause", "j.pauses = v.pauses", func() error { return s.Pause(soon(t), "billing", "a") })
		claim(t, s, h, running("b", 3)...)
		lose("cancel", "UPDATE `cronlease_run`", func() error { return s.Cancel(soon(t), "billing", key("b", 3)) })
		if changes(t, s, "billing") == before {
			t.Error("nothing has changed")
		}
		// What only reads repeats itself.
		lost := proxy.DropReply("SELECT")
		load(t, s, "billing")
		<-lost
	})
}

func TestOpenAndLoad(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		if empty := load(t, s, "billing"); empty.Jobs == nil || len(empty.Jobs)+len(empty.Open) > 0 || empty.Paused || empty.Changes != 0 || time.Since(empty.Now).Abs() > time.Minute {
			t.Errorf("nothing was opened: %+v", empty)
		}
		h := holder(t, s, "billing", "me")
		declared := []store.Declared{{Name: "b", Schedule: "every 1s"}, {Name: "a", Schedule: "cron 0 0 2 * * * \x00é"}, {Name: "A", Schedule: ""}}
		if err := s.Declare(soon(t), h, declared); err != nil {
			t.Fatal(err)
		}
		first := load(t, s, "billing")
		for _, d := range declared {
			if k := first.Jobs[d.Name]; k.Schedule != d.Schedule || k.Since.IsZero() || k.Since != k.ScheduleSince || !k.Cursor.IsZero() || !k.Finished.IsZero() || k.Paused {
				t.Errorf("%s: %+v", d.Name, k)
			}
		}
		if len(first.Jobs) != 3 {
			t.Errorf("jobs: %v", first.Jobs)
		}
		if err := s.Declare(soon(t), h, []store.Declared{{Name: "b", Schedule: "every 2s"}, declared[1]}); err != nil {
			t.Fatal(err)
		}
		second := load(t, s, "billing")
		if k := second.Jobs["b"]; k.Schedule != "every 2s" || k.Since != first.Jobs["b"].Since || !k.ScheduleSince.After(k.Since) {
			t.Errorf("a changed schedule: %+v", k)
		}
		if second.Jobs["a"] != first.Jobs["a"] || second.Jobs["A"] != first.Jobs["A"] {
			t.Errorf("others changed: %+v", second.Jobs)
		}

		// The cursor is the newest scheduled tick, of this job and group only.
		other := holder(t, s, "other", "me")
		openJobs(t, s, other, "a")
		claim(t, s, other, running("a", 50)...)
		claim(t, s, h, running("a", 1, 3, 2)...)
		claim(t, s, h, store.Claim{Key: jobs.Key{Job: "a", Tick: tick(9), Trigger: 1}, State: jobs.Running},
			store.Claim{Key: key("b", 5), State: jobs.Skipped}, store.Claim{Key: key("b", 4), State: jobs.Waiting}, store.Claim{Key: key("unknown", 0), State: jobs.Waiting})
		third := load(t, s, "billing")
		if a, b := third.Jobs["a"].Cursor, third.Jobs["b"].Cursor; a != tick(3) || b != tick(5) || !third.Jobs["A"].Cursor.IsZero() {
			t.Errorf("cursors %v and %v", a, b)
		}
		var open []string
		for _, r := range third.Open {
			open = append(open, fmt.Sprintf("%s %d %v", r.Job, r.Tick.Sub(noon)/time.Minute, r.State))
			if got := run(t, s, "billing", r.Key); got != r {
				t.Errorf("open run %+v is %+v", r, got)
			}
		}
		if want := "[unknown 0 waiting a 1 running a 2 running a 3 running b 4 waiting a 9 running]"; fmt.Sprint(open) != want {
			t.Errorf("open runs %v, want %s", open, want)
		}
	})
}

func TestLedgerWithLeastPrivileges(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		s := open(t, userDSN(t, db, uniqueName("least"), leastGrants...))
		if err := s.Check(soon(t)); err != nil {
			t.Fatal(err)
		}
		h := holder(t, s, "billing", "me")
		openJobs(t, s, h, "a", "b")
		openJobs(t, s, h, "a", "b")
		r := claim(t, s, h, running("a", 1, 2, 3)...)[0]
		if _, err := s.Claim(soon(t), h, id(), running("a", 1, 4)); err != nil {
			t.Error(err)
		}
		_, triggered := s.Trigger(soon(t), "billing", "a", jobs.Request{})
		if err := errors.Join(triggered, s.Cancel(soon(t), "billing", r.Key), s.Pause(soon(t), "billing", "a"), s.Pause(soon(t), "billing", "")); err != nil {
			t.Error(err)
		}
		move(t, s, h, to(r, jobs.Succeeded))
		if l := load(t, s, "billing"); len(l.Jobs) != 2 || len(l.Open) != 4 {
			t.Errorf("%+v", l)
		}
		for _, f := range []jobs.Filter{{}, {Job: "a"}, {State: jobs.Succeeded}} {
			if len(runs(t, s, "billing", f)) == 0 {
				t.Errorf("no runs by %+v", f)
			}
		}
		exec(t, db.Open(t), fmt.Sprintf("REVOKE DELETE ON `%s`.cronlease_run FROM '%s'@'%%'", db.Config(t).DBName, userOf(t, s)))
		without := open(t, with(t, db, func(c *mysql.Config) { c.User, c.Passwd = userOf(t, s), "secret-4711" }))
		_, err := without.Prune(soon(t), "billing", "a", jobs.History{Keep: 1}, 0)
		if !errors.Is(err, lease.ErrSetup) || !strings.Contains(err.Error(), "grant DELETE on `cronlease_run`") || strings.Contains(err.Error(), "UPDATE") {
			t.Errorf("prune without DELETE: %v", err)
		}
		exec(t, db.Open(t), fmt.Sprintf("GRANT DELETE ON `%s`.cronlease_run TO '%s'@'%%'", db.Config(t).DBName, userOf(t, s)))
		again := open(t, with(t, db, func(c *mysql.Config) { c.User, c.Passwd = userOf(t, s), "secret-4711" }))
		if n, err := again.Prune(soon(t), "billing", "a", jobs.History{Keep: 1}, 0); err != nil || n != 1 {
			t.Errorf("prune: %d, %v", n, err)
		}
	})
}

func userOf(t testing.TB, s *mysqlstore.Store) string {
	t.Helper()
	var user string
	if err := s.DB().QueryRowContext(soon(t), "SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1)").Scan(&user); err != nil {
		t.Fatal(err)
	}
	return user
}

// A claim that waits takes a connection of the ledger's, and no heartbeat, look
// or other group's takeover waits behind it.
func TestWaitingClaimsHoldUpNobody(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		pool := db.Open(t)
		pool.SetMaxOpenConns(8)
		for name, s := range map[string]*mysqlstore.Store{"DSN": migrated(t, db.DSN), "pool": openOn(t, pool)} {
			group, other := uniqueName("a"), uniqueName("b")
			h := holder(t, s, group, "me")
			mine := holder(t, s, other, "me")
			signal := s.HandoverSignal(other)
			obtain(t, signal)
			free := lockRow(t, db, "SELECT name FROM cronlease_fence WHERE name = '"+group+"' FOR UPDATE")
			var all sync.WaitGroup
			for n := range 8 {
				all.Go(func() {
					if c, err := s.Claim(soon(t), h, id(), running(fmt.Sprint("a", n), n)); err != nil || !c[0].Mine {
						t.Errorf("%s: %+v, %v", name, c, err)
					}
				})
			}
			eventually(t, "claims wait", waits(t, db, "INSERT IGNORE"))
			begin := time.Now()
			for beat := range uint64(5) {
				if n := renew(t, s, other, "me", mine.Token, beat+1, beat+2); n != 1 {
					t.Errorf("%s: %d leases renewed", name, n)
				}
			}
			if n := renew(t, s, group, "me", h.Token, 1, 2); n != 1 {
				t.Errorf("%s: %d leases of the group itself renewed", name, n)
			}
			holder(t, s, other, "you")
			if err := pool.PingContext(soon(t)); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took > patience/2 {
				t.Errorf("%s: heartbeats and a takeover took %v", name, took)
			}
			free()
			all.Wait()
			closeSignal(t, signal)
		}
	})
}

// Everything at once, on few rows: nothing fails, deadlocks are repeated.
func TestLedgerUnderContention(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s, other := migrated(t, db.DSN), open(t, db.DSN)
		h := holder(t, s, "billing", "me")
		names := []string{"a", "b", "c"}
		openJobs(t, s, h, names...)
		var all sync.WaitGroup
		work := func(do func(n int) error) {
			all.Go(func() {
				for n := range 60 {
					if err := do(n); err != nil && !errors.Is(err, jobs.ErrNoRun) && !errors.Is(err, jobs.ErrNoJob) {
						t.Error(err)
						return
					}
				}
			})
		}
		for _, s := range []*mysqlstore.Store{s, other} {
			work(func(n int) error {
				var claims []store.Claim
				for _, job := range names {
					claims = append(claims, running(job, n, n+1, n+2)...)
				}
				rand.Shuffle(len(claims), func(a, b int) { claims[a], claims[b] = claims[b], claims[a] })
				claimed, err := s.Claim(soon(t), h, id(), claims)
				if err != nil {
					return err
				}
				var moves []store.Move
				for _, c := range claimed {
					if c.State == jobs.Running {
						moves = append(moves, to(c.Record, jobs.Succeeded))
					}
				}
				_, err = s.Move(soon(t), h, moves)
				return err
			})
			work(func(n int) error { return s.Cancel(soon(t), "billing", key(names[n%3], n)) })
			work(func(n int) error { return s.Pause(soon(t), "billing", []string{"", "a", "b", "c"}[n%4]) })
			work(func(n int) error { return s.Resume(soon(t), "billing", []string{"", "a", "b", "c"}[n%4]) })
			work(func(n int) error { return s.Gone(soon(t), h, names[n%3:]) })
			work(func(n int) error {
				_, err := s.PassOver(soon(t), h, names[n%3], tick(n))
				return err
			})
			work(func(n int) error {
				gone, err := s.GoneSince(soon(t), "billing", names[n%3])
				if err == nil {
					_, err = s.Forget(soon(t), "billing", names[n%3], gone)
				}
				return err
			})
			work(func(n int) error {
				return s.NoteTerm(soon(t), store.TermNote{Holder: store.Holder{Group: "billing", Owner: "me", Token: uint64(1 + n%5)}, Over: n%2 == 0, Before: noon})
			})
			work(func(n int) error {
				return s.Declare(soon(t), h, []store.Declared{{Name: names[n%3], Schedule: fmt.Sprint(n)}})
			})
			work(func(n int) error {
				_, err := s.Prune(soon(t), "billing", names[n%3], jobs.History{Keep: 5}, 3)
				return err
			})
			work(func(n int) error { _, err := s.Trigger(soon(t), "billing", names[n%3], jobs.Request{}); return err })
			work(func(int) error { _, err := s.Load(soon(t), "billing"); return err })
		}
		all.Wait()
	})
}
