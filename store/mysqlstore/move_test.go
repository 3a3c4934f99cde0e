package mysqlstore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

func TestMoves(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		for name, s := range map[string]*mysqlstore.Store{"DSN": migrated(t, db.DSN), "odd pool": openOn(t, openSQL(t, oddDSN(t, db)))} {
			group := uniqueName("g")
			h := holder(t, s, group, "me")
			openJobs(t, s, h, "a", "b")
			r := claim(t, s, h, running("a", 1)...)[0]
			see := func(want jobs.State, attempt int, text string) {
				t.Helper()
				before := r
				r = run(t, s, group, r.Key)
				if r.State != want || r.Attempt != attempt || r.Error != text || r.Owner != h.Owner || r.Token != h.Token || r.Claimed != before.Claimed {
					t.Errorf("%s: %+v", name, r)
				}
			}
			retry := to(r, jobs.Waiting)
			retry.Delay, retry.Error = time.Hour, "once"
			move(t, s, h, retry)
			see(jobs.Waiting, 1, "once")
			if d := r.Due.Sub(r.Claimed); d < time.Hour || d > time.Hour+time.Minute || !r.Finished.IsZero() {
				t.Errorf("%s: due %v later", name, d)
			}
			first := r.Started
			move(t, s, h, to(r, jobs.Running))
			see(jobs.Running, 2, "")
			if !r.Started.After(first) {
				t.Errorf("%s: started again: %+v", name, r)
			}
			if k := load(t, s, group).Jobs["a"]; !k.Finished.IsZero() {
				t.Errorf("%s: finished %v", name, k.Finished)
			}
			fail := to(r, jobs.Failed)
			fail.Error = strings.Repeat("é", store.MaxError)
			move(t, s, h, fail)
			see(jobs.Failed, 2, strings.Repeat("é", store.MaxError/2))
			if r.Finished.Before(r.Started) {
				t.Errorf("%s: finished %v before %v", name, r.Finished, r.Started)
			}
			if k := load(t, s, group).Jobs; k["a"].Finished != r.Finished || !k["b"].Finished.IsZero() {
				t.Errorf("%s: the job finished %v, its run %v", name, k["a"].Finished, r.Finished)
			}
			// Repetitions, and nothing more from here.
			move(t, s, h, fail)
			for _, m := range []store.Move{to(claim(t, s, h, running("b", 1)...)[0], jobs.Running), {Key: key("b", 2), From: jobs.Running, To: jobs.Running}} {
				done, err := s.Move(soon(t), h, []store.Move{m, m, m})
				if err != nil || done[0] != done[1] || done[0] != (m.Owner != "") {
					t.Errorf("%s: %+v: %v, %v", name, m, done, err)
				}
			}
			// Rows of both tables are counted when some are not as expected.
			rs := append(claim(t, s, h, running("a", 2, 3)...), claim(t, s, h, running("b", 4)...)...)
			some := []store.Move{to(rs[0], jobs.Succeeded), to(rs[1], jobs.Waiting), to(rs[2], jobs.Failed)}
			for i := range some {
				mixed := slices.Clone(some)
				mixed[i].Attempt++
				done, err := s.Move(soon(t), h, mixed)
				if err != nil || done[i] || !done[(i+1)%3] || !done[(i+2)%3] {
					t.Errorf("%s: all but move %d: %v, %v", name, i, done, err)
				}
			}
			if n := run(t, s, group, key("b", 1)).Attempt; n != 2 {
				t.Errorf("%s: one move three times made attempt %d", name, n)
			}
		}
	})
}

func TestMoveComparesAll(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		h := holder(t, s, "billing", "me")
		r := claim(t, s, h, running("a", 1)...)[0]
		other := holder(t, s, "other", "me")
		theirs := claim(t, s, other, running("b", 1)...)[0]
		for name, change := range map[string]func(*store.Move){
			"state":   func(m *store.Move) { m.From = jobs.Waiting },
			"attempt": func(m *store.Move) { m.Attempt = 0 },
			"owner":   func(m *store.Move) { m.Owner = "you" },
			"token":   func(m *store.Move) { m.Token-- },
			"tick":    func(m *store.Move) { m.Tick = tick(2) },
			"trigger": func(m *store.Move) { m.Trigger = 1 },
			"job":     func(m *store.Move) { m.Job = "A" },
			"group":   func(m *store.Move) { m.Job = "b" },
		} {
			m := to(r, jobs.Succeeded)
			change(&m)
			if done, err := s.Move(soon(t), h, []store.Move{m}); err != nil || done[0] {
				t.Errorf("another %s: %v, %v", name, done, err)
			}
		}
		if got := run(t, s, "billing", r.Key); got != r {
			t.Errorf("the run became %+v", got)
		}
		if done, err := s.Move(soon(t), h, []store.Move{to(theirs, jobs.Succeeded)}); err != nil || done[0] {
			t.Errorf("another group's run: %v, %v", done, err)
		}
		mixed := store.Holder{Group: "other", Owner: h.Owner, Token: h.Token}
		if done, err := s.Move(soon(t), mixed, []store.Move{to(theirs, jobs.Succeeded)}); !errors.Is(err, store.ErrReplaced) {
			t.Errorf("by another group's term: %v, %v", done, err)
		}
		if got := run(t, s, "other", theirs.Key); got != theirs {
			t.Errorf("the other group's run became %+v", got)
		}
		// What another term did is not what this one wanted.
		m := to(r, jobs.Waiting)
		move(t, s, h, m)
		if done, err := s.Move(soon(t), store.Holder{Group: "billing", Owner: "you", Token: h.Token}, []store.Move{m}); !errors.Is(err, store.ErrReplaced) {
			t.Errorf("by another owner: %v, %v", done, err)
		}
		if done, err := s.Move(soon(t), holder(t, s, "billing", "me"), []store.Move{m}); err != nil || done[0] {
			t.Errorf("by a later term: %v, %v", done, err)
		}
	})
}

