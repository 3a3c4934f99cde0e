package mysqlstore_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/store"
)

func TestRuns(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		h, other := holder(t, s, "billing", "me"), holder(t, s, "other", "me")
		claim(t, s, other, running("a", 100, 3)...)
		var all []jobs.Record
		for n := range 150 {
			c := store.Claim{Key: key([]string{"a", "b", "c"}[n%3], n/2), State: jobs.State(n%2) + 1, Missed: n}
			if n%10 == 0 {
				c.Trigger = 1
			}
			if n%7 == 0 {
				c.State = jobs.Skipped
			}
			all = append(all, claim(t, s, h, c)...)
		}
		for trigger := range uint64(3) { // three runs of one instant
			all = append(all, claim(t, s, h, store.Claim{Key: jobs.Key{Job: "a", Tick: tick(65), Trigger: trigger + 5}, State: jobs.Skipped})...)
		}
		for _, f := range []jobs.Filter{
			{}, {Limit: 1}, {Limit: 1000}, {Job: "a"}, {Job: "a", Limit: 3}, {Job: "none"}, {State: jobs.Waiting}, {State: jobs.Skipped, Limit: 5}, {State: jobs.Failed},
			{Since: tick(70)}, {Since: tick(70).Add(1)}, {Since: tick(60), Job: "b"}, {Since: tick(60), Job: "b", State: jobs.Running}, {Since: tick(60), State: jobs.Skipped, Limit: 2}, {Job: "c", State: jobs.Skipped},
		} {
			var want []jobs.Record
			for _, r := range all {
				if (f.Job == "" || f.Job == r.Job) && (f.State == 0 || f.State == r.State) && !r.Tick.Before(f.Since) {
					want = append(want, r)
				}
			}
			newest := func(a, b jobs.Record) int { return b.Tick.Compare(a.Tick) }
			got := runs(t, s, "billing", f)
			limit := cmp.Or(f.Limit, 100)
			if len(got) != min(limit, len(want)) || !slices.IsSortedFunc(got, newest) {
				t.Errorf("%+v: %d runs of %d", f, len(got), len(want))
				continue
			}
			slices.SortFunc(want, newest)
			for i, r := range got {
				if !slices.Contains(want, r) || !r.Tick.Equal(want[i].Tick) {
					t.Errorf("%+v: run %d is %+v, want one of the tick %v", f, i, r, want[i].Tick)
				}
			}
		}
	})
}

// A scheduled run that is newer than the newest one that was read is not pruned: it
// says where the job's ticks go on.
func TestPruneWhenNewerRunsWereMissed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		h := holder(t, s, "billing", "me")
		claims := running("a", 1, 2, 3)
		for i := range claims {
			claims[i].State = jobs.Skipped
		}
		claim(t, s, h, append(claims, store.Claim{Key: jobs.Key{Job: "a", Tick: tick(4), Trigger: 1}, State: jobs.Skipped})...)
		for newest, want := range map[int64]int{
			tick(3).UnixMicro(): 3, // two, and the manual run
			tick(2).UnixMicro(): 2,
			-1 << 62:            1, // none was read
		} {
			if n := count(t, db.Open(t), "SELECT COUNT(*) FROM ("+s.Prunable("billing", "a", newest)+") AS found"); n != want {
				t.Errorf("%d rows may be pruned below %d, want %d", n, newest, want)
			}
		}
	})
}