// Moves that are all done are one statement, whether they end runs or not: their rows are not read back.
func TestMovesAreOneStatement(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		migrated(t, db.DSN)
		proxy := dbtest.NewProxy(t, db.Config(t).Addr)
		s := open(t, with(t, db, func(c *mysql.Config) { c.Addr = proxy.Addr() }))
		h := holder(t, s, "billing", "me")
		if err := s.Declare(soon(t), h, []store.Declared{{Name: "a", Schedule: "every 1m"}}); err != nil {
			t.Fatal(err)
		}
		claimed := claim(t, s, h, running("a", 1)[0], store.Claim{Key: running("a", 2)[0].Key, State: jobs.Waiting})
		back := proxy.DropRequest("SELECT r.grp IS NOT NULL")
		move(t, s, h, to(claimed[1], jobs.Running))
		move(t, s, h, to(claimed[0], jobs.Succeeded))
		h.Assigns = true
		r := claim(t, s, h, store.Claim{Key: key("a", 3), State: jobs.Waiting})[0]
		assign := to(r, jobs.Waiting)
		assign.For = store.Assignee{Owner: h.Owner, Token: h.Token}
		move(t, s, h, assign)
		r.Owner, r.Token = h.Owner, h.Token
		move(t, s, h, to(r, jobs.Running))
		r.State, r.Attempt = jobs.Running, 1
		move(t, s, h, to(r, jobs.Succeeded))
		select {
		case <-back:
			t.Error("the rows were read back")
		default:
		}
	})
}

// A replaced holder finishes nothing, and a run that another term has taken
// over stays as it is.
func TestZombieIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		old := holder(t, s, "billing", "me")
		rs := claim(t, s, old, running("a", 1, 2, 3)...)
		move(t, s, old, to(rs[2], jobs.Succeeded))
		next := holder(t, s, "billing", "you")
		refused := func(when string) {
			t.Helper()
			if done, err := s.Move(soon(t), old, []store.Move{to(rs[0], jobs.Succeeded), to(rs[1], jobs.Waiting)}); !errors.Is(err, store.ErrReplaced) {
				t.Errorf("%s: %v, %v", when, done, err)
			}
		}
		refused("before the run is taken over")
		move(t, s, next, to(rs[0], jobs.Running), to(rs[1], jobs.Interrupted))
		refused("after it was taken over")
		if r := run(t, s, "billing", rs[0].Key); r.Owner != "you" || r.Token != next.Token || r.Attempt != 2 || r.State != jobs.Running {
			t.Errorf("taken over: %+v", r)
		}
		if r := run(t, s, "billing", rs[1].Key); r.State != jobs.Interrupted {
			t.Errorf("interrupted: %+v", r)
		}
		// What it did before may be repeated, and says so.
		if done, err := s.Move(soon(t), old, []store.Move{to(rs[2], jobs.Succeeded)}); err != nil || !done[0] {
			t.Errorf("repeated: %v, %v", done, err)
		}
		if done, err := s.Move(soon(t), old, []store.Move{to(rs[2], jobs.Succeeded), to(rs[0], jobs.Succeeded)}); err != nil || !done[0] || done[1] {
			t.Errorf("repeated with another: %v, %v", done, err)
		}
		// The same term, but an attempt that is over.
		if done, err := s.Move(soon(t), next, []store.Move{{Key: rs[0].Key, From: jobs.Running, Attempt: 1, Owner: "you", Token: next.Token, To: jobs.Succeeded}}); err != nil || done[0] {
			t.Errorf("an old attempt: %v, %v", done, err)
		}
		if done, err := s.Move(soon(t), old, nil); err != nil || len(done) != 0 {
			t.Errorf("no move: %v, %v", done, err)
		}
	})
}