func TestPrune(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		h, other := holder(t, s, "billing", "me"), holder(t, s, "other", "me")
		skip := func(h store.Holder, job string, ticks ...int) {
			claims := running(job, ticks...)
			for i := range claims {
				claims[i].State = jobs.Skipped
			}
			claim(t, s, h, claims...)
		}
		left := func(group, job string) (ticks []int) {
			for _, r := range runs(t, s, group, jobs.Filter{Job: job, Limit: 1000}) {
				ticks = append(ticks, int(r.Tick.Sub(noon)/time.Minute))
			}
			slices.Reverse(ticks)
			return ticks
		}
		prune := func(job string, history jobs.History, batch, want int, rest ...int) {
			t.Helper()
			n, err := s.Prune(soon(t), "billing", job, history, batch)
			if err != nil || n != want || !slices.Equal(left("billing", job), rest) {
				t.Errorf("%+v, batch %d: %d deleted (want %d), left %v (want %v): %v", history, batch, n, want, left("billing", job), rest, err)
			}
		}
		old := func(job string, n int, by string) {
			exec(t, db.Open(t), "UPDATE cronlease_run SET claimed_at = claimed_at - INTERVAL "+by+", finished_at = finished_at - INTERVAL "+by+
				" WHERE job = ? AND tick = ?", job, tick(n).UnixMicro())
		}
		skip(h, "a", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
		skip(h, "b", 0, 1, 2)
		skip(other, "a", 0, 1, 20)
		prune("a", jobs.History{}, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
		prune("a", jobs.History{Keep: 20, For: time.Hour}, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
		prune("a", jobs.History{Keep: 4}, 2, 2, 2, 3, 4, 5, 6, 7, 8, 9)
		prune("a", jobs.History{Keep: 7}, 0, 1, 3, 4, 5, 6, 7, 8, 9)
		old("a", 3, "1 HOUR")
		old("a", 5, "59 MINUTE")
		old("a", 6, "1 HOUR")
		prune("a", jobs.History{For: time.Hour}, 0, 2, 4, 5, 7, 8, 9)
		old("a", 9, "1 DAY")
		old("a", 8, "1 DAY")
		prune("a", jobs.History{Keep: 4, For: time.Hour}, 0, 2, 5, 7, 9)
		prune("a", jobs.History{Keep: 1}, 0, 2, 9)
		prune("a", jobs.History{Keep: 1, For: 1}, 0, 0, 9)

		// Neither what is not over, nor the newest scheduled tick below newer
		// manual runs.
		mixed := running("c", 0, 1, 2, 3)
		mixed[1].State, mixed[3].State = jobs.Skipped, jobs.Skipped
		open := claim(t, s, h, mixed...)
		var manual []store.Claim
		for n := range 5 {
			manual = append(manual, store.Claim{Key: jobs.Key{Job: "c", Tick: tick(3 + n), Trigger: 1}, State: jobs.Skipped})
		}
		claim(t, s, h, manual...)
		prune("c", jobs.History{Keep: 2}, 3, 3, 0, 2, 3, 5, 6, 7)
		prune("c", jobs.History{Keep: 2}, 3, 1, 0, 2, 3, 6, 7)
		if c := load(t, s, "billing").Jobs["c"].Cursor; !c.IsZero() {
			t.Errorf("a job that is not known has the cursor %v", c)
		}
		move(t, s, h, to(open[0], jobs.Succeeded))
		prune("c", jobs.History{Keep: 2}, 0, 1, 2, 3, 6, 7)
		if got := fmt.Sprint(left("billing", "b"), left("other", "a")); got != "[0 1 2] [0 1 20]" {
			t.Errorf("others became %s", got)
		}
		// Of runs at one instant, the later keys are kept.
		var same []store.Claim
		for n := range 5 {
			same = append(same, store.Claim{Key: jobs.Key{Job: "d", Tick: tick(4), Trigger: uint64(n + 1)}, State: jobs.Skipped})
		}
		claim(t, s, h, same...)
		prune("d", jobs.History{Keep: 3}, 0, 2, 4, 4, 4)
		prune("d", jobs.History{Keep: 3}, 0, 0, 4, 4, 4)
		for _, history := range []jobs.History{{Keep: -1}, {For: -1}} {
			if _, err := s.Prune(soon(t), "billing", "a", history, 0); err == nil {
				t.Errorf("%+v is accepted", history)
			}
		}

		// More than a statement deletes.
		var many []int
		for n := range 1300 {
			many = append(many, n)
		}
		skip(h, "many", many...)
		if n, err := s.Prune(soon(t), "billing", "many", jobs.History{Keep: 1}, 0); err != nil || n != 500 {
			t.Errorf("%d deleted by default: %v", n, err)
		}
		prune("many", jobs.History{Keep: 1}, 2000, 799, 1299)
	})
}

// The attempts go with their runs, whatever older run is kept: the newest tick of a
// schedule is, also when the job is only triggered since. So do those of runs that were
// pruned by a program which knows of no attempts, and nothing else does.
func TestPruneDeletesAttempts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		h := holder(t, s, "billing", "me")
		openJobs(t, s, h, "a", "b")
		prints := func(r jobs.Record) store.Move {
			m := to(r, jobs.Succeeded)
			m.Output = []byte("output")
			return m
		}
		move(t, s, h, prints(claim(t, s, h, running("b", 1)...)[0]), prints(claim(t, s, h, running("a", 0)...)[0]))
		var moves []store.Move
		for n := range 700 {
			r := claim(t, s, h, store.Claim{Key: jobs.Key{Job: "a", Tick: tick(1 + n), Trigger: 5}, State: jobs.Running})[0]
			moves = append(moves, prints(r))
		}
		move(t, s, h, moves...)
		pool := db.Open(t)
		exec(t, pool, "DELETE FROM cronlease_run WHERE job = 'a' AND tick < ? AND trigger_id > 0", tick(101).UnixMicro())
		attempts := func(job string) (n int) {
			t.Helper()
			if err := pool.QueryRowContext(soon(t), "SELECT COUNT(*) FROM cronlease_attempt WHERE job = ?", job).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := attempts("a"); n != 701 {
			t.Fatalf("%d attempts, want 701", n)
		}
		n, err := s.Prune(soon(t), "billing", "a", jobs.History{Keep: 50}, 1000)
		if err != nil || n != 550 {
			t.Fatalf("%d runs pruned, %v", n, err)
		}
		if n := len(runs(t, s, "billing", jobs.Filter{Job: "a", Limit: 1000})); n != 51 || attempts("a") != 51 || attempts("b") != 1 {
			t.Errorf("%d runs are left, with %d attempts, and %d of the other job: want 51, 51 and 1", n, attempts("a"), attempts("b"))
		}
		all, err := s.Attempts(soon(t), "billing", key("a", 0))
		if err != nil || len(all) != 1 || string(all[0].Output) != "output" {
			t.Errorf("attempts at the newest tick: %+v, %v", all, err)
		}
	})
}
